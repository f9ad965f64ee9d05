"""Our client at RocketMQ's own servers, of any version that is at hand.

`PENSTOCK_ROCKETMQ_JAVA` names folders with jars, of which those with a broker are tested; without
one the tests are skipped.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from tools.campaigns import clients
from tools.campaigns.clients import ENDED_MS_MAX
from tools.harness.rocketmq.java_servers import SERVERS, missing_servers, variables
from tools.harness.rocketmq.programs import run_servers

# A client that dies leaves its sockets to the collector.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

ROOT = Path(__file__).parent.parent.parent
FAULTS = 7
"""One of each kind."""


@pytest.fixture(params=SERVERS or ["none"])
def version(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A version whose servers are started in the place of ours."""
    reason = missing_servers()
    if reason is not None:
        pytest.skip(reason)
    for name, command in variables(SERVERS[request.param], tmp_path / "java").items():
        monkeypatch.setenv(name, command)
    return str(request.param)


async def test_every_fault_once(version: str) -> None:
    result = await clients.clients(FAULTS, random.Random(1), jars=SERVERS[version])
    assert not result.faults, str(result)


def test_its_own_tests(version: str, tmp_path: Path) -> None:
    """Those that need no server of their own; 4.9 has no POP and no delays but its levels."""
    chosen = ["-k", "not pop and not timed"] if version.startswith("4.") else []
    with run_servers(tmp_path / "servers", transactionTimeOut=ENDED_MS_MAX,
                     transactionCheckInterval=ENDED_MS_MAX,
                     traceTopicEnable="true") as servers:  # fmt: skip
        ended = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *chosen,
             "tests/programs/rocketmq/client"],
            env=os.environ | {
                "PENSTOCK_ROCKETMQ_SERVERS": f"{servers.address},127.0.0.1:{servers.broker_port}"
            },
            cwd=ROOT, capture_output=True, text=True,
        )  # fmt: skip
    assert ended.returncode == 0, ended.stdout[-5000:]
