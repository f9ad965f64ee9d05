"""Messages by key and by id, and questions that are passed on to consumers, over the wire."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from penstock.cli.shared.dialects import register_dialects
from penstock.nsq.protocol.bodies import Bodies
from penstock.rocketmq.broker.admin import client_relays, message_queries
from penstock.rocketmq.broker.daemon import RocketBroker
from penstock.rocketmq.protocol.codes import RequestCode as Code
from penstock.rocketmq.protocol.command import Command, Serialization
from penstock.rocketmq.protocol.ids import OffsetId
from penstock.rocketmq.protocol.messages import message, properties
from tests.unit.rocketmq.broker.admin.test_groups import by_queue
from tests.unit.rocketmq.broker.peers import heartbeat
from tests.unit.rocketmq.conftest import LoopThread
from tools.harness.rocketmq.raw_client import RawClient

from ..asking import send

FOR_EVER = (1 << 63) - 1
NOT_FOUND = (22, "can not find message, maybe time range not correct")


def send_one(client: RawClient, topic: str, body: bytes = b"body", **values: str) -> str:
    """Send a message with these properties; its id."""
    answer = send(client, topic, body, i=properties.join(values))
    assert answer.code == 0, answer.remark
    return answer.text("msgId")


def query(client: RawClient, topic: str, key: str, **changes: Any) -> Command:
    fields = {"maxNum": 32, "beginTimestamp": 0, "endTimestamp": FOR_EVER, **changes}
    return client.ask(Code.QUERY_MESSAGE, topic=topic, key=key, **fields)


def bodies(answer: Command) -> list[bytes]:
    assert answer.code == 0, answer.remark
    return [each.body for each in message.decode_all(answer.body)]


def test_a_message_is_found_right_after_it_was_sent(client: RawClient) -> None:
    for number in range(5):
        keys = f"order{number} all"
        sent = send_one(client, "T", b"%d" % number, KEYS=keys, UNIQ_KEY=f"A{number}")
        answer = query(client, "T", f"order{number}")
        (found,) = message.decode_all(answer.body)
        assert (found.body, found.offset_id, found.queue_offset) == (b"%d" % number, sent, number)
        assert answer.ext == {
            "indexLastUpdateTimestamp": str(found.store_ms),
            "indexLastUpdatePhyoffset": str(found.physical_offset),
        }
    for key, changes, wanted in (
        ("A3", {}, b"3"), ("all", {}, b"01234"), ("all", {"maxNum": 2}, b"34"),
        ("A3", {"serialization_": Serialization.BINARY}, b"3"),
    ):  # fmt: skip
        assert b"".join(bodies(query(client, "T", key, **changes))) == wanted


@pytest.mark.parametrize(
    ("topic", "key", "changes"),
    [
        ("T", "BB", {}), ("T", "none", {}), ("other", "Aa", {}), ("T", "Aa", {"endTimestamp": 1}),
        ("T", "Aa", {"beginTimestamp": FOR_EVER}), ("T", "Aa", {"maxNum": 0}),
        ("T", "Aa", {"maxNum": -1}),
    ],
)  # fmt: skip
def test_what_is_not_there_is_not_found(
    client: RawClient, topic: str, key: str, changes: dict[str, Any]
) -> None:
    send_one(client, "T", KEYS="Aa", UNIQ_KEY="A1")
    answer = query(client, topic, key, **changes)
    assert (answer.code, answer.remark, answer.body) == (*NOT_FOUND, b"")
    assert set(answer.ext or {}) == {"indexLastUpdateTimestamp", "indexLastUpdatePhyoffset"}


def test_a_search_gives_64_at_most_and_32_for_unique_keys(client: RawClient) -> None:
    for _ in range(80):
        send_one(client, "T", KEYS="all")
    assert len(bodies(query(client, "T", "all", maxNum=1000))) == 64
    found = query(client, "T", "all", maxNum=1, _UNIQUE_KEY_QUERY="true")
    assert len(bodies(found)) == 32


def test_an_answer_is_one_frame_that_clients_can_read(
    client: RawClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(message_queries, "BODY_MAX", 10_000)
    for number in range(5):
        send_one(client, "T", b"%d" % number * 4000, KEYS="all")
    assert [found[:1] for found in bodies(query(client, "T", "all"))] == [b"3", b"4"]


def test_fields_without_sense_are_refused_in_words(client: RawClient) -> None:
    for changes, words in (
        ({"maxNum": "many"}, "the field maxNum is not a number of 32 bits: 'many'"),
        ({"beginTimestamp": ""}, "the field beginTimestamp is missing"),
        ({"endTimestamp": 1 << 63}, "the field endTimestamp is not a number of 64 bits"),
    ):
        answer = query(client, "T", "k", **changes)
        assert answer.code == 1
        assert words in (answer.remark or "")
    assert client.ask(Code.QUERY_MESSAGE).remark == "the field topic is missing"


def test_a_message_is_viewed_by_its_id(client: RawClient) -> None:
    topics = ("T", "U", "T")
    offsets = [OffsetId.parse(send_one(client, each, each.encode())).offset for each in topics]
    for offset, topic in zip(offsets, topics, strict=True):
        assert bodies(client.ask(Code.VIEW_MESSAGE_BY_ID, offset=offset)) == [topic.encode()]
    for offset in (99999999, -1, FOR_EVER, offsets[2] + 1):
        answer = client.ask(Code.VIEW_MESSAGE_BY_ID, offset=offset)
        remark = f"can not find message by the offset, {offset}"
        assert (answer.code, answer.remark) == (1, remark)


def test_messages_of_nsq_are_found_by_the_key_that_they_show(
    loop_thread: LoopThread, rocket: RocketBroker, client: RawClient
) -> None:
    register_dialects()

    async def publish() -> None:
        commits = rocket.services.node.commits
        topic = rocket.services.store.topic("fromnsq")
        for body in (b"one", b"two"):
            commits.publish(topic, Bodies.single(body), 0, lambda error: None)

    loop_thread.run(publish())
    first = client.ask(
        Code.VIEW_MESSAGE_BY_ID, offset=rocket.services.store.serials.physical("fromnsq", 1)
    )
    (shown,) = message.decode_all(first.body)
    key = properties.value_of(shown.properties, "UNIQ_KEY")
    assert key is not None
    assert bodies(query(client, "fromnsq", key)) == [b"two"]
    assert query(client, "fromnsq", key, endTimestamp=1).code == 22
    assert query(client, "fromnsq", "F" * len(key)).code == 22
    assert query(client, "fromnsq", key[:-12] + "000000000000").code == 22


# --- questions to consumers -----------------------------------------------------------------------


@pytest.fixture
def consumer(connect: Callable[[], RawClient]) -> RawClient:
    """A member of the group G."""
    consumer = connect()
    assert consumer.ask(Code.HEART_BEAT, heartbeat("c1", "G")).code == 0
    return consumer


RUNNING: dict[str, Any] = {"consumerGroup": "G", "clientId": "c1"}


def test_a_question_is_passed_on(client: RawClient, consumer: RawClient) -> None:
    asked = client.begin(Code.GET_CONSUMER_RUNNING_INFO, **RUNNING, jstackEnable="false")
    question = consumer.asked(Code.GET_CONSUMER_RUNNING_INFO)
    assert question.ext == {**RUNNING, "jstackEnable": "false"}
    consumer.reply(question, body=b'{"mqTable":{{"queueId":0}:1}}')
    assert client.answer_to(asked).body == b'{"mqTable":{{"queueId":0}:1}}'
    asked = client.begin(Code.GET_CONSUMER_RUNNING_INFO, **RUNNING)
    consumer.asked(Code.GET_CONSUMER_RUNNING_INFO)
    consumer.close()
    answer = client.answer_to(asked)
    assert answer.code == 1
    assert "is gone" in (answer.remark or "")


def test_a_consumer_that_takes_too_long(
    client: RawClient, consumer: RawClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_relays, "ANSWER_S", 0.05)
    answer = client.ask(Code.GET_CONSUMER_RUNNING_INFO, **RUNNING)
    remark = f"consumer <G> <c1> Timeout: {consumer.address} did not answer within 0.05 s"
    assert (answer.code, answer.remark) == (207, remark)


def test_offsets_are_reset_and_asked_for(client: RawClient, consumer: RawClient) -> None:
    for number in range(3):
        send_one(client, "T", b"%d" % number)
    for queue in range(4):
        consumer.ask(15, consumerGroup="G", topic="T", queueId=queue, commitOffset=0)
    reset: dict[str, Any] = {"topic": "T", "group": "G", "timestamp": -1, "isForce": "true"}
    answer = client.ask(Code.INVOKE_BROKER_TO_RESET_OFFSET, **reset)
    assert (answer.code, by_queue(answer.body)) == (0, {0: 3, 1: 0, 2: 0, 3: 0})
    told = consumer.asked(Code.RESET_CONSUMER_CLIENT_OFFSET)
    assert (told.is_one_way, told.body) == (True, answer.body)
    asked = client.begin(Code.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, topic="T", group="G")
    question = consumer.asked(Code.GET_CONSUMER_STATUS_FROM_CLIENT)
    assert question.ext == {"topic": "T", "group": "G"}
    table = b'{{"brokerName":"broker-a","queueId":0,"topic":"T"}:3}'
    consumer.reply(question, body=b'{"consumerTable":{},"messageQueueTable":' + table + b"}")
    assert client.answer_to(asked).body == (
        b'{"consumerTable":{"c1":' + table + b'},"messageQueueTable":{}}'
    )
