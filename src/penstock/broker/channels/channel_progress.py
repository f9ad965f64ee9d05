"""The progress of a channel: its state as records of the topic's journal, and back.

Deadlines are written in wall time, as monotonic time ends with the process.
"""

from __future__ import annotations

import logging
from typing import Final

from penstock.broker.channels.channel_state import ChannelState
from penstock.broker.channels.requeued import RequeuedRange
from penstock.broker.progress import ChannelRecord, Deferral
from penstock.broker.retrieval import retrieve
from penstock.core.clock import Clock
from penstock.core.errors import StorageError
from penstock.core.units import MILLISECOND, SECOND
from penstock.storage.log import ReadableLog

logger = logging.getLogger(__name__)

CLOCK_GRAIN_NS: Final = MILLISECOND
"""The difference of clocks that counts as none: they cannot be read at the same moment."""
CLOCK_STEP_NS: Final = SECOND
"""Clocks drift apart by themselves; by more than this the wall clock was set."""


def _pass_over(_count: int) -> None:
    """Missing messages are counted when they are to be delivered."""


class ChannelProgress:
    """The record of how far the channel ``name`` is in its log: written down and restored."""

    __slots__ = ("_ahead_ns", "_clock", "_log", "_name", "_recorded_ahead_ns", "_serial", "_state")

    def __init__(self, name: str, log: ReadableLog, state: ChannelState, clock: Clock) -> None:
        self._name = name
        self._log = log
        self._state = state
        self._clock = clock
        self._ahead_ns = 0
        self._recorded_ahead_ns = 0
        self._serial = 0  # of the newest record

    def record(self, everything: bool) -> ChannelRecord:
        """The channel's record for the journal; ``everything`` when the journal is rewritten."""
        state = self._state
        state.changed = False
        self._serial += 1
        to_wall = self.wall_ahead_ns()
        if abs(to_wall - self._recorded_ahead_ns) >= CLOCK_STEP_NS:
            self._recorded_ahead_ns = to_wall
            everything = True  # or deadlines of two clocks would stand side by side
        reset, added, over = state.deferred.collect(everything)
        unfinished = list(state.flying())
        unfinished += [(e.first, e.next, e.attempts) for e in (*state.requeued, *state.spent)]
        deferred = [(e.deadline + to_wall, e.first, e.next, e.attempts) for e in added]
        return ChannelRecord(self._name, state.cursor, state.head, unfinished, list(state.skips),
                             reset, deferred, over, self._serial,
                             self._clock.monotonic_ns() + to_wall)  # fmt: skip

    def restore(self, record: ChannelRecord, deferred: list[Deferral]) -> None:
        """Go on from a record. What was in flight is delivered again, with one attempt more.

        The record may lag behind the log or, after a power cut, be ahead of it: offsets that the
        log has let go were finished, those behind its end are forgotten. A wall clock that was set
        back since the record was written makes no deferral longer.
        """
        state = self._state
        self._serial = record.serial
        start, end = self._log.start_offset, self._log.next_offset
        state.cursor = max(start, min(record.cursor, end))
        state.head = max(start, min(record.head, end))
        for first, next_ in record.skips:
            state.skips.add(max(first, state.cursor), min(next_, state.head))
        # In the order of the log: nobody holds them any more, and reading goes forward.
        for first, next_, attempts in sorted(record.unfinished):
            first, next_ = max(first, start), min(next_, end)
            if first < next_:
                state.requeued.add(RequeuedRange(first, next_, attempts, state.cursor))
        to_wall = self.wall_ahead_ns()
        set_back_ns = max(0, record.written_ns - self._clock.monotonic_ns() - to_wall)
        for deadline, first, next_, attempts in deferred:
            first, next_ = max(first, start), min(next_, end)
            if first < next_:
                state.deferred.add(deadline - to_wall - set_back_ns, first, next_, attempts)

    def owe(self, first: int, next_: int) -> None:
        """Deliver messages whose state is not known any more; those that were published with a
        delay when that is over.
        """
        first, next_ = max(first, self._log.start_offset), min(next_, self._log.next_offset)
        now, to_wall = self._clock.monotonic_ns(), self.wall_ahead_ns()
        try:
            for batch, low, high in retrieve(self._log, first, next_, _pass_over):
                deadline = min(batch.timestamp_ns - to_wall, now) + batch.delay_ns
                if deadline > now:
                    self._owe_now(first, low)
                    self._state.deferred.add(deadline, low, high, 0)
                    first = high
        except StorageError as error:  # delivering them reads them again
            logger.warning("CHANNEL(%s): cannot tell what is deferred - %s", self._name, error)
        self._owe_now(first, next_)

    def _owe_now(self, first: int, next_: int) -> None:
        if first < next_:
            self._state.requeued.add(RequeuedRange(first, next_, 0, self._state.cursor))

    def wall_ahead_ns(self) -> int:
        """Wall time minus monotonic time. The value only changes when the wall clock is set, so
        that equal deadlines stay equal, whenever each of them is converted.
        """
        ahead = self._clock.wall_ns() - self._clock.monotonic_ns()
        if abs(ahead - self._ahead_ns) >= CLOCK_GRAIN_NS:
            self._ahead_ns = ahead
        return self._ahead_ns
