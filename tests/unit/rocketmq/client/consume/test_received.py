"""A message in a consumer's hands."""

from __future__ import annotations

import zlib
from dataclasses import replace

import pytest

from penstock.rocketmq.client.consume.received import Received, all_received, unwrapped
from penstock.rocketmq.client.errors import BadAnswer
from penstock.rocketmq.protocol.message_queue import MessageQueue
from penstock.rocketmq.protocol.messages import batch_body
from penstock.rocketmq.protocol.messages.batch_body import BatchedMessage
from penstock.rocketmq.protocol.messages.message import StoredMessage, SysFlag, encode
from tools.harness.rocketmq.records import received, stored

BATCH = int(SysFlag.NEED_UNWRAP | SysFlag.INNER_BATCH)


def test_what_is_known_of_it() -> None:
    message = received(queue=3, offset=7, UNIQ_KEY="ID", TAGS="a", KEYS="k l", who="me")
    assert (message.id, message.tags, message.keys) == ("ID", "a", ["k", "l"])
    assert message.queue == MessageQueue("a", 3, "T")
    assert (message.queue_offset, message.born_at, message.stored_at) == (7, 5.0, 6.0)
    assert (message.born_host, message.store_host) == ("127.0.0.1:10911",) * 2
    assert message.properties["who"] == "me"
    assert (message.flag, message.transaction_id) == (0, "ID")
    assert "ID" in repr(message)


def test_without_an_id_of_its_producer_it_has_the_brokers() -> None:
    assert received().id == received().offset_id
    assert (received().tags, received().keys) == ("", [])


def test_one_that_comes_again_has_the_topic_that_it_was_sent_to() -> None:
    again = received(topic="%RETRY%ns%G", RETRY_TOPIC="ns%T")
    assert again.topic == "ns%T"
    assert Received(again.stored, "a", "ns").topic == "T"
    assert again.queue.topic == "%RETRY%ns%G"


def test_a_compressed_body_is_unpacked() -> None:
    packed = replace(stored(body=zlib.compress(b"tea")), sys_flag=0x1)
    assert Received(packed).body == b"tea"


def test_an_answer_has_several() -> None:
    body = encode(stored(offset=1)) + encode(stored(offset=2))
    assert [each.queue_offset for each in all_received(body, "a")] == [1, 2]
    with pytest.raises(BadAnswer, match="broker a"):
        all_received(body[:-1], "a")


def batch(offset: int, *bodies: bytes) -> StoredMessage:
    text = batch_body.encode(BatchedMessage(each, f"TAGS\1{each.decode()}\2", 7) for each in bodies)
    return replace(stored(body=text, queue=3, offset=offset, INNER_NUM="3"), sys_flag=BATCH)


def test_its_messages_have_offsets_properties_and_bodies_of_their_own() -> None:
    alone = stored(offset=8)
    found = list(unwrapped([alone, batch(9, b"a", b"b")], 0))
    assert found[0] is alone
    assert [(each.queue_offset, each.body, each.properties) for each in found[1:]] == [
        (9, b"a", "TAGS\1a\2"), (10, b"b", "TAGS\1b\2"),
    ]  # fmt: skip
    assert {(each.flag, each.sys_flag, each.queue) for each in found[1:]} == {(7, 0, 3)}


def test_a_pull_from_the_middle_gives_what_it_has_asked_for() -> None:
    body = encode(batch(9, b"a", b"b", b"c"))
    found = all_received(body, "a", first=10)
    assert [(each.queue_offset, each.tags) for each in found] == [(10, "b"), (11, "c")]


def test_a_compressed_batch_is_unpacked_once() -> None:
    packed = batch(0, b"a", b"b")
    packed.body = zlib.compress(packed.body)
    packed.sys_flag |= SysFlag.COMPRESSED
    assert [each.body for each in all_received(encode(packed), "a")] == [b"a", b"b"]


def test_a_batch_that_makes_no_sense_is_told_of() -> None:
    with pytest.raises(BadAnswer, match="broker a: a batch that is cut short"):
        all_received(encode(replace(stored(body=b"x"), sys_flag=BATCH)), "a")
