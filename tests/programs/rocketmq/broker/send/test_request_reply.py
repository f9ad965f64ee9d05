"""The cases of `rocketmq/broker/send/test_request_reply.py` that need a port or a process."""

from __future__ import annotations

from collections.abc import Callable

from penstock.rocketmq.protocol.command import Command
from tests.unit.rocketmq.broker.peers import heartbeat
from tests.unit.rocketmq.broker.send.test_request_reply import TEXT
from tools.harness.rocketmq.raw_client import RawClient


def begin_reply(client: RawClient, topic: str) -> Command:
    return client.begin(
        324, b"answer", producerGroup="PG", topic=topic, defaultTopic="TBW102",
        defaultTopicQueueNums=4, queueId=0, sysFlag=0, bornTimestamp=5, flag=0, properties=TEXT,
    )  # fmt: skip


def test_through_real_connections(connect: Callable[[], RawClient]) -> None:
    asker, answerer = connect(), connect()
    assert asker.ask(34, heartbeat("asker", producers=("PG",))).code == 0
    asked = begin_reply(answerer, "DefaultCluster_REPLY_TOPIC")
    pushed = asker.asked(326)
    assert pushed.body == b"answer"
    assert pushed.ext is not None
    assert pushed.ext["bornHost"] == answerer.address
    asker.reply(pushed)
    answer = answerer.answer_to(asked)
    assert answer.code == 0
    assert answer.ext is not None
    assert len(answer.ext["msgId"]) == 32


def test_a_topic_is_in_the_routes_right_after_the_reply_that_made_it(
    connect: Callable[[], RawClient], routes: RawClient
) -> None:
    client = connect()
    assert routes.ask(105, topic="New").code == 17
    client.answer_to(begin_reply(client, "New"))
    assert routes.ask(105, topic="New").code == 0
