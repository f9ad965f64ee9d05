"""Endpoints that do not take bodies at the moment: until when they are left alone."""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from threading import Lock
from typing import Final

from penstock.core.clock import SYSTEM_CLOCK, Clock
from penstock.core.units import SECOND

PAUSE_FIRST_NS: Final = SECOND // 5
PAUSE_MAX_NS: Final = 30 * SECOND
RETRY_AFTER_MAX_S: Final = 3600
"""The longest that an endpoint is left alone at its word."""
_SAY_AFTER_NS: Final = 5 * SECOND
_SAY_EVERY_NS: Final = 30 * SECOND
_DIGITS_MAX: Final = 9


class Outage:
    """One endpoint's failures of late; for several threads."""

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._lock = Lock()
        self._pause_ns = 0
        self._until_ns = 0
        self._since_ns: int | None = None
        self._said_ns: int | None = None

    @property
    def wait_s(self) -> float:
        """Seconds until the endpoint may be asked again, 0 if it may be at once."""
        return max(0, self._until_ns - self._clock.monotonic_ns()) / SECOND

    def failed(self, asked_ns: int, retry_after_s: float = 0.0) -> float | None:
        """Note that a request failed, which was sent at this time (monotonic), and for how long the
        endpoint wants to be left alone. Pauses double.

        Returns the seconds that the outage has lasted, when it is time to report it.
        """
        with self._lock:
            now = self._clock.monotonic_ns()
            if self._since_ns is None:
                self._since_ns, self._said_ns = now, None
            # Of requests that were under way together the first to fail makes the pause.
            if asked_ns >= self._until_ns:
                self._pause_ns = min(max(2 * self._pause_ns, PAUSE_FIRST_NS), PAUSE_MAX_NS)
                self._until_ns = now + self._pause_ns
            self._until_ns = max(self._until_ns, now + int(retry_after_s * SECOND))
            lasted = now - self._since_ns
            due = _SAY_AFTER_NS if self._said_ns is None else self._said_ns + _SAY_EVERY_NS
            if lasted < due:
                return None
            self._said_ns = lasted
            return lasted / SECOND

    def ended(self) -> float | None:
        """Note that a body was taken, or refused for good.

        Returns the seconds that the outage lasted, if it was reported.
        """
        with self._lock:
            said, since = self._said_ns is not None, self._since_ns
            self._pause_ns, self._since_ns, self._said_ns = 0, None, None
            lasted = self._clock.monotonic_ns() - since if said and since is not None else None
            return None if lasted is None else lasted / SECOND


def retry_after_s(given: str, clock: Clock = SYSTEM_CLOCK) -> float:
    """The seconds of a header ``Retry-After``, a number or a date (RFC 9110 10.2.3); 0 without one,
    an hour at most.
    """
    text = given.strip()
    if text.isascii() and text.isdecimal():
        return float(min(int(text[:_DIGITS_MAX]), RETRY_AFTER_MAX_S))
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return 0.0
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    now = datetime.fromtimestamp(clock.wall_ns() / SECOND, UTC)
    return min(max(0.0, (moment - now).total_seconds()), RETRY_AFTER_MAX_S)
