"""Times as options give them: of the clock, or before the moment at which they are used."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from typing import Final, NamedTuple

from penstock.core.units import HOUR, MICROSECOND, MILLISECOND, parse_duration
from penstock.spark.errors import OptionError

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NS_MAX: Final = (1 << 63) - 1
# Seconds of the years from 1973 on, taken for milliseconds, lie in early 1970: before any message.
_SECONDS: Final = range(10**8, 10**11)
# As is the day of ISO 8601's form without dashes.
_DAY: Final = re.compile(r"(\d{4})(\d\d)(\d\d)", re.ASCII)
_DAYS: Final = re.compile(r"([0-9]+)d")


class Timestamp(NamedTuple):
    """A time in nanoseconds since 1970, or with ``relative`` since the moment of its use."""

    ns: int
    relative: bool = False

    def at(self, now_ns: int) -> int:
        """Nanoseconds since 1970, if it is now ``now_ns``."""
        return max(0, now_ns + self.ns) if self.relative else self.ns


def timestamp(name: str, given: str) -> Timestamp:
    """An option's time: ISO 8601 (UTC where it names no zone), milliseconds since 1970, ``-1h30m``.

    Raises OptionError.
    """
    text = given.strip()
    try:
        if text.startswith("-"):
            return Timestamp(-duration_ns(text[1:]), relative=True)
        if text.isdecimal():
            _require_no_day(name, text)
            return Timestamp(_milliseconds(name, int(text)))
        time = datetime.fromisoformat(text)
    except ValueError:
        raise OptionError(
            f"{name} must be a time such as 2026-01-31T12:00:00Z, milliseconds since 1970, or "
            f"-1h for an hour ago, not {given!r}"
        ) from None
    return Timestamp(nanoseconds(time if time.tzinfo else time.replace(tzinfo=UTC)))


def duration_ns(text: str) -> int:
    """Nanoseconds of a duration such as ``1h30m`` or ``7d``. Raises ValueError; not negative."""
    days = _DAYS.match(text)
    rest = text[days.end() :] if days else text
    of_days = 24 * HOUR * int(days[1]) if days else 0
    if rest[:1] in ("-", "+"):
        raise ValueError(f"invalid duration {text!r}")
    return min(_NS_MAX, of_days + (parse_duration(rest) if rest or not days else 0))


def nanoseconds(time: datetime) -> int:
    """Nanoseconds since 1970 of a time with a zone, as near to it as nodes take them."""
    return max(0, min(_NS_MAX, (time - _EPOCH) // timedelta(microseconds=1) * MICROSECOND))


def _require_no_day(name: str, given: str) -> None:
    """Raise OptionError for a day that would be taken for milliseconds."""
    parts = _DAY.fullmatch(given)
    if parts is None:
        return
    day = "-".join(parts.groups())
    try:
        date.fromisoformat(day)
    except ValueError:
        return
    raise OptionError(f"{name}={given} is in 1970, as milliseconds: write the day as {day}")


def _milliseconds(name: str, given: int) -> int:
    if given in _SECONDS:
        raise OptionError(f"{name}={given} is in 1970: give milliseconds, {given}000, not seconds")
    return min(_NS_MAX, given * MILLISECOND)
