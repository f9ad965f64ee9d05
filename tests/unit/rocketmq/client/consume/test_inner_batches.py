"""Batches that a broker has stored as one message each."""

from __future__ import annotations

import zlib
from dataclasses import replace

import pytest

from penstock.rocketmq.client.consume.inner_batches import unwrapped
from penstock.rocketmq.client.consume.received import all_received
from penstock.rocketmq.client.errors import BadAnswer
from penstock.rocketmq.protocol.messages import batch_body
from penstock.rocketmq.protocol.messages.batch_body import BatchedMessage
from penstock.rocketmq.protocol.messages.message import StoredMessage, SysFlag, encode
from tests.unit.rocketmq.client.records import stored

BATCH = int(SysFlag.NEED_UNWRAP | SysFlag.INNER_BATCH)


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
