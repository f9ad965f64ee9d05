"""Values that a test of a pipeline got, with a stand-in for Spark's frame.

tests/spark/test_cases.py has whole tests.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql.types import (
    ArrayType,
    MapType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from penstock.spark.pipelines import cases
from penstock.spark.pipelines.spec import Case

_TIME = datetime(2026, 7, 1, 10, tzinfo=UTC)


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine whose clock is not set to UTC."""
    monkeypatch.setenv("TZ", "Asia/Kolkata")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def frame(schema: StructType, *values: Any) -> Any:
    """A row as PySpark makes it of what Java gives, in a frame."""
    rows = [schema.fromInternal(values)]
    limited = SimpleNamespace(collect=lambda: rows)
    return SimpleNamespace(schema=schema, columns=schema.fieldNames(), limit=lambda _: limited)


@pytest.mark.usefixtures("elsewhere")
def test_times_are_those_that_were_wanted_whatever_this_machines_zone() -> None:
    us = int(_TIME.timestamp() * 1_000_000)
    local = _TIME.replace(tzinfo=None)
    of_no_zone = TimestampNTZType()
    part = StructType().add("ts", TimestampType()).add("local", of_no_zone)
    schema = (
        StructType(list(part.fields))
        .add("locals", ArrayType(of_no_zone))
        .add("named", MapType(StringType(), of_no_zone))
        .add("part", part)
    )
    came = frame(schema, us, us, [us], {"a": us}, (us, us))
    wanted = {
        "ts": _TIME, "local": local, "locals": [local], "named": {"a": local},
        "part": {"local": local, "ts": _TIME},
    }  # fmt: skip
    case = Case("times", "p.toml:1", (), (wanted,), None)
    found = cases._difference(case, "output", came, (wanted,))
    assert (found.missing, found.unwanted) == ((), ())
