"""Readers of ``format("nsq")``: how much at once, what is decoded, dead letters' origins, times."""

from __future__ import annotations

import datetime
import json
from datetime import UTC
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
)
from pyspark.sql.types import LongType, StringType, StructType

from penstock.broker.dead_letters import Origins as Written
from penstock.broker.dead_letters import encode_origins
from penstock.core.units import HOUR, MINUTE, SECOND
from penstock.spark.errors import OptionError
from penstock.spark.formats.nsq import NsqDataSource
from penstock.spark.nested_types import changed
from penstock.spark.offsets import Bounds, Place, Position, to_checkpoint
from penstock.spark.read import admission
from penstock.spark.read.admission import Admission
from penstock.spark.read.decode import TYPES, arrow_schema, record_batch, wanted_parts
from penstock.spark.read.origins import Origins, origins_in
from penstock.spark.read.progress import batch_done, fresh
from penstock.spark.schema import SCHEMA
from penstock.spark.source_settings import COLUMNS, ORIGIN_COLUMNS, SourceSettings
from penstock.spark.timestamps import Timestamp, nanoseconds, timestamp
from penstock.storage.batch import Batch
from pyspark_nsq import DefaultSource
from tools.harness.fake_log_server import FIRST_ID, TIMESTAMP_NS, nsq_batch, nsq_frame

SMALL = Place("t", "a:1", 0)
LARGE = Place("t", "b:1", 0)
# Messages of 100 bytes and of 1,000.
BOUNDS = {SMALL: Bounds(0, 1000, 100_000, "a:1"), LARGE: Bounds(500, 1000, 500_000, "b:1")}
START = {SMALL: 0, LARGE: 500}
END = {SMALL: 1000, LARGE: 1000}


def with_options(**options: str) -> Admission:
    return Admission(SourceSettings.parse({"topic": "t", "nsqd_http_address": "h:1", **options}))


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.ns = 7 * SECOND

    def monotonic_ns(self) -> int:
        return self.ns


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(admission, "SYSTEM_CLOCK", clock)
    return clock


@pytest.mark.parametrize(
    ("options", "limit"),
    [
        ({}, ReadAllAvailable()),
        ({"maxRecordsPerTrigger": "5"}, ReadMaxRows(5)),
        ({"maxBytesPerTrigger": "5"}, ReadMaxBytes(5)),
        ({"minRecordsPerTrigger": "5"}, ReadMinRows(5)),
        ({"maxBytesPerTrigger": "5", "maxRecordsPerTrigger": "6"}, ReadMaxRows(6)),
    ],
)
def test_spark_is_told_of_a_limit(options: dict[str, str], limit: ReadLimit) -> None:
    assert with_options(**options).limit == limit


@pytest.mark.parametrize(
    ("options", "small", "large"),
    [
        ({}, 1000, 500),
        ({"maxBytesPerTrigger": "600000"}, 1000, 500),
        ({"maxBytesPerTrigger": "60000"}, 100, 50),
        ({"maxBytesPerTrigger": "60000", "maxRecordsPerTrigger": "15"}, 10, 5),
        ({"maxBytesPerTrigger": "6000", "maxRecordsPerTrigger": "1500"}, 10, 5),
        # Each queue gets on.
        ({"maxBytesPerTrigger": "1"}, 1, 1),
    ],
)
def test_a_batch_is_cut(options: dict[str, str], small: int, large: int) -> None:
    limited = with_options(**options)
    cut = limited.cut(limited.limit, START, END, BOUNDS)
    assert cut == {SMALL: small, LARGE: 500 + large}
    assert limited.cut(ReadAllAvailable(), START, END, BOUNDS) == END


def test_few_messages_wait_for_others(clock: Clock) -> None:
    limited = with_options(minRecordsPerTrigger="100", maxTriggerDelay="10s")

    def waits(start: int, end: int, after_s: int = 0) -> bool:
        clock.ns += after_s * SECOND
        return limited.hold_back({SMALL: start}, {SMALL: end})

    assert not waits(0, 100)
    assert waits(0, 99)
    assert waits(0, 99, after_s=9)
    assert not waits(0, 99, after_s=1)
    # The next ones wait as long again, from when they are seen.
    assert not waits(99, 99, after_s=60)
    assert waits(99, 100)
    assert not waits(99, 199, after_s=9)
    assert waits(199, 200)
    assert waits(199, 200, after_s=9)
    assert not with_options().hold_back({SMALL: 0}, {SMALL: 1})


PLACE = Place("flights", "host:4151", 0)
EQUAL = [b"%03d" % i * 4 for i in range(7)]
MIXED = [b"x" * i for i in (0, 5, 1, 0, 300, 2)]


def decode(
    buffer: bytes, start: int = 0, end: int = 1 << 40, columns: tuple[str, ...] = COLUMNS
) -> pa.RecordBatch:
    return record_batch(list(wanted_parts(buffer, start, end)), PLACE, columns)


