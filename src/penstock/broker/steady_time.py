"""Time that advances evenly even if the system's time is set forward or back.

Messages are stamped with the system's time. The age of a message cannot be computed from the
system's time alone: it may have been set since, and after it was set back, two equal stamps may be
an hour apart. Therefore each setting of the system's time is noted with the offset of the first
message that has the new time.
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
"""A larger difference means that the system's time was set; up to this the clocks only drift."""
STEPS_MAX: Final = 1000
"""The most settings of the system's time to remember; older ones are forgotten."""

_OFFSET: Final = itemgetter(0)


class SteadyTime:
    """The times of one log's messages, as if the system's time had not been set since the start of
    this process.
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
        """The lead of the system's time over this time; negative if it was set back."""
        return self._clock.wall_ns() - self.now_ns

    @property
    def least_ahead_ns(self) -> int:
        """The least lead of the system's time, of now and of the time of each message."""
        return min(self.ahead_ns, *(ahead_ns for _, ahead_ns in self._steps))

    def stamped(self, offset: int, wall_ns: int) -> None:
        """Note that messages from this offset on are stamped with this system's time."""
        ahead_ns = wall_ns - self._clock.monotonic_ns() - self._base_ns
        if abs(ahead_ns - self._ahead_ns) > STEP_NS:
            self._ahead_ns = ahead_ns
            self._steps.append((offset, ahead_ns))
            del self._steps[1:-STEPS_MAX]

    def ahead_at(self, offset: int) -> int:
        """The lead in ns of the stamp of a message over its steady time."""
        return self._steps[max(0, bisect_right(self._steps, offset, key=_OFFSET) - 1)][1]

    # --- retention -----------------------------------------------------------------------------

    def resumed(self, offset: int, silence_ns: int) -> None:
        """Note the end of the log at the start, and the age of the newest message of all logs."""
        self._found, self._silence_ns = offset, silence_ns

    def trim(
        self,
        log: Log | MemoryLog,
        floor: int,
        retention: Retention,
        about_to: Callable[[int], None] | None = None,
    ) -> int:
        """Trim a log by the age of its messages in steady time.

        If all messages would have expired before the start, either the broker was down for long or
        the system's time is wrong. In both cases their age counts from the start, so that readers
        still have time to read them.
        """
        lapsed = bool(retention.time_ns) and self._silence_ns > retention.time_ns

        def ahead(offset: int) -> int:
            silence_ns = self._silence_ns if lapsed and offset < self._found else 0
            return self.ahead_at(offset) - silence_ns

        return log.trim(floor, self.now_ns, retention, ahead, about_to)
