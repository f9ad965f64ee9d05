"""The programs themselves: nsqd with RocketMQ's port, and later without."""

from __future__ import annotations

import re
import time
import zlib
from pathlib import Path

from penstock.nsq.client.blocking import Consumer, Producer
from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode
from penstock.rocketmq.protocol.messages import properties
from penstock.rocketmq.protocol.messages.message import decode_all
from penstock.testing.daemons import POLL_S, Daemon, run_nsqd
from tools.harness.rocketmq.raw_client import RawClient

SECONDS = 30.0
TEXT = b"worth packing " * 500


def rocketmq_port(nsqd: Daemon) -> int:
    """The port that nsqd opens after its own."""
    for _ in range(int(SECONDS / POLL_S)):
        found = re.search(r"RocketMQ: listening on \S+:(\d+)", nsqd.log())
        if found is not None:
            return int(found[1])
        time.sleep(POLL_S)
    raise AssertionError(nsqd.log())


def test_what_rocketmq_left_behind_is_nsqs(tmp_path: Path) -> None:
    flags = ("--rocketmq-address=127.0.0.1:0",)
    with run_nsqd(*flags, data_path=tmp_path) as nsqd:
        client = RawClient(rocketmq_port(nsqd))
        with Producer(nsqd.tcp) as producer:
            producer.publish("t", b"nsq")
        answer = client.ask(
            RequestCode.SEND_MESSAGE, zlib.compress(TEXT), producerGroup="PG", topic="t",
            defaultTopic="TBW102", defaultTopicQueueNums=4, queueId=0, sysFlag=1, flag=0,
            bornTimestamp=1, properties=properties.join({"TAGS": "a"}), reconsumeTimes=0,
        )  # fmt: skip
        assert answer.code == ResponseCode.SUCCESS, answer.remark
        pulled = client.ask(
            RequestCode.PULL_MESSAGE, consumerGroup="G", topic="t", queueId=0, queueOffset=0,
            maxMsgNums=32, sysFlag=4, commitOffset=0, suspendTimeoutMillis=0, subscription="*",
            subVersion=1,
        )  # fmt: skip
        assert [each.body for each in decode_all(pulled.body)] == [b"nsq", zlib.compress(TEXT)]
        client.close()
    with (
        run_nsqd(data_path=tmp_path) as nsqd,
        Consumer("t", "c", nsqd_tcp_addresses=[nsqd.tcp], max_in_flight=2) as consumer,
    ):
        messages = [consumer.get(SECONDS) for _ in range(2)]
        assert [each and each.body for each in messages] == [b"nsq", TEXT]
        assert "RocketMQ: listening" not in nsqd.log()
