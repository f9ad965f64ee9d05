"""Time that advances evenly even if the system's time is set forward or back.

Messages are stamped with the system's time. The age of a message cannot be computed from the
system's time alone: it may have been set since, and after it was set back, two equal stamps may be
an hour apart. Therefore each setting of the system's time is noted with the offset of the first
message that has the new time, and written to the journal.

A start assumes that the system's time went on as it was set last, unless what passed while the
broker was down shows that it may have been set right again. A stop and a clock that was set ahead
look the same, so the guess is the one with the younger messages: kept too long, none is lost.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from operator import itemgetter
from typing import Final

from penstock.broker.progress import ClockRecord, Step, Stop
from penstock.core.clock import Clock
from penstock.core.units import HOUR, SECOND
from penstock.storage.log import Log
from penstock.storage.memory_log import MemoryLog
from penstock.storage.retention import Retention

STEP_NS: Final = SECOND
"""A larger difference means that the system's time was set; up to this the clocks only drift."""
STEPS_MAX: Final = 1000
"""The most settings of the system's time to remember, and stops; older ones are forgotten."""
STOP_NS: Final = HOUR
"""A longer stop of the broker is remembered over further restarts."""

_OFFSET: Final = itemgetter(0)


class SteadyTime:
    """The times of one log's messages, as if the system's time had not been set since the start of
    this process.
    """

    __slots__ = ("_base_ns", "_clock", "_peak_ns", "_steps", "_stops", "seen_ns", "unwritten")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._base_ns = clock.wall_ns() - clock.monotonic_ns()
        self._steps: list[Step] = [(0, 0)]
        self._peak_ns = 0  # how far the system's time had come before it was set
        self._stops: list[Stop] = []
        self.seen_ns = 0  # the system's time when the log was in use before this process
        self.unwritten = False  # the journal lacks the newest setting

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

    def note_stamp(self, offset: int, wall_ns: int) -> bool:
        """Note that messages from this offset on are stamped with this system's time.

        True if it was set since the last call.
        """
        steady_ns = self.now_ns
        ahead_ns, before_ns = wall_ns - steady_ns, self._steps[-1][1]
        if abs(ahead_ns - before_ns) <= STEP_NS:
            return False
        self._peak_ns = max(self._peak_ns, steady_ns + before_ns)
        if self._steps[-1][0] == offset:  # no message has the time that was set last
            self._steps.pop()
        self._steps.append((offset, ahead_ns))
        # The first stays: ``ahead_at`` needs a step at or before every offset.
        del self._steps[1:-STEPS_MAX]
        self.unwritten = True
        return True

    def ahead_at(self, offset: int) -> int:
        """The lead in ns of the stamp of a message over its steady time."""
        return self._steps[max(0, bisect_right(self._steps, offset, key=_OFFSET) - 1)][1]

    # --- over restarts -------------------------------------------------------------------------

    @property
    def is_uneven(self) -> bool:
        """True if the log has messages from before and after a setting or a stop."""
        return len(self._steps) > 1 or any(silence > STOP_NS for _, silence in self._stops)

    def record(self, start: int) -> ClockRecord:
        """The settings and stops for the journal of a log that starts at this offset."""
        del self._steps[: max(0, bisect_right(self._steps, start, key=_OFFSET) - 1)]
        stops = [stop for stop in self._stops if stop[0] > start and stop[1] > STOP_NS]
        steady_ns, ahead_ns = self.now_ns, self.ahead_ns
        return ClockRecord(
            self._steps, ahead_ns, steady_ns + ahead_ns, self._peak_ns, stops[-STEPS_MAX:]
        )

    def restore(self, record: ClockRecord | None, end: int, newest_ns: int) -> None:
        """Go on from the journal of a log with this end and latest stamp."""
        record = record or ClockRecord([(0, 0)], 0, 0, 0)
        is_later = newest_ns > record.peak_ns + STEP_NS
        self.seen_ns = newest_ns if is_later else record.wall_ns
        lead_ns = self._lead_after(record)
        self._steps = [(min(offset, end), ahead_ns - lead_ns) for offset, ahead_ns in record.steps]
        self._stops = [(min(offset, end), silence) for offset, silence in record.stops]
        self._peak_ns = record.peak_ns
        if newest_ns > self.now_ns + STEP_NS:  # or else that stamp would pass for a later one
            self._peak_ns = max(self._peak_ns, newest_ns)
            self.unwritten = True

    def _lead_after(self, record: ClockRecord) -> int:
        """The least age of the messages: if the clock may have been set right, it was."""
        ahead_ns, now_ns = record.ahead_ns, self.now_ns
        if ahead_ns < 0:
            return 0 if now_ns - self.seen_ns >= -ahead_ns else ahead_ns
        return max(0, min(ahead_ns, ahead_ns - record.wall_ns + now_ns))

    # --- retention -----------------------------------------------------------------------------

    def resumed(self, offset: int, silence_ns: int) -> None:
        """Note the end of the log at the start, and how long ago any log was last in use."""
        self._stops.append((offset, silence_ns))
        self.unwritten |= bool(offset) and silence_ns > STOP_NS

    def trim(
        self,
        log: Log | MemoryLog,
        floor: int,
        retention: Retention,
        about_to: Callable[[int], None] | None = None,
    ) -> int:
        """Trim a log by the age of its messages in steady time.

        If all messages would have expired before a start, either the broker was down for long or
        the system's time was wrong. In both cases the downtime is not counted, so that
        readers still have time to read them.
        """
        long = [stop for stop in self._stops if retention.time_ns and stop[1] > retention.time_ns]

        def ahead(offset: int) -> int:
            return self.ahead_at(offset) - sum(silence for end, silence in long if offset < end)

        return log.trim(floor, self.now_ns, retention, ahead, about_to)
