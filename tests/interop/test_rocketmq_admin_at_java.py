"""nsqadmin over RocketMQ's own servers, of any version that is at hand.

Its own tests on a small cluster are run over them: overview, topics, groups, messages by all that
they can be found by, traces, resets, dead letters. `PENSTOCK_ROCKETMQ_JAVA` names folders with
jars, of which those with a broker are tested; without one the tests are skipped.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tools.harness.rocketmq.java_servers import SERVERS, missing_servers, variables
from tools.harness.rocketmq.programs import run_servers

ROOT = Path(__file__).parent.parent.parent
OTHER_WORDS = "not rules"
"""Java's brokers say otherwise that they have no access rules."""


@pytest.mark.parametrize("tests", ["test_api.py", "changes/test_api.py"])
@pytest.mark.parametrize("version", SERVERS or ["none"])
def test_its_own_tests(
    version: str, tests: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reason = missing_servers()
    if reason is not None:
        pytest.skip(reason)
    for name, command in variables(SERVERS[version], tmp_path / "java").items():
        monkeypatch.setenv(name, command)
    with run_servers(tmp_path / "servers", traceTopicEnable="true") as servers:
        ended = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", OTHER_WORDS,
             f"tests/programs/admin/rocketmq/{tests}"],
            env=os.environ | {
                "PENSTOCK_ROCKETMQ_SERVERS": f"{servers.address},127.0.0.1:{servers.broker_port}"
            },
            cwd=ROOT, capture_output=True, text=True,
        )  # fmt: skip
    assert ended.returncode == 0, ended.stdout[-5000:]