@pytest.mark.parametrize("bodies", [EQUAL, MIXED, [b""], [b"", b""]])
def test_every_column_of_one_batch(bodies: list[bytes]) -> None:
    batch = decode(nsq_batch(40, bodies))
    batch.validate(full=True)
    when = datetime.datetime.fromtimestamp(TIMESTAMP_NS // 10**9, datetime.UTC)
    assert batch.to_pylist() == [
        {
            "topic": "flights", "body": body, "id": f"{FIRST_ID + 40 + i:016x}", "timestamp": when,
            "attempts": 1, "node": "host:4151", "queue": 0, "offset": 40 + i,
        }
        for i, body in enumerate(bodies)
    ]  # fmt: skip


@pytest.mark.parametrize("second", [EQUAL, MIXED, [b"y" * 12]])
@pytest.mark.parametrize("first", [EQUAL, MIXED])
def test_batches_that_follow_each_other(first: list[bytes], second: list[bytes]) -> None:
    buffer = nsq_batch(0, first) + nsq_batch(len(first), second, TIMESTAMP_NS + 10**9)
    batch = decode(buffer)
    assert batch["body"].to_pylist() == first + second
    assert batch["offset"].to_pylist() == list(range(len(first + second)))
    seconds = [value.second for value in batch["timestamp"].to_pylist()]
    assert seconds == [0] * len(first) + [1] * len(second)
    assert batch["id"].to_pylist() == [f"{FIRST_ID + i:016x}" for i in range(len(first + second))]


@pytest.mark.parametrize("bodies", [EQUAL, MIXED])
def test_only_the_wanted_offsets(bodies: list[bytes]) -> None:
    buffer = nsq_batch(10, bodies) + nsq_batch(10 + len(bodies), bodies)
    everything = bodies + bodies
    for start in range(10, 10 + len(everything)):
        for end in range(start + 1, 10 + len(everything) + 1):
            batch = decode(buffer, start, end)
            assert batch["body"].to_pylist() == everything[start - 10 : end - 10]
            assert batch["offset"].to_pylist() == list(range(start, end))


def test_a_cut_last_batch_is_left_for_the_next_fetch() -> None:
    buffer = nsq_batch(0, EQUAL) + nsq_batch(len(EQUAL), EQUAL)[:-1]
    assert decode(buffer).num_rows == len(EQUAL)
    assert list(wanted_parts(nsq_batch(0, EQUAL), 7, 9)) == []
    assert list(wanted_parts(b"", 0, 9)) == []


def test_columns_in_the_asked_order_and_no_others() -> None:
    batch = decode(nsq_batch(0, MIXED), columns=("offset", "body"))
    assert batch.schema == arrow_schema(("offset", "body"))
    assert batch.schema.names == ["offset", "body"]
    # Spark compares the first record batch's schema with exactly this.
    assert arrow_schema(tuple(TYPES)) == to_arrow_schema(SCHEMA, timezone="UTC")


def letters(first_offset: int, bodies: list[bytes]) -> bytes:
    """A batch of dead letters, the i-th published i seconds after the start of the year."""
    ids = [FIRST_ID + first_offset + i for i in range(len(bodies))]
    frames = [
        nsq_frame(id, TIMESTAMP_NS + i * SECOND, body)
        for i, (id, body) in enumerate(zip(ids, bodies, strict=True))
    ]
    origins = Written("orders", "bill", list(range(len(bodies))), [3] * len(bodies))
    batch = Batch.build(
        first_offset, ids[0], TIMESTAMP_NS + HOUR, len(bodies), 0, frames,
        table=np.cumsum([0, *map(len, frames)], dtype=np.uint32), note=encode_origins(origins),
    )  # fmt: skip
    return bytes(batch.raw)


def test_origins_of_dead_letters_among_other_messages() -> None:
    buffer = nsq_batch(0, EQUAL) + letters(7, MIXED) + nsq_batch(13, [b"z"])
    batch = decode(buffer, 5, 14, ("offset", "body", *ORIGIN_COLUMNS))
    batch.validate(full=True)
    assert batch["offset"].to_pylist() == list(range(5, 14))
    assert {batch[name].null_count for name in ORIGIN_COLUMNS} == {3}
    dead = batch.slice(2, 6)
    assert dead["body"].to_pylist() == MIXED
    assert dead["origin_id"].to_pylist() == [f"{i:016x}" for i in range(6)]
    assert [time.second for time in dead["origin_timestamp"].to_pylist()] == list(range(6))
    same = {"origin_topic": "orders", "origin_channel": "bill", "origin_attempts": 3,
            "reason": "max_attempts"}  # fmt: skip
    for name, value in same.items():
        assert dead[name].to_pylist() == [value] * 6


def test_some_dead_letters_of_a_batch_and_messages_that_are_none() -> None:
    batch = decode(letters(7, MIXED), 9, 11, ("offset", *ORIGIN_COLUMNS))
    assert batch["origin_id"].to_pylist() == [f"{i:016x}" for i in (2, 3)]
    assert [time.second for time in batch["origin_timestamp"].to_pylist()] == [2, 3]
    batch = decode(nsq_batch(0, EQUAL), columns=ORIGIN_COLUMNS)
    batch.validate(full=True)
    assert batch.schema == arrow_schema(ORIGIN_COLUMNS)
    assert {batch[name].null_count for name in ORIGIN_COLUMNS} == {len(EQUAL)}


OPTIONS = {"topic": "t", "nsqd_http_address": "h:1"}


def test_spark_finds_it_by_name() -> None:
    assert DefaultSource is NsqDataSource
    assert NsqDataSource.name() == "nsq"


def test_some_columns_in_another_order() -> None:
    asked = StructType().add("offset", LongType()).add("topic", StringType())
    source: Any = NsqDataSource(OPTIONS)
    assert source.reader(asked).columns == ("offset", "topic")
    assert source.streamReader(asked).columns == ("offset", "topic")


def test_columns_that_the_option_names() -> None:
    source: Any = NsqDataSource({**OPTIONS, "columns": "offset, body"})
    assert source.schema() == StructType([SCHEMA["offset"], SCHEMA["body"]])
    assert source.reader(source.schema()).columns == ("offset", "body")
    assert tuple(NsqDataSource(OPTIONS).schema().fieldNames()) == COLUMNS
    with pytest.raises(OptionError) as refused:
        source.streamReader(StructType([SCHEMA["body"]]))
    said = "the schema asks for body, the option columns for offset, body: give one of the two"
    assert str(refused.value) == said


def test_columns_of_dead_letters() -> None:
    assert NsqDataSource({**OPTIONS, "includeOrigin": "true"}).schema() == SCHEMA
    named = NsqDataSource({**OPTIONS, "columns": "body,reason"}).schema()
    assert named.fieldNames() == ["body", "reason"]
    with pytest.raises(OptionError, match="columns names all columns to read: leave includeOri"):
        NsqDataSource({**OPTIONS, "columns": "body", "includeOrigin": "true"}).schema()


@pytest.mark.parametrize(("name", "kind"), [("offset", StringType()), ("value", LongType())])
def test_columns_it_does_not_have(name: str, kind: StringType | LongType) -> None:
    with pytest.raises(OptionError, match=f"format nsq has no column {name}"):
        NsqDataSource(OPTIONS).reader(StructType().add(name, kind))


@pytest.mark.parametrize("option", ["endingOffsets", "endingTimestamp"])
def test_a_stream_has_no_end(option: str) -> None:
    given = {**OPTIONS, option: "latest" if option == "endingOffsets" else "-1h"}
    with pytest.raises(OptionError, match=f"{option} is for batch reads only"):
        NsqDataSource(given).streamReader(SCHEMA)
    NsqDataSource(given).reader(SCHEMA)


IDS = [0, 127, 128, 255, 256, 65_535, 65_536, (1 << 32) - 1, 1 << 32, (1 << 63) - 1]


@pytest.mark.parametrize("name", ["t", "orders." + "x" * 57, "ü" * 20, "x" * 300])
@pytest.mark.parametrize("ids", [IDS, [5], list(range(70_000))])
def test_what_nsqd_writes_is_read(name: str, ids: list[int]) -> None:
    attempts = [min(id, 65_535) for id in ids]
    note = encode_origins(Written(name, "c", ids, attempts))
    assert origins_in(note, len(ids)) == Origins(name, "c", ids, attempts, "max_attempts")


def test_damaged_notes_say_nothing() -> None:
    of_a_version_without_reasons = msgspec.msgpack.encode(["t", "c", [7], [3]])
    assert origins_in(of_a_version_without_reasons, 1) == Origins(
        "t", "c", [7], [3], "max_attempts"
    )
    whole = encode_origins(Written("t", "c", [1 << 40], [3]))
    assert origins_in(whole, 1) is not None
    for size in range(len(whole)):
        assert origins_in(whole[:size], 1) is None
    for note in (whole + b"\0", b"\xdd\xff\xff\xff\xff" + b"\x01" * 50, b"\x91" * 5000):
        assert origins_in(note, 1) is None


@pytest.mark.parametrize(
    "note",
    [
        ["t", "c", [7], [3], "late", 1],
        ["t", "c", [7]],
        ["t", "c", [7, 8], [3, 3]],
        ["t", "c", [7], ["3"]],
        ["t", 5, [7], [3]],
        ["t", "c", [[7]], [3]],
        {"writer": "w", "batch": 3},
        ["w", 3],
        "t",
        None,
    ],
)
def test_notes_of_another_kind_say_nothing(note: object) -> None:
    assert origins_in(msgspec.msgpack.encode(note), 1) is None


def report(batch: int, rows: int, end: int, latest: int | None, text: bool = False) -> Any:
    offset, newest = (
        None if place is None else to_checkpoint(Position({PLACE: place}, "g", {}))
        for place in (end, latest)
    )
    source = {"endOffset": json.dumps(offset) if text else offset, "latestOffset": newest}
    return {"batchId": batch, "numInputRows": rows, "batchDuration": 500, "sources": [source]}


def test_a_batch() -> None:
    for text in (False, True):
        done = batch_done(report(3, 100, 400, 1000, text))
        assert (done.batch, done.rows, done.lag, done.end) == (3, 100, 600, {PLACE: 400})
        assert done.rows_per_s == 200
    repeated = report(3, 100, 400, None)
    for nothing in (None, "null"):
        repeated["sources"][0]["latestOffset"] = nothing
        assert batch_done(repeated).lag == 0


def test_only_new_batches_with_rows() -> None:
    reports = [report(1, 5, 5, 9), report(2, 0, 5, 9), report(3, 4, 9, 9)]
    assert [each["batchId"] for each in fresh(reports, -1)] == [1, 3]
    assert [each["batchId"] for each in fresh(reports, 1)] == [3]


NEW_YEAR = 1_767_225_600 * SECOND  # 2026-01-01T00:00:00Z
DAY = 24 * HOUR
LATEST_NS = (1 << 63) - 1


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("2026-01-01T00:00:00Z", NEW_YEAR),
        (" 2026-01-01T01:30:00+01:30 ", NEW_YEAR),
        ("2026-01-01 00:00:00.25", NEW_YEAR + SECOND // 4),
        ("2026-01-01", NEW_YEAR),
        ("1767225600000", NEW_YEAR),
        ("0", 0),
        ("1931-05-01", 0),
        ("9999-01-01", LATEST_NS),
        ("99999999999999999999", LATEST_NS),
    ],
)
def test_times_of_the_clock(given: str, expected: int) -> None:
    assert timestamp("startingTimestamp", given) == Timestamp(expected)
    assert Timestamp(expected).at(5) == expected


