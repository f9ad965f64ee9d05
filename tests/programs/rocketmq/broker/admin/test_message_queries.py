"""Messages by key and by id, asked over the wire."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from penstock.cli.shared.dialects import register_dialects
from penstock.nsq.protocol.bodies import Bodies
from penstock.rocketmq.broker.admin import message_queries
from penstock.rocketmq.broker.daemon import RocketBroker
from penstock.rocketmq.protocol.codes import RequestCode as Code
from penstock.rocketmq.protocol.command import Command, Serialization
from penstock.rocketmq.protocol.ids import OffsetId
from penstock.rocketmq.protocol.messages import message, properties
from tests.unit.rocketmq.conftest import LoopThread
from tools.harness.rocketmq.raw_client import RawClient

FOR_EVER = (1 << 63) - 1
NOT_FOUND = (22, "can not find message, maybe time range not correct")


def send(client: RawClient, topic: str, body: bytes = b"body", **values: str) -> dict[str, str]:
    answer = client.ask(
        Code.SEND_MESSAGE, body, producerGroup="p", topic=topic, defaultTopic="TBW102",
        defaultTopicQueueNums=1, queueId=0, sysFlag=0, bornTimestamp=1, flag=0,
        properties=properties.join(values),
    )  # fmt: skip
    assert answer.code == 0, answer.remark
    return answer.ext or {}


def query(client: RawClient, topic: str, key: str, **changes: Any) -> Command:
    fields = {"maxNum": 32, "beginTimestamp": 0, "endTimestamp": FOR_EVER, **changes}
    return client.ask(Code.QUERY_MESSAGE, topic=topic, key=key, **fields)


def bodies(answer: Command) -> list[bytes]:
    assert answer.code == 0, answer.remark
    return [each.body for each in message.decode_all(answer.body)]


def test_a_message_is_found_right_after_it_was_sent(connect: Callable[[], RawClient]) -> None:
    client = connect()
    for number in range(5):
        sent = send(client, "T", b"%d" % number, KEYS=f"order{number} all", UNIQ_KEY=f"A{number}")
        answer = query(client, "T", f"order{number}")
        assert bodies(answer) == [b"%d" % number]
        (found,) = message.decode_all(answer.body)
        assert found.offset_id == sent["msgId"]
        assert found.queue_offset == number
        assert answer.ext == {
            "indexLastUpdateTimestamp": str(found.store_ms),
            "indexLastUpdatePhyoffset": str(found.physical_offset),
        }
    assert bodies(query(client, "T", "A3")) == [b"3"]
    assert bodies(query(client, "T", "all")) == [b"0", b"1", b"2", b"3", b"4"]
    assert bodies(query(client, "T", "all", maxNum=2)) == [b"3", b"4"]
    binary = query(client, "T", "A3", serialization_=Serialization.BINARY)
    assert bodies(binary) == [b"3"]


def test_what_is_not_there_is_not_found(connect: Callable[[], RawClient]) -> None:
    client = connect()
    send(client, "T", KEYS="Aa", UNIQ_KEY="A1")
    for topic, key, changes in (
        ("T", "BB", {}),
        ("T", "none", {}),
        ("other", "Aa", {}),
        ("T", "Aa", {"endTimestamp": 1}),
        ("T", "Aa", {"beginTimestamp": FOR_EVER}),
        ("T", "Aa", {"maxNum": 0}),
        ("T", "Aa", {"maxNum": -1}),
    ):
        answer = query(client, topic, key, **changes)
        assert (answer.code, answer.remark) == NOT_FOUND
        assert answer.body == b""
        assert set(answer.ext or {}) == {"indexLastUpdateTimestamp", "indexLastUpdatePhyoffset"}


def test_a_search_gives_64_at_most_and_32_for_unique_keys(connect: Callable[[], RawClient]) -> None:
    client = connect()
    for _ in range(80):
        send(client, "T", KEYS="all")
    assert len(bodies(query(client, "T", "all", maxNum=1000))) == 64
    found = query(client, "T", "all", maxNum=1, _UNIQUE_KEY_QUERY="true")
    assert len(bodies(found)) == 32


def test_an_answer_is_one_frame_that_clients_can_read(
    connect: Callable[[], RawClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(message_queries, "BODY_MAX", 10_000)
    client = connect()
    for number in range(5):
        send(client, "T", b"%d" % number * 4000, KEYS="all")
    assert [found[:1] for found in bodies(query(client, "T", "all"))] == [b"3", b"4"]


def test_fields_without_sense_are_refused_in_words(connect: Callable[[], RawClient]) -> None:
    client = connect()
    for changes, words in (
        ({"maxNum": "many"}, "the field maxNum is no number of 32 bits: 'many'"),
        ({"beginTimestamp": ""}, "the field beginTimestamp is missing"),
        ({"endTimestamp": 1 << 63}, "the field endTimestamp is no number of 64 bits"),
    ):
        answer = query(client, "T", "k", **changes)
        assert answer.code == 1
        assert words in (answer.remark or "")
    assert client.ask(Code.QUERY_MESSAGE).remark == "the field topic is missing"


def test_a_message_is_viewed_by_its_id(connect: Callable[[], RawClient]) -> None:
    client = connect()
    sent = [send(client, topic, topic.encode())["msgId"] for topic in ("T", "U", "T")]
    for message_id, body in zip(sent, (b"T", b"U", b"T"), strict=True):
        answer = client.ask(Code.VIEW_MESSAGE_BY_ID, offset=OffsetId.parse(message_id).offset)
        assert bodies(answer) == [body]
    for offset in (99999999, -1, FOR_EVER, OffsetId.parse(sent[2]).offset + 1):
        answer = client.ask(Code.VIEW_MESSAGE_BY_ID, offset=offset)
        remark = f"can not find message by the offset, {offset}"
        assert (answer.code, answer.remark) == (1, remark)


def test_messages_of_nsq_are_found_by_the_key_that_they_show(
    loop_thread: LoopThread, rocket: RocketBroker, connect: Callable[[], RawClient]
) -> None:
    register_dialects()

    async def publish() -> None:
        commits = rocket.services.node.commits
        topic = rocket.services.store.topic("fromnsq")
        for body in (b"one", b"two"):
            commits.publish(topic, Bodies.single(body), 0, lambda error: None)

    client = connect()
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
