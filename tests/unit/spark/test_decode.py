"""The decoder against messages built one by one."""

from __future__ import annotations

import datetime

import pyarrow as pa
import pytest

from penstock.spark.decode import TYPES, Origin, arrow_schema, record_batch, wanted_parts
from tests.spark.fake_log_server import FIRST_ID, TIMESTAMP_NS, nsq_batch

ORIGIN = Origin("flights", "host:4151", 0)
EQUAL = [b"%03d" % i * 4 for i in range(7)]
MIXED = [b"x" * i for i in (0, 5, 1, 0, 300, 2)]


def decode(
    buffer: bytes, start: int = 0, end: int = 1 << 40, columns: tuple[str, ...] = tuple(TYPES)
) -> pa.RecordBatch:
    return record_batch(list(wanted_parts(buffer, start, end)), ORIGIN, columns)


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
