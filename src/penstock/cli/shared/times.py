"""Times and durations as people type them and as they read them."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from penstock.core.errors import UsageError
from penstock.core.moments import EPOCH
from penstock.core.units import DURATION_FORM, SECOND, parse_duration

_RFC3339 = re.compile(
    r"(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?([Zz]|[+-]\d\d:\d\d)?"
)
_LATEST_NS = (1 << 63) - 1
_DAYS = re.compile(r"(\d{1,18})d")


def seconds(flag: str, text: str) -> float:
    """A positive duration such as ``500ms`` or ``2s``. Raises UsageError."""
    ns = _duration(text)
    if ns is None or ns <= 0:
        raise UsageError(f"{flag} {text}: give {DURATION_FORM}")
    return ns / SECOND


def moment_ns(flag: str, text: str, now_ns: int) -> int:
    """A time in wall-clock ns: RFC 3339, or how long ago (``2h``, ``3d``). Raises UsageError.

    A time without an offset is this machine's local time. One that no node can have is the first or
    the last that it can.
    """
    return max(0, min(_read(flag, text, now_ns), _LATEST_NS))


def _read(flag: str, text: str, now_ns: int) -> int:
    found = _RFC3339.fullmatch(text)
    if found is not None:
        try:
            return _parsed(*found.groups())
        except ValueError as error:
            raise UsageError(f"{flag} {text}: {error}") from error
    ago = _duration(text)
    if ago is None or ago < 0:
        raise UsageError(
            f"{flag} {text}: give a time such as 2026-11-21T14:00:00Z, or how long ago, as 2h or 3d"
        )
    return now_ns - ago


def ago(ns: int) -> str:
    """An age in its largest unit: 12s, 5m, 3h, 2d."""
    age = max(0, ns) // SECOND
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if age >= size:
            return f"{age // size}{unit}"
    return f"{age}s"


def _parsed(day: str, time: str, fraction: str | None, zone: str | None) -> int:
    text = f"{day}T{time}"
    if zone is None:
        moment = _local(datetime.fromisoformat(text))
    else:
        moment = datetime.fromisoformat(text + ("+00:00" if zone in "Zz" else zone))
    since = moment - EPOCH
    return (since.days * 86400 + since.seconds) * SECOND + int((fraction or "0").ljust(9, "0"))


def _local(moment: datetime) -> datetime:
    """The moment as one of this machine's local time."""
    try:
        return moment.astimezone()
    except (ValueError, OverflowError):  # in UTC it is before the year 1, or after 9999
        return moment.replace(tzinfo=UTC)


def _duration(text: str) -> int | None:
    days = _DAYS.fullmatch(text)
    if days is not None:
        return int(days[1]) * 24 * 3600 * SECOND
    try:
        return parse_duration(text)
    except ValueError:
        return None