@pytest.mark.parametrize(
    ("given", "ago"),
    [("-1h", HOUR), ("-30m", 30 * MINUTE), ("-1h30m", 90 * MINUTE), ("-7d", 7 * DAY),
     ("-1d12h", 36 * HOUR), ("-0s", 0)],
)  # fmt: skip
def test_times_before_the_moment_of_use(given: str, ago: int) -> None:
    parsed = timestamp("startingTimestamp", given)
    assert parsed.at(NEW_YEAR) == NEW_YEAR - ago
    assert parsed.at(0) == 0


@pytest.mark.parametrize(
    ("given", "said"),
    [
        *(
            (given, "startingTimestamp must be a time such as 2026-01-31T12:00:00Z, milliseconds "
             f"since 1970, or -1h for an hour ago, not {given!r}")
            for given in ("", "-", "1h", "--1h", "-+1h", "-1", "-1w", "yesterday", "2026-02-30",
                          "1.5")
        ),
        ("1767225600", "startingTimestamp=1767225600 is in 1970: give milliseconds, 1767225600000, "
         "not seconds"),
        (" 20260131 ", "startingTimestamp=20260131 is in 1970, as milliseconds: write the day as "
         "2026-01-31"),
    ],
)  # fmt: skip
def test_what_is_no_time(given: str, said: str) -> None:
    with pytest.raises(OptionError) as refused:
        timestamp("startingTimestamp", given)
    assert str(refused.value) == said


def test_nanoseconds_are_exact() -> None:
    moment = datetime.datetime(2026, 1, 1, 0, 0, 0, 123_457, tzinfo=UTC)
    assert nanoseconds(moment) == NEW_YEAR + 123_457_000
    assert timestamp("startingTimestamp", "20260231").ns == 20_260_231_000_000


def longer(kind: pa.DataType) -> pa.DataType:
    return pa.int64() if kind == pa.int32() else kind


def test_types_are_changed_wherever_they_stand_and_nothing_else() -> None:
    def nested(kind: pa.DataType) -> pa.DataType:
        inner = pa.struct([pa.field("a", kind, nullable=False), pa.field("b", pa.string())])
        return pa.map_(pa.string(), pa.list_(pa.field("element", inner, nullable=False)))

    assert changed(pa.int32(), longer) == pa.int64()
    assert changed(pa.string(), longer) == pa.string()
    found = changed(nested(pa.int32()), longer)
    assert found == nested(pa.int64())
    assert not found.item_type.value_field.nullable
    assert not found.item_type.value_type.field("a").nullable
