"""Times and durations as people type them."""

from __future__ import annotations

import time

import pytest

from penstock.cli.shared.times import ago, moment_ns, seconds
from penstock.core.errors import ConfigError
from penstock.core.moments import rfc3339

NOW_NS = 1_795_294_921_053_775_026
SECOND = 10**9


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1970-01-01T00:00:01Z", SECOND),
        ("1970-01-01t01:00:01.5+01:00", SECOND + SECOND // 2),
        ("1970-01-01 00:00:00.000000001Z", 1),
        ("2h", NOW_NS - 7200 * SECOND),
        ("1m30s", NOW_NS - 90 * SECOND),
        ("3d", NOW_NS - 3 * 86400 * SECOND),
        ("99999d", 0),
        ("1960-01-01T00:00:00Z", 0),
        ("9999-12-31T00:00:00Z", (1 << 63) - 1),
    ],
)
def test_moments(text: str, expected: int) -> None:
    assert moment_ns("--from-time", text, NOW_NS) == expected


@pytest.mark.parametrize(
    "text", ["", "yesterday", "2026-13-01T00:00:00Z", "-2h", "2026-01-01", "1" * 5000 + "d"]
)
def test_what_is_no_moment_is_said_with_its_flag(text: str) -> None:
    with pytest.raises(ConfigError, match=f"--to-time {text}"):
        moment_ns("--to-time", text, NOW_NS)


@pytest.mark.parametrize("zone", ["America/New_York", "UTC", "Asia/Tokyo"])
def test_local_times_of_the_first_and_the_last_year(
    zone: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        assert moment_ns("--to-time", "9999-12-31T23:59:59", NOW_NS) == (1 << 63) - 1
        assert moment_ns("--from-time", "0001-01-01T00:00:00", NOW_NS) == 0
    finally:
        monkeypatch.undo()
        time.tzset()


def test_moments_are_shown_as_they_are_typed() -> None:
    shown = rfc3339(NOW_NS)
    assert shown == "2026-11-21T21:02:01.053775Z"
    assert moment_ns("--from-time", shown, 0) == NOW_NS // 1000 * 1000


def test_seconds() -> None:
    assert seconds("--interval", "250ms") == 0.25
    for text in ("0s", "-1s", "1", "x"):
        with pytest.raises(ConfigError, match="--interval"):
            seconds("--interval", text)


@pytest.mark.parametrize(
    ("age_s", "shown"), [(-5, "0s"), (59, "59s"), (60, "1m"), (7300, "2h"), (200_000, "2d")]
)
def test_ages(age_s: int, shown: str) -> None:
    assert ago(age_s * SECOND) == shown
