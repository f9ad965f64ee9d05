"""Time that goes on evenly while the system's time is set, ahead or back.

Messages are stamped with the system's time. How long ago that was cannot be told from the system's
time alone: it may have been set meanwhile, and after it was set back two stamps that are alike may
be an hour apart. Offsets know better: when the system's time is found to have been set, it is noted
from which offset on messages have the new time.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from operator import itemgetter
from typing import Final

from penstock.core.clock import Clock
from penstock.core.units import SECOND
from penstock.storage.log import Log
from penstock.storage.memory_log import MemoryLog
from penstock.storage.retention import Retention

STEP_NS: Final = SECOND
"""The two clocks drift apart by themselves; the system's time was set when it is by more."""
STEPS_MAX: Final = 1000
"""Older ones are forgotten."""

_OFFSET: Final = itemgetter(0)


class SteadyTime:
    """The times of one log's messages, as the system's time would be had nobody set it since this
    process has had the log.
    """

    __slots__ = ("_ahead_ns", "_base_ns", "_clock", "_found", "_silence_ns", "_steps")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._base_ns = clock.wall_ns() - clock.monotonic_ns()
        self._ahead_ns = 0
        self._steps = [(0, 0)]  # offset, and how far the stamps from it on are ahead
        self._found = self._silence_ns = 0

    @property
    def now_ns(self) -> int:
        return self._clock.monotonic_ns() + self._base_ns

    @property
    def ahead_ns(self) -> int:
        """How far the system's time is ahead; negative when it was set back."""
        return self._clock.wall_ns() - self.now_ns

    @property
    def least_ahead_ns(self) -> int:
        """The least that it is ahead now, or was when any message was stamped."""
        return min(self.ahead_ns, *(ahead_ns for _, ahead_ns in self._steps))

    def stamped(self, offset: int, wall_ns: int) -> None:
        """Messages from an offset on have just been given this system's time."""
        ahead_ns = wall_ns - self._clock.monotonic_ns() - self._base_ns
        if abs(ahead_ns - self._ahead_ns) > STEP_NS:
            self._ahead_ns = ahead_ns
            self._steps.append((offset, ahead_ns))
            del self._steps[1:-STEPS_MAX]

    def ahead_at(self, offset: int) -> int:
        """How far the stamp of a message is ahead of its time (ns)."""
        return self._steps[max(0, bisect_right(self._steps, offset, key=_OFFSET) - 1)][1]

    # --- retention -----------------------------------------------------------------------------

    def resumed(self, offset: int, silence_ns: int) -> None:
        """Messages below an offset are from before the start, the newest of all logs so old."""
        self._found, self._silence_ns = offset, silence_ns

    def trim(
        self,
        log: Log | MemoryLog,
        floor: int,
        retention: Retention,
        about_to: Callable[[int], None] | None = None,
    ) -> int:
        """Trim a log by the age that its messages have in this time.

        When all there is would have lapsed before the start, the broker has been down for long, or
        the system's time is wrong: in either case time begins to count with the start, so that who
        has not read them still can.
        """
        lapsed = bool(retention.time_ns) and self._silence_ns > retention.time_ns

        def ahead(offset: int) -> int:
            silence_ns = self._silence_ns if lapsed and offset < self._found else 0
            return self.ahead_at(offset) - silence_ns

        return log.trim(floor, self.now_ns, retention, ahead, about_to)
