"""A RocketMQ broker with NSQ's ports is healthy without a channel."""

from __future__ import annotations

from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode
from penstock.testing.daemons import run_mqbroker
from tests.unit.cli.nodes_at_work import Commands
from tools.harness.rocketmq.raw_client import RawClient


def test_messages_of_rocketmq_wait_for_no_channel(command: Commands) -> None:
    with run_mqbroker() as broker:
        client = RawClient(broker.port)
        answer = client.ask(
            RequestCode.SEND_MESSAGE, b"body", producerGroup="p", topic="t", defaultTopic="TBW102",
            defaultTopicQueueNums=4, queueId=1, sysFlag=0, bornTimestamp=0, flag=0, properties="",
            reconsumeTimes=0, unitMode="false", batch="false",
        )  # fmt: skip
        client.close()
        assert answer.code == ResponseCode.SUCCESS, answer.remark
        ended = command("doctor", f"--nsqd-http-address={broker.http}")
        assert (ended.code, ended.out.splitlines()[-1]) == (0, "no fault found"), ended.out
