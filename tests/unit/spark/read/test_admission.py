"""Limits of micro-batches."""

from __future__ import annotations

import pytest
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
)

from penstock.core.units import SECOND
from penstock.spark.offsets import Bounds, Place
from penstock.spark.read import admission
from penstock.spark.read.admission import Admission
from penstock.spark.settings import Settings

SMALL = Place("t", "a:1", 0)
LARGE = Place("t", "b:1", 0)
# Messages of 100 bytes and of 1,000.
BOUNDS = {SMALL: Bounds(0, 1000, 100_000, "a:1"), LARGE: Bounds(500, 1000, 500_000, "b:1")}
START = {SMALL: 0, LARGE: 500}
END = {SMALL: 1000, LARGE: 1000}


def with_options(**options: str) -> Admission:
    return Admission(Settings.parse({"topic": "t", "nsqd_http_address": "h:1", **options}))


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
    assert not limited.hold_back({SMALL: 0}, {SMALL: 100})
    assert limited.hold_back({SMALL: 0}, {SMALL: 99})
    clock.ns += 9 * SECOND
    assert limited.hold_back({SMALL: 0}, {SMALL: 99})
    clock.ns += SECOND
    assert not limited.hold_back({SMALL: 0}, {SMALL: 99})
    # The next ones wait as long again, from when they are seen.
    clock.ns += 60 * SECOND
    assert not limited.hold_back({SMALL: 99}, {SMALL: 99})
    assert limited.hold_back({SMALL: 99}, {SMALL: 100})
    clock.ns += 9 * SECOND
    assert not limited.hold_back({SMALL: 99}, {SMALL: 199})
    assert limited.hold_back({SMALL: 199}, {SMALL: 200})
    clock.ns += 9 * SECOND
    assert limited.hold_back({SMALL: 199}, {SMALL: 200})


def test_without_a_least_number_nothing_waits(clock: Clock) -> None:
    assert not with_options().hold_back({SMALL: 0}, {SMALL: 1})
