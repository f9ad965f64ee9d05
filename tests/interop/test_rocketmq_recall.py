"""RocketMQ's own Java client takes a message for later back, which 5.3 can do."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode
from penstock.testing.daemons import run_mqbroker, run_mqnamesrv
from tools.harness.rocketmq.java import JVM
from tools.harness.rocketmq.raw_client import RawClient
from tools.harness.rocketmq.servers import make_topic

from .test_rocketmq_pop import SECONDS, compiled

STEPS = "first SEND_OK\nsecond SEND_OK\nrecalled true\n"


def test_a_java_producer_takes_a_message_back(tmp_path: Path) -> None:
    class_path = compiled("Recall", tmp_path)
    with (
        run_mqnamesrv() as names,
        run_mqbroker(name_server=names.rocketmq, recallMessageEnable="true") as broker,
    ):
        make_topic(broker, "T", queues=1)
        client = RawClient(broker.port)
        ended = subprocess.run(
            ["nice", "java", *JVM, f"-Duser.home={tmp_path}", "-cp", class_path, "Recall",
             names.rocketmq, "T"],
            capture_output=True, text=True, timeout=SECONDS, env={**os.environ},
        )  # fmt: skip
        assert (ended.returncode, ended.stdout) == (0, STEPS), ended.stderr
        # The first was sent before the second, and would be here before it.
        answer = client.ask(
            RequestCode.PULL_MESSAGE, consumerGroup="G", topic="T", queueId=0, queueOffset=0,
            maxMsgNums=32, sysFlag=6, commitOffset=0, suspendTimeoutMillis=20_000,
            subscription="*", subVersion=0,
        )  # fmt: skip
        assert answer.code == ResponseCode.SUCCESS, answer.remark
        assert b"second" in answer.body
        assert b"first" not in answer.body
        client.close()
