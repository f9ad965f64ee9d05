"""A clock that only moves when a test says so."""

from __future__ import annotations


class FakeClock:
    """A ``penstock.core.clock.Clock`` for tests: both clocks start at ``now`` and advance
    together.
    """

    def __init__(self, now: int = 1_700_000_000_000_000_000) -> None:
        self._monotonic = now
        self._wall = now

    def monotonic_ns(self) -> int:
        return self._monotonic

    def wall_ns(self) -> int:
        return self._wall

    def advance(self, ns: int) -> None:
        """Let ``ns`` nanoseconds pass on both clocks."""
        if ns < 0:
            raise ValueError("time only goes forward; use set_wall for a jump of the system's time")
        self._monotonic += ns
        self._wall += ns

    def set_wall(self, ns: int) -> None:
        """Jump the wall clock alone, as setting the system's time does."""
        self._wall = ns
