"""The decoder against messages built one by one."""

from __future__ import annotations

import datetime

import numpy as np
import pyarrow as pa
import pytest

from penstock.broker.dead_letters import Origins as Written
from penstock.broker.dead_letters import encode_origins
from penstock.core.units import HOUR, SECOND
from penstock.spark.offsets import Place
from penstock.spark.read.decode import (
    arrow_schema,
    record_batch,
    wanted_parts,
)
from penstock.spark.settings import COLUMNS, ORIGIN_COLUMNS
from penstock.storage.batch import Batch
from tools.harness.fake_log_server import FIRST_ID, TIMESTAMP_NS, nsq_batch, nsq_frame

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
            "topic": "flights",
            "body": body,
            "id": f"{FIRST_ID + 40 + i:016x}",
            "timestamp": when,
            "attempts": 1,
            "node": "host:4151",
            "queue": 0,
            "offset": 40 + i,
        }
        for i, body in enumerate(bodies)
    ]


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


def test_columns_in_the_asked_order_and_no_others() -> None:
    batch = decode(nsq_batch(0, MIXED), columns=("offset", "body"))
    assert batch.schema == arrow_schema(("offset", "body"))
    assert batch.schema.names == ["offset", "body"]


def test_nothing_wanted() -> None:
    assert list(wanted_parts(nsq_batch(0, EQUAL), 7, 9)) == []
    assert list(wanted_parts(b"", 0, 9)) == []


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
    dead = batch.slice(2, 6)
    for name in ORIGIN_COLUMNS:
        assert batch[name].null_count == 3, name
    assert dead["body"].to_pylist() == MIXED
    assert dead["origin_topic"].to_pylist() == ["orders"] * 6
    assert dead["origin_channel"].to_pylist() == ["bill"] * 6
    assert dead["origin_id"].to_pylist() == [f"{i:016x}" for i in range(6)]
    assert [time.second for time in dead["origin_timestamp"].to_pylist()] == list(range(6))
    assert dead["origin_attempts"].to_pylist() == [3] * 6
    assert dead["reason"].to_pylist() == ["max_attempts"] * 6


def test_some_dead_letters_of_a_batch() -> None:
    batch = decode(letters(7, MIXED), 9, 11, ("offset", *ORIGIN_COLUMNS))
    assert batch["origin_id"].to_pylist() == [f"{i:016x}" for i in (2, 3)]
    assert [time.second for time in batch["origin_timestamp"].to_pylist()] == [2, 3]


def test_messages_that_are_no_dead_letters_have_no_origin() -> None:
    batch = decode(nsq_batch(0, EQUAL), columns=ORIGIN_COLUMNS)
    batch.validate(full=True)
    assert batch.schema == arrow_schema(ORIGIN_COLUMNS)
    assert {batch[name].null_count for name in ORIGIN_COLUMNS} == {len(EQUAL)}
