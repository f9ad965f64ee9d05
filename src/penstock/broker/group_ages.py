"""The time since each group of a topic moved, counted while the process runs.

Ages are of the monotonic clock and written down as ages, so neither a system's time that is set nor
the time for which the broker is down makes a group older. A group that has read all is not idle,
however long nothing was published: it has no reason to move.
"""

from __future__ import annotations

from typing import Final

from penstock.core.clock import Clock
from penstock.core.units import MINUTE

GRACE_NS: Final = 10 * MINUTE
"""The time after a start in which no group expires, unless its limit is shorter: its reader may
have waited for the start, and after a kill the age may be older than the last move."""


class GroupAges:
    """The times of the groups of one topic; ages are in ns."""

    __slots__ = ("_clock", "_moved", "_opened")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._opened = clock.monotonic_ns()
        self._moved: dict[str, int] = {}

    def moved(self, name: str) -> None:
        """A group has moved, is new, or has nothing to read."""
        self._moved[name] = self._clock.monotonic_ns()

    def restore(self, name: str, age_ns: int) -> None:
        """Go on from the age that was written down."""
        self._moved[name] = self._clock.monotonic_ns() - age_ns

    def forget(self, name: str) -> None:
        """The group was deleted."""
        self._moved.pop(name, None)

    def age_ns(self, name: str) -> int:
        """The age of a group that there is."""
        return self._clock.monotonic_ns() - self._moved[name]

    def expired(self, limit_ns: int) -> list[str]:
        """The groups that are this old or older."""
        now = self._clock.monotonic_ns()
        if now - self._opened < min(limit_ns, GRACE_NS):
            return []
        return [name for name, moved in self._moved.items() if now - moved >= limit_ns]
