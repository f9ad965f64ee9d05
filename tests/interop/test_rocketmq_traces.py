"""Java's mqadmin reads the traces of our client, those of transactions among them.

`PENSTOCK_ROCKETMQ_JAVA` names the folder with the jars of 4.9, whose tool decodes every entry of a
trace, and shows nothing of those that it cannot read.
"""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.rocketmq.client import Message, TransactionState
from penstock.rocketmq.client.blocking import Producer
from tools.harness.rocketmq.java import FOLDERS, VARIABLE, missing
from tools.harness.rocketmq.servers import QUICK, SECONDS, run_servers
from tools.replay.record_mqadmin import java_tool


@pytest.mark.parametrize("state", [TransactionState.COMMIT, TransactionState.ROLLBACK])
def test_a_transaction(state: TransactionState, tmp_path: Path) -> None:
    if reason := missing():
        pytest.skip(reason)
    if not any(name.startswith("4.9") for name in FOLDERS):
        pytest.skip(f"{VARIABLE} names no client 4.9")
    config = replace(QUICK, enable_msg_trace=True)
    with (
        run_servers(traceTopicEnable="true") as servers,
        java_tool(tmp_path / "tool") as tool,
    ):
        with Producer("desk", servers.address, config=config, on_check=lambda _: state) as producer:
            message = Message("trades", b"x", keys="k")
            found = producer.send_in_transaction(message, lambda _: state)
        words = ["queryMsgTraceById", "-n", servers.address, "-i", found.sent.id]
        ends = time.monotonic() + SECONDS
        while "desk" not in (told := tool.run(words)):
            assert time.monotonic() < ends, told
    lines = [line.split() for line in told.splitlines() if line]
    assert [words[:2] for words in lines] == [["#Type", "#ProducerGroup"], ["Pub", "desk"]]
    assert lines[1][-1] == "success"
