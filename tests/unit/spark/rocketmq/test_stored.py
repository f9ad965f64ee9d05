from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from penstock.rocketmq.protocol.ids import Host
from penstock.rocketmq.protocol.messages.message import StoredMessage, encode
from penstock.spark.errors import SourceError
from penstock.spark.rocketmq.stored import Stored

V4, V6 = Host(b"\x7f\0\0\1", 1), Host(bytes(15) + b"\1", 2)
PLAIN = StoredMessage("t", b"body", 3, 7, 1, V4, V4, 1_700_000_000_000, 1_700_000_000_001, "a\x01b")


def mixed() -> list[StoredMessage]:
    """Messages of all layouts: each host in each form, names of topics short and long."""
    return [
        dataclasses.replace(
            PLAIN, body=b"x" * number, queue_offset=number, born_host=born, store_host=store,
            born_ms=PLAIN.born_ms + number, store_ms=PLAIN.store_ms + 2 * number, topic=topic,
        )
        for number, (born, store, topic) in enumerate(
            (born, store, topic)
            for born in (V4, V6) for store in (V4, V6) for topic in ("t", "u" * 200, "")
        )
    ]  # fmt: skip


@pytest.mark.parametrize("messages", [mixed(), [PLAIN] * 5, []], ids=["mixed", "even", "none"])
def test_each_part_is_where_it_is(messages: list[StoredMessage]) -> None:
    data = b"".join(map(encode, messages))
    stored = Stored.parse(data)
    assert len(stored) == len(messages)
    assert stored.queue_offsets.tolist() == [each.queue_offset for each in messages]
    assert stored.born_ms.tolist() == [each.born_ms for each in messages]
    assert stored.store_ms.tolist() == [each.store_ms for each in messages]
    for spans, part in zip(stored.parts(), ("body", "properties"), strict=True):
        found = [data[start:end] for start, end in zip(*spans, strict=True)]
        wanted = [getattr(each, part) for each in messages]
        assert found == [each if isinstance(each, bytes) else each.encode() for each in wanted]


def test_those_between_offsets() -> None:
    stored = Stored.parse(b"".join(map(encode, mixed())))
    assert stored.between(3, 6).queue_offsets.tolist() == [3, 4, 5]
    assert len(stored.between(50, 60)) == 0


def damaged(at: int, value: bytes) -> bytes:
    data = bytearray(encode(PLAIN) * 3)
    data[at : at + len(value)] = value
    return bytes(data)


@pytest.mark.parametrize(
    "data",
    [
        b"HTTP/1.1 200 OK" * 20,
        encode(PLAIN)[:-1],
        encode(PLAIN) + b"more",
        damaged(0, b"\x7f"),
        damaged(4, b"\0"),
        damaged(84, b"\x7f"),
        damaged(84, b"\xff\xff\xff\xf0"),
        damaged(87, b"\5"),
    ],
)
def test_what_is_no_stored_message_is_refused(data: bytes) -> None:
    with pytest.raises(SourceError, match="is no stored message, at byte"):
        Stored.parse(data).parts()


def test_it_is_views_of_one_buffer() -> None:
    stored = Stored.parse(encode(PLAIN) * 2)
    assert stored.at.dtype == np.int64
    assert stored.between(7, 8).data is stored.data
