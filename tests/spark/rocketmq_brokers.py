"""A name server and a broker, real programs both, and what fills them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from penstock.log_api.log_client import LogClient
from penstock.rocketmq.blocking import RemotingLink
from penstock.rocketmq.protocol import fastjson
from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode
from penstock.rocketmq.protocol.command import Command
from penstock.rocketmq.protocol.message_queue import MessageQueue
from penstock.rocketmq.protocol.messages import batch_body, properties
from penstock.rocketmq.protocol.messages.batch_body import BatchedMessage
from penstock.testing.daemons import MqBroker, MqNamesrv, run_mqbroker, run_mqnamesrv

WAYS = ("http", "namesrv")
"""The ways to read: a Penstock node over HTTP, or any broker by RocketMQ's own protocol."""


class Brokers:
    """One broker behind one name server."""

    def __init__(self, namesrv: MqNamesrv, broker: MqBroker) -> None:
        self.namesrv = namesrv
        self.broker = broker

    def options(self, way: str) -> dict[str, str]:
        """The options by which Spark finds the broker."""
        if way == "http":
            return {"nsqd_http_address": self.broker.http}
        return {"namesrvAddr": self.namesrv.rocketmq}

    def name(self, way: str, topic: str) -> str:
        """The broker in offsets and in the column ``broker``."""
        if way == "namesrv":
            return "broker-a"
        with LogClient(self.broker.http) as log:
            return log.offsets(topic).node

    def ask(self, code: RequestCode, body: bytes = b"", **fields: Any) -> Command:
        link = RemotingLink(self.broker.rocketmq, 30.0)
        try:
            answer = link.ask(code, fields, body)
        finally:
            link.close()
        assert answer.code == ResponseCode.SUCCESS, answer.remark
        return answer

    def make_topic(self, topic: str, queues: int = 4) -> None:
        self.ask(
            RequestCode.UPDATE_AND_CREATE_TOPIC, topic=topic, defaultTopic="TBW102",
            readQueueNums=queues, writeQueueNums=queues, perm=6, topicFilterType="SINGLE_TAG",
            order="false",
        )  # fmt: skip

    def delete_topic(self, topic: str) -> None:
        """At the broker and at the name server, as mqadmin does."""
        self.ask(RequestCode.DELETE_TOPIC_IN_BROKER, topic=topic)
        link = RemotingLink(self.namesrv.rocketmq, 30.0)
        link.ask(RequestCode.DELETE_TOPIC_IN_NAMESRV, {"topic": topic})
        link.close()

    def send(
        self, topic: str, queue: int, bodies: Sequence[bytes], sys_flag: int = 0, **named: str
    ) -> None:
        """One batch of messages with these properties."""
        text = properties.join(named)
        self.ask(
            RequestCode.SEND_BATCH_MESSAGE,
            batch_body.encode(BatchedMessage(each, text) for each in bodies), a="PG", b=topic,
            c="TBW102", d=4, e=queue, f=sys_flag, g=1_700_000_000_000, h=0,
            i="", j=0, k="false", m="true",
        )  # fmt: skip

    def lag(self, topic: str, group: str) -> dict[int, int]:
        """The group's lag by queue, as ``mqadmin consumerProgress`` shows it."""
        body = self.ask(RequestCode.GET_CONSUME_STATS, consumerGroup=group, topic=topic).body
        table = fastjson.loads(body)["offsetTable"]
        return {
            MessageQueue.from_json(dict(key)).queueId: each["brokerOffset"] - each["consumerOffset"]
            for key, each in table.items()
        }


@contextmanager
def run_brokers(**settings: Any) -> Iterator[Brokers]:
    """Both programs, until the end of the block."""
    with (
        run_mqnamesrv() as namesrv,
        run_mqbroker(name_server=namesrv.rocketmq, **settings) as broker,
    ):
        yield Brokers(namesrv, broker)
