"""Rows that become RocketMQ's messages, and those that cannot."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import (
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from penstock.rocketmq.protocol.messages import properties
from penstock.spark.errors import OptionError, SinkError
from penstock.spark.rocketmq.schema import SCHEMA
from penstock.spark.sink.rocketmq.rows import ANY_QUEUE, Key, RocketmqRows, body_column
from tests.unit.spark.sink.making import batch, bodies_of
from tests.unit.spark.sink.rocketmq.making import rows

MAP = pa.map_(pa.string(), pa.string())


def test_properties_are_put_together_a_column_at_a_time() -> None:
    maps = pa.array([[("a", "1"), ("b", None)], None, [], [("KEYS", "old"), ("c", "ü")]], MAP)
    given = pa.RecordBatch.from_pydict(
        {
            "body": [b"1", b"2", b"3", b"4"],
            "properties": maps,
            "keys": ["k1 k2", None, "", "new"],
            "tags": [None, "T", None, "T"],
        }
    )
    for sliced in (given, given.slice(1)):
        ((_, piece),) = rows().read(sliced)
        assert piece.properties is not None
        found = [properties.parse(text.decode()) for text in piece.properties.to_pylist()]
        wanted = [{"a": "1", "KEYS": "k1 k2"}, {"TAGS": "T"}, {},
                  {"KEYS": "new", "c": "ü", "TAGS": "T"}]  # fmt: skip
        assert found == wanted[-len(found) :]


def test_what_a_broker_has_done_with_a_message_is_not_done_again() -> None:
    past = [("TRAN_MSG", "true"), ("a", "1"), ("DELAY", "3"), ("TIMER_DELIVER_MS", "9")]
    given = batch([b"1", b"2"], properties=pa.array([past, past], MAP), delay_level=[0, 2])
    pieces = [piece for _, piece in rows().read(given)]
    texts = [text for piece in pieces for text in piece.properties.to_pylist()]  # type: ignore[union-attr]
    found = [properties.parse(text.decode()) for text in texts]
    assert found == [{"a": "1"}, {"a": "1", "DELAY": "2"}]


def test_rows_by_topic_key_and_delay() -> None:
    given = batch(
        [b"1", b"2", b"3", b"4", b"5"],
        topic=["a", "b", "a", "a", "a"],
        sharding_key=["x", None, "x", "y", "x"],
        delay_level=[0, None, 0, 0, 3],
    )
    found = {key: (bodies_of(piece), piece.rows.tolist()) for key, piece in rows(None).read(given)}
    plain = {key: each for key, each in found.items() if not key.level}
    assert sorted(plain.values()) == [([b"1", b"3"], [0, 2]), ([b"2"], [1]), ([b"4"], [3])]
    assert found[Key("b", ANY_QUEUE, 0)] == ([b"2"], [1])
    ((late, (bodies, _)),) = [item for item in found.items() if item[0].level]
    assert (late.level, bodies) == (3, [b"5"])
    assert {key.shard for key in plain if key.topic == "a"} == {ord("x"), ord("y")}


def test_keys_are_hashed_as_java_hashes_them() -> None:
    # The hash of the first is the smallest number of 32 bits, whose absolute value has 33.
    given = batch([b"1", b"2"], sharding_key=["polygenelubricants", "order-7"])
    assert [key.shard for key, _ in rows().read(given)] == [1207111304, 1 << 31]
    limited = RocketmqRows("body", "t", 3, shards=240)
    assert {key.shard for key, _ in limited.read(given)} == {(1 << 31) % 240, 1207111304 % 240}


def test_a_queue_goes_before_a_key() -> None:
    last = (1 << 31) - 1
    given = batch(
        [b"1", b"2", b"3", b"4"],
        queue=pa.array([0, None, last, None], pa.int32()),
        sharding_key=["x", "x", None, None],
    )
    found = {key.queue: (key.shard, bodies_of(piece)) for key, piece in rows().read(given)}
    assert found[0][1] == [b"1"]
    assert found[last][1] == [b"3"]
    unnumbered = [key for key, _ in rows().read(given) if key.queue is None]
    assert {key.shard for key in unnumbered} == {ANY_QUEUE, ord("x")}
    with pytest.raises(SinkError, match="row 1 of partition 3: queue is outside 0 to"):
        list(rows().read(batch([b"1", b"2"], queue=[0, -1])))


def test_a_delay_is_a_property_as_well() -> None:
    pieces = [piece for _, piece in rows().read(batch([b"1", b"2"], delay_level=[0, 3]))]
    texts = [piece.properties.to_pylist() for piece in pieces if piece.properties is not None]
    assert texts == [[b""], [b"DELAY\x013\x02"]]


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"keys": ["a", "b\x01"]}, "row 1 of partition 3: column keys holds a character 1 or 2"),
        ({"properties": pa.array([[], [("a", "\x02")]], MAP)},
         "row 1 of partition 3: column properties holds a character 1 or 2"),
        ({"tags": ["a", "x" * 40_000]}, "row 1 of partition 3: its properties have more than"),
        ({"delay_level": [0, -1]}, "row 1 of partition 3: delay_level is outside 0 to"),
        ({"topic": ["a", "b c"]}, "row 1 of partition 3: topic name 'b c' is invalid"),
    ],
)  # fmt: skip
def test_what_is_no_message_is_named(columns: dict[str, Any], said: str) -> None:
    given = pa.RecordBatch.from_pydict({"body": [b"1", b"2"], "topic": ["a", "a"], **columns})
    with pytest.raises(SinkError) as refused:
        list(rows(None).read(given))
    assert str(refused.value).startswith(said)


def test_columns() -> None:
    body = StructField("body", StringType())
    assert body_column(SCHEMA, None) == "body"
    named = StructField("properties", MapType(StringType(), StringType()))
    numbers = StructField("properties", MapType(StringType(), LongType()))
    assert body_column(StructType([body, named]), "t") == "body"
    marked = StructField("store_timestamp", TimestampType(), False, {"spark.watermarkDelayMs": 1})
    assert body_column(StructType([body, marked]), "t") == "body"
    for fields, said in (
        ([body], "say where to write"),
        ([named], "one column body"),
        ([body, StructField("text", StringType())], "writes no column text"),
        ([body, StructField("offset", LongType())], "writes no column offset"),
        ([body, StructField("broker", LongType())], "writes no column broker"),
        ([body, StructField("queue", StringType())], "column queue cannot be string"),
        ([body, StructField("keys", LongType())], "column keys cannot be bigint"),
        ([body, numbers], "column properties cannot be map<string,bigint>"),
    ):
        with pytest.raises(OptionError, match=said):
            body_column(StructType(fields), "t" if len(fields) > 1 else None)
