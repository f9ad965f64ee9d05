"""Each example runs against real daemons and says what it should."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.testing import Daemon, run_nsqd
from tools.harness.rocketmq.servers import run_servers

EXAMPLES = Path(__file__).parents[1] / "examples"
EXPECTED = {
    "blocking_worker": "copied a\ncopied b\ncopied c\n",
    "consume": "tea attempt 1\ncoffee attempt 1\nlast attempt 1\n",
    "deliveries": f"the sum is {sum(range(5000))}\n",
    "flights": "published 336776 flights\n",
    "handler": "handled unlucky at attempt 2\n",
    "publish": "published 1004 messages\n",
    "several_nodes": "is dead: 127.0.0.1:1: dial tcp 127.0.0.1:1: connect: connection refused\n",
}

ROCKETMQ_EXPECTED = {
    "rocketmq_orders": "order 1 placed paid shipped\norder 2 placed paid shipped\n",
    "rocketmq_retries": "delivered unlucky after 1 failures\n",
    "rocketmq_transaction": "payment a COMMIT\npayment b ROLLBACK\nbooked a 5\n",
}


@pytest.fixture(scope="module")
def name_server() -> Iterator[str]:
    with run_servers() as servers:
        yield servers.address


@pytest.fixture(scope="module")
def nsqd() -> Iterator[Daemon]:
    with run_nsqd() as daemon:
        yield daemon


def test_all_examples_are_run() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.py")} == {*EXPECTED, *ROCKETMQ_EXPECTED}


@pytest.mark.parametrize("name", EXPECTED)
def test_example(nsqd: Daemon, name: str) -> None:
    more = ["127.0.0.1:1"] if name == "several_nodes" else []
    done = run(name, nsqd.tcp, *more)
    assert ("Traceback" in done.stderr) == (name == "handler")  # its handler raises
    assert EXPECTED[name] in done.stdout


@pytest.mark.parametrize("name", ROCKETMQ_EXPECTED)
def test_example_of_rocketmq(name_server: str, name: str) -> None:
    done = run(name, name_server)
    assert "Traceback" not in done.stderr
    assert ROCKETMQ_EXPECTED[name] in done.stdout


def run(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLES / f"{name}.py"), *arguments],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done
