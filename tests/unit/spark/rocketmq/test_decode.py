from __future__ import annotations

import zlib
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.pandas.types import to_arrow_schema

from penstock.rocketmq.protocol.messages import properties
from penstock.rocketmq.protocol.messages.message import SysFlag
from penstock.spark.offsets import Place
from penstock.spark.rocketmq import decode
from penstock.spark.rocketmq.decode import (
    TYPES,
    Properties,
    arrow_schema,
    decompressed,
    record_batch,
)
from penstock.spark.rocketmq.schema import SCHEMA
from penstock.spark.rocketmq.stored import Spans, Stored

from .scripted_broker import STORED_MS, stored


def parsed(*texts: bytes) -> Properties:
    """The properties of messages between whose properties other bytes lie."""
    between = b"\x01\x02x\x01y\x02"
    data = between + between.join(texts) + between
    starts, place = [], len(between)
    for text in texts:
        starts.append(place)
        place += len(text) + len(between)
    at = np.array(starts, np.int64)
    return Properties(data, Spans(at, at + np.array([len(text) for text in texts], np.int64)))


TEXTS = [
    "KEYS\x01a b\x02TAGS\x01T\x02",
    "KEYS\x01a b\x02TAGS\x01T",
    "",
    "TAGS\x01one\x02TAGS\x01two\x02=\x01=\x01=",
    "none\x01\x02\x01none\x02alone\x02\x02\x02KEYS\x01k\x02",
    "\u00fc\x01\u00e4\x02",
]


def test_all_of_them_as_java_reads_them() -> None:
    found = parsed(*(text.encode() for text in TEXTS)).maps().to_pylist()
    assert [sorted(each) for each in found] == [
        sorted(properties.parse(text).items()) for text in TEXTS
    ]


def test_one_of_them() -> None:
    found = parsed(*(text.encode() for text in TEXTS))
    assert found.of("TAGS").to_pylist() == ["T", "T", None, "two", None, None]
    assert found.of("KEYS").to_pylist() == ["a b", "a b", None, None, "k", None]
    assert found.of("nowhere").to_pylist() == [None] * 6


@pytest.mark.parametrize("count", [0, 3])
def test_messages_without_any(count: int) -> None:
    found = parsed(*([b""] * count))
    assert found.maps().to_pylist() == [[]] * count
    assert found.of("KEYS").to_pylist() == [None] * count


@given(st.lists(st.text(alphabet="ab\x01\x02", max_size=12), max_size=8))
def test_any_text_is_read_as_the_protocol_reads_it(texts: list[str]) -> None:
    found = parsed(*(text.encode() for text in texts))
    wanted = [properties.parse(text) for text in texts]
    assert [sorted(each) for each in found.maps().to_pylist()] == [
        sorted(each.items()) for each in wanted
    ]
    assert found.of("a").to_pylist() == [each.get("a") for each in wanted]


PLACE = Place("t", "broker-a", 3)
ZLIB = int(SysFlag.COMPRESSED)


def test_every_column() -> None:
    data = stored(3, 5, b"body", KEYS="k", TAGS="T", a="b") + stored(3, 6, b"")
    first, second = record_batch(Stored.parse(data), PLACE, tuple(TYPES)).to_pylist()
    at = datetime.fromtimestamp(STORED_MS / 1000 + 5, UTC)
    assert first == {
        "topic": "t", "body": b"body", "keys": "k", "tags": "T",
        "properties": [("KEYS", "k"), ("TAGS", "T"), ("a", "b")],
        "born_timestamp": at.replace(second=4, microsecond=993_000), "store_timestamp": at,
        "broker": "broker-a", "queue": 3, "queue_offset": 5,
    }  # fmt: skip
    assert second["body"] == b""
    assert second["properties"] == []
    assert second["keys"] is second["tags"] is None


def test_the_schema_is_what_spark_expects() -> None:
    assert arrow_schema(tuple(TYPES)) == to_arrow_schema(SCHEMA, timezone="UTC")
    assert SCHEMA.fieldNames() == list(TYPES)


@pytest.mark.parametrize(
    ("packed", "flags"),
    [
        (zlib.compress(b"z" * 5000), ZLIB),
        (zlib.compress(b"z" * 5000), ZLIB | 0x300),
        (pa.Codec("lz4").compress(b"z" * 5000, asbytes=True), ZLIB | 0x100),
        (pa.Codec("zstd").compress(b"z" * 5000, asbytes=True), ZLIB | 0x200),
    ],
    ids=["older clients", "zlib", "lz4", "zstd"],
)
def test_bodies_are_as_they_were_before_clients_compressed_them(packed: bytes, flags: int) -> None:
    assert decompressed(packed, flags) == b"z" * 5000


@pytest.mark.parametrize("flags", [ZLIB, ZLIB | 0x100, ZLIB | 0x200, ZLIB | 0x700])
def test_what_cannot_be_unpacked_stays_as_it_is(
    flags: int, caplog: pytest.LogCaptureFixture
) -> None:
    assert decompressed(b"not compressed", flags) == b"not compressed"
    assert "a compressed body is left as it is" in caplog.text


def test_a_bomb_stays_packed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decode, "_BODY_BYTES_MAX", 1000)
    bomb = zlib.compress(bytes(1001))
    assert decompressed(bomb, ZLIB) == bomb
    assert decompressed(zlib.compress(bytes(1000)), ZLIB) == bytes(1000)


def test_bodies_that_unpack_to_too_much_are_left_for_the_next_batch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(decode, "_BODIES_BYTES_MAX", 2500)
    packed = [stored(3, offset, zlib.compress(bytes(1000)), ZLIB) for offset in range(5)]
    messages = Stored.parse(b"".join(packed[:1]) + stored(3, 1, b"plain") + b"".join(packed[2:]))
    found = record_batch(messages, PLACE, ("queue_offset", "body")).to_pylist()
    assert [len(row["body"]) for row in found] == [1000, 5, 1000]
    assert record_batch(messages, PLACE, ("queue_offset",)).num_rows == 5
