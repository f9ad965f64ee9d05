"""Each example runs against a real nsqd and says what it should."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.testing import Daemon, run_nsqd

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


@pytest.fixture(scope="module")
def nsqd() -> Iterator[Daemon]:
    with run_nsqd() as daemon:
        yield daemon


def test_all_examples_are_run() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.py")} == set(EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
def test_example(nsqd: Daemon, name: str) -> None:
    more = ["127.0.0.1:1"] if name == "several_nodes" else []
    done = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLES / f"{name}.py"), nsqd.tcp, *more],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert ("Traceback" in done.stderr) == (name == "handler")  # its handler raises
    assert EXPECTED[name] in done.stdout
