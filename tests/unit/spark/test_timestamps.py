"""Times in options."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from penstock.core.units import HOUR, MINUTE, SECOND
from penstock.spark.errors import OptionError
from penstock.spark.timestamps import Timestamp, nanoseconds, timestamp

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
    "given", ["", "-", "1h", "--1h", "-+1h", "-1", "-1w", "yesterday", "2026-02-30", "1.5"]
)
def test_what_is_no_time(given: str) -> None:
    with pytest.raises(OptionError) as refused:
        timestamp("startingTimestamp", given)
    assert str(refused.value) == (
        "startingTimestamp must be a time such as 2026-01-31T12:00:00Z, milliseconds since 1970, "
        f"or -1h for an hour ago, not {given!r}"
    )


def test_seconds_are_not_taken_for_milliseconds() -> None:
    with pytest.raises(OptionError) as refused:
        timestamp("endingTimestamp", "1767225600")
    assert str(refused.value) == (
        "endingTimestamp=1767225600 is in 1970: give milliseconds, 1767225600000, not seconds"
    )


def test_a_day_without_dashes_is_not_taken_for_milliseconds() -> None:
    with pytest.raises(OptionError) as refused:
        timestamp("startingTimestamp", " 20260131 ")
    assert str(refused.value) == (
        "startingTimestamp=20260131 is in 1970, as milliseconds: write the day as 2026-01-31"
    )
    assert timestamp("startingTimestamp", "20260231").ns == 20_260_231_000_000


def test_nanoseconds_are_exact() -> None:
    moment = datetime(2026, 1, 1, 0, 0, 0, 123_457, tzinfo=UTC)
    assert nanoseconds(moment) == NEW_YEAR + 123_457_000
