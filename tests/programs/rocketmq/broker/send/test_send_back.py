"""The cases of `rocketmq/broker/send/test_send_back.py` that need a port or a process."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from penstock.rocketmq.broker.settings import BrokerSettings
from penstock.rocketmq.protocol.messages import properties
from penstock.rocketmq.protocol.messages.message import StoredMessage
from tests.programs.rocketmq.broker.pull.test_pulling import FOR_LONG_MS, pull, send
from tests.unit.rocketmq.broker.peers import heartbeat
from tools.harness.rocketmq.raw_client import RawClient


@pytest.fixture
def settings(settings: BrokerSettings) -> BrokerSettings:
    """Every level is due at once."""
    settings.message_delay_level = "0s " * 18
    return settings


def arrived(client: RawClient, topic: str, offset: int) -> StoredMessage:
    """Waits for the message at this offset of a topic with one queue."""
    answer, messages = pull(client, topic, 0, offset, sysFlag=6, suspendTimeoutMillis=FOR_LONG_MS)
    assert (answer.code, len(messages)) == (0, 1), answer.remark
    return messages[0]


def test_a_message_that_always_fails_ends_as_a_dead_letter(
    connect: Callable[[], RawClient],
) -> None:
    client = connect()
    assert client.ask(34, heartbeat("c1", "CG")).code == 0
    first = send(client, "T", b"body").ext
    assert first is not None
    message = pull(client, "T", 0, 0)[1][0]
    retries = 3
    for tried in range(retries):
        answer = client.ask(36, offset=message.physical_offset, group="CG", delayLevel=0,
                            originMsgId=first["msgId"], originTopic="T", unitMode="false",
                            maxReconsumeTimes=retries)  # fmt: skip
        assert answer.code == 0
        message = arrived(client, "%RETRY%CG", tried)
        found = properties.parse(message.properties)
        assert message.reconsume_times == tried + 1
        assert (found["DELAY"], found["RETRY_TOPIC"]) == (str(3 + tried), "T")
        assert found["ORIGIN_MESSAGE_ID"] == first["msgId"]
        assert (found["REAL_TOPIC"], found["REAL_QID"]) == ("%RETRY%CG", "0")
        assert found["TAGS"] == "TagA"
    last = message
    answer = client.ask(36, offset=last.physical_offset, group="CG", delayLevel=0,
                        maxReconsumeTimes=retries)  # fmt: skip
    assert answer.code == 0
    dead = arrived(client, "%DLQ%CG", 0)
    assert (dead.body, dead.reconsume_times) == (b"body", retries + 1)
    assert properties.parse(dead.properties)["ORIGIN_MESSAGE_ID"] == first["msgId"]
    assert pull(client, "%RETRY%CG", 0, retries)[0].code == 19


def test_a_client_that_sends_its_retries_itself(connect: Callable[[], RawClient]) -> None:
    client = connect()
    for tried, topic in ((2, "%RETRY%CG"), (3, "%DLQ%CG")):
        text = properties.join({"RETRY_TOPIC": "T", "DELAY": str(3 + tried)})
        answer = send(client, "%RETRY%CG", b"%d" % tried, i=text, j=tried, l=3)
        assert answer.code == 0, answer.remark
        message = arrived(client, topic, 0)
        assert (message.body, message.reconsume_times) == (b"%d" % tried, tried)


@pytest.mark.parametrize(("level", "topic"), [(0, "%RETRY%CG"), (-1, "%DLQ%CG")])
def test_a_group_that_never_sent_a_heartbeat_finds_its_topics_right_after_the_answer(
    connect: Callable[[], RawClient], routes: RawClient, level: int, topic: str
) -> None:
    client = connect()
    send(client, "T", b"body")
    message = pull(client, "T", 0, 0)[1][0]
    assert routes.ask(105, topic=topic).code == 17
    answer = client.ask(36, offset=message.physical_offset, group="CG", delayLevel=level)
    assert answer.code == 0
    assert routes.ask(105, topic=topic).code == 0
