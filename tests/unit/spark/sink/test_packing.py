"""Columns as JSON, of each type that has a form."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    LongType,
    MapType,
    NullType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from penstock.spark.errors import OptionError
from penstock.spark.sink.packing import packed, require_packable

NOON = datetime(2026, 1, 31, 12, tzinfo=timezone(timedelta(hours=2)))
WINDOW = StructType([StructField("start", TimestampType()), StructField("n", LongType())])


def json_of(kind: DataType, arrow: pa.DataType, *values: Any) -> list[str]:
    field = StructField("v", kind)
    require_packable(field)
    batch = pa.record_batch({"v": pa.array(values, arrow)})
    return [body.decode() for body in packed(batch, [field]).to_pylist()]


@pytest.mark.parametrize(
    ("kind", "arrow", "value", "text"),
    [
        (StringType(), pa.string(), 'a "b"\n\u00fc', '"a \\"b\\"\\nü"'),
        (BooleanType(), pa.bool_(), True, "true"),
        (BooleanType(), pa.bool_(), False, "false"),
        (LongType(), pa.int64(), -(1 << 63), "-9223372036854775808"),
        (DoubleType(), pa.float64(), 0.1, "0.1"),
        (DoubleType(), pa.float64(), float("nan"), '"NaN"'),
        (DoubleType(), pa.float64(), float("inf"), '"Infinity"'),
        (DoubleType(), pa.float64(), float("-inf"), '"-Infinity"'),
        (FloatType(), pa.float32(), 0.1, "0.1"),
        (DecimalType(38, 10), pa.decimal128(38, 10), Decimal("1e-10"), "0.0000000001"),
        (BinaryType(), pa.binary(), b"\xff\0", '"/wA="'),
        (DateType(), pa.date32(), date(2026, 1, 31), '"2026-01-31"'),
        (TimestampType(), pa.timestamp("us", "UTC"), NOON, '"2026-01-31T10:00:00.000Z"'),
        (TimestampType(), pa.timestamp("us", "+02:00"), NOON, '"2026-01-31T10:00:00.000Z"'),
        (TimestampType(), pa.timestamp("us", "UTC"), NOON + timedelta(microseconds=1),
         '"2026-01-31T10:00:00.000001Z"'),
        (TimestampNTZType(), pa.timestamp("us"), datetime(2026, 1, 31),
         '"2026-01-31T00:00:00.000"'),
        (ArrayType(LongType()), pa.list_(pa.int64()), [1, None], "[1,null]"),
        (MapType(StringType(), DoubleType()), pa.map_(pa.string(), pa.float64()),
         [("a", 1.0), ("b", None)], '{"a":1.0,"b":null}'),
        (WINDOW, pa.struct({"start": pa.timestamp("us", "UTC"), "n": pa.int64()}),
         {"start": datetime(2026, 1, 31, tzinfo=UTC), "n": None},
         '{"start":"2026-01-31T00:00:00.000Z"}'),
        (WINDOW, pa.struct({"start": pa.timestamp("us", "UTC"), "n": pa.int64()}), {}, "{}"),
    ],
)  # fmt: skip
def test_values(kind: DataType, arrow: pa.DataType, value: Any, text: str) -> None:
    assert json_of(kind, arrow, value, None) == [f'{{"v":{text}}}', "{}"]


@pytest.mark.parametrize("zone", ["GMT+08:00", "PST", "UTC+3", "Europe/Berlin", "+02:00"])
def test_times_of_all_zones_of_spark(zone: str) -> None:
    start = pa.timestamp("us", zone)
    value = [("k", [{"start": NOON, "n": 1}, None])]
    arrow = pa.map_(pa.string(), pa.list_(pa.struct({"start": start, "n": pa.int64()})))
    kind = MapType(StringType(), ArrayType(WINDOW))
    text = '{"k":[{"start":"2026-01-31T10:00:00.000Z","n":1},null]}'
    assert json_of(kind, arrow, value, None) == [f'{{"v":{text}}}', "{}"]
    assert json_of(TimestampType(), start, NOON) == ['{"v":"2026-01-31T10:00:00.000Z"}']


def test_a_column_of_nulls() -> None:
    assert json_of(NullType(), pa.null(), None) == ["{}"]


def test_years_of_five_digits_are_named() -> None:
    far = pa.scalar(1 << 60, pa.int64()).cast(pa.timestamp("us", "UTC"))
    batch = pa.record_batch({"v": pa.array([far.value], pa.timestamp("us", "UTC"))})
    with pytest.raises(ValueError, match="column v cannot be packed into JSON"):
        packed(batch, [StructField("v", TimestampType())])


@pytest.mark.parametrize(
    "kind", [MapType(LongType(), LongType()), ArrayType(MapType(LongType(), LongType()))]
)
def test_what_has_no_form(kind: DataType) -> None:
    with pytest.raises(OptionError, match=r"column v cannot be packed .* no form for map<bigint"):
        require_packable(StructField("v", kind))
