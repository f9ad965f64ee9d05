"""The messages that a channel owes its consumers, and the state of each of them.

A channel is a cursor over the topic's log, no queue of its own. Offsets below the cursor have been
delivered once; those that are not finished yet are somewhere: in flight to a consumer, requeued,
deferred, or spent. Everything else below the cursor is done, and nothing needs to be kept about it.
From the cursor to ``head`` (what the topic has distributed) lies the backlog, without the
``skips``: offsets that were deferred when published, dropped for want of room, or emptied.

Times named ``now`` are monotonic nanoseconds.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from penstock.broker.channels.alarms import Alarms
from penstock.broker.channels.consumer import Consumer
from penstock.broker.channels.deferred import Deferred, DeferredRange
from penstock.broker.channels.flights import Flights
from penstock.broker.channels.latency import Latency
from penstock.broker.channels.requeued import Requeued, RequeuedRange
from penstock.broker.channels.spent import Spent
from penstock.broker.progress import ChannelRecord, Deferral
from penstock.broker.retrieval import retrieve
from penstock.core.clock import Clock
from penstock.core.errors import StorageError
from penstock.core.names import is_ephemeral
from penstock.core.ranges import RangeSet
from penstock.core.units import MILLISECOND, SECOND
from penstock.storage.log import ReadableLog

logger = logging.getLogger(__name__)

CLOCK_GRAIN_NS: Final = MILLISECOND
"""By less than this the two clocks only seem to part: they cannot be read at the same moment."""
CLOCK_STEP_NS: Final = SECOND
"""Clocks drift apart by themselves; by more than this the wall clock was set."""


def _pass_over(_count: int) -> None:
    """Missing messages are counted when they are to be delivered."""


@dataclass(slots=True)
class ChannelOptions:
    """Bounds of a channel: messages, and nanoseconds.

    ``max_attempts`` (0: any number) and ``dead_letter_topic`` (``%s``: the topic's name) hold for
    the channels that have no setting of their own.
    """

    mem_queue_size: int = 10_000
    max_msg_timeout_ns: int = 900 * 10**9
    latency_window_ns: int = 0  # over which latencies are measured; 0: they are not
    max_attempts: int = 0
    dead_letter_topic: str = "%s.dead"


class Holdings:
    """The messages of a channel by their state, and how they are written down."""

    def __init__(
        self,
        name: str,
        log: ReadableLog,
        cursor: int,
        *,
        clock: Clock,
        alarms: Alarms,
        options: ChannelOptions,
        topic_name: str = "",
        bounded: bool = False,
    ) -> None:
        self.name = name
        self.topic_name = topic_name
        self.log = log
        self.cursor = cursor
        self.head = cursor
        self.skips = RangeSet()
        self.requeued = Requeued()
        self.deferred = Deferred()
        self.spent = Spent()
        self.max_attempts = 0  # 0: any number
        self.ephemeral = is_ephemeral(name)
        self.bounded = bounded or self.ephemeral
        self.backlog_end = 0
        self.backlog_since_ns = 0  # monotonic
        self.changed = True
        self.wake_at: int | None = None
        self.consumers: list[Consumer] = []
        self.message_count = 0
        self.lost_count = 0
        self.dropped_count = 0
        self.latency: Latency | None = None
        if options.latency_window_ns:
            self.latency = Latency(options.latency_window_ns, clock, self._in_flight)
        self._departed: list[Flights] = []
        self._ahead_ns = 0
        self._recorded_ahead_ns = 0
        self._serial = 0  # of the newest record
        self._clock = clock
        self._alarms = alarms
        self._options = options

    # --- how much ------------------------------------------------------------------------------

    @property
    def depth(self) -> int:
        """Messages that wait to be delivered; those in flight and deferred do not count."""
        waiting = self.head - self.cursor - len(self.skips)
        return waiting + self.requeued.count + self.spent.count

    @property
    def backend_depth(self) -> int:
        """The number of waiting messages that are beyond the memory queue."""
        return 0 if self.bounded else max(0, self.depth - self._options.mem_queue_size)

    @property
    def in_flight_count(self) -> int:
        return sum(flights.count for flights in self._holders())

    @property
    def deferred_count(self) -> int:
        return self.deferred.count

    @property
    def unfinished_count(self) -> int:
        """All that it still needs."""
        return self.depth + self.in_flight_count + self.deferred.count

    def floor(self) -> int:
        """No offset below this one is needed any more."""
        floors = [flights.floor() for flights in self._holders()]
        floors += [self.requeued.floor(), self.deferred.floor(), self.spent.floor(), self.cursor]
        return min(floor for floor in floors if floor is not None)

    def needed(self) -> Iterator[tuple[int, int]]:
        """All ranges of offsets that are still to be finished, in no order."""
        yield from self._in_flight()
        for entry in (*self.requeued, *self.deferred, *self.spent):
            yield entry.first, entry.next
        yield from self.backlog()

    def backlog(self) -> Iterator[tuple[int, int]]:
        """The ranges that wait for their first delivery, in order; some may be empty."""
        low = self.cursor
        for first, next_ in self.skips:
            yield low, first
            low = max(low, next_)
        yield low, self.head

    def _holders(self) -> Iterator[Flights]:
        for consumer in self.consumers:
            yield consumer.flights
        yield from self._departed

    def _in_flight(self) -> Iterator[tuple[int, int]]:
        for first, next_, _ in self.flying():
            yield first, next_

    def flying(self) -> Iterator[tuple[int, int, int]]:
        """All that is in flight: (first, next, attempts) each, in no order."""
        for flights in self._holders():
            yield from flights.ranges()

    # --- the backlog ---------------------------------------------------------------------------

    def skip(self, first: int, next_: int) -> None:
        """``[first, next_)``, from ``head`` on, is not to be delivered: the topic was emptied."""
        assert first >= self.head
        self.skips.add(first, next_)
        self.head = next_
        self.changed = True

    def drop_oldest(self, count: int) -> int:
        """Forget the ``count`` oldest that are not in flight; how many there were.

        First what was delivered before, then the backlog; what is deferred only when nothing else
        is left.
        """
        dropped = self.requeued.drop(count)
        while dropped < count and (border := self._border()) > self.cursor:
            step = min(count - dropped, border - self.cursor)
            self.cursor += step
            dropped += step
        if dropped < count:
            dropped += self.deferred.drop(count - dropped)
        self.dropped_count += dropped
        self.changed = True
        return dropped

    def _drop_newest(self, surplus: int) -> None:
        """Skip the ``surplus`` newest of the backlog, or all of it."""
        skipped_before = len(self.skips)
        last = self.head
        for first, next_ in reversed(self.skips):
            if last - next_ >= surplus:
                break
            surplus -= last - next_
            last = first
        self.skips.add(max(self.cursor, last - surplus), self.head)
        self.dropped_count += len(self.skips) - skipped_before

    def _border(self) -> int:
        """Step over skips at the cursor; where the run of deliverable offsets ends."""
        if not self.skips:
            return self.head
        skip = self.skips.first_from(self.cursor)
        while skip is not None and skip[0] <= self.cursor:
            self.cursor = skip[1]
            skip = self.skips.first_from(self.cursor)
        self.skips.discard_below(self.cursor)
        return self.head if skip is None else min(self.head, skip[0])

    def _lose(self, count: int) -> None:
        """Count messages that are damaged in the log: nobody can have them."""
        self.lost_count += count

    # --- what comes again ----------------------------------------------------------------------

    def defer(self, first: int, next_: int, delay_ns: int, now: int) -> None:
        """``[first, next_)`` of what comes or has come is to wait before its first delivery."""
        self.skips.add(max(first, self.cursor), next_)
        self._defer(now + delay_ns, first, next_, 0)

    def _defer(self, deadline: int, first: int, next_: int, attempts: int) -> None:
        self.deferred.add(deadline, first, next_, attempts)
        self._alarms.wake(self, deadline)
        self.changed = True

    def _requeue(self, first: int, next_: int, attempts: int) -> None:
        """To the tail, as Go's memory queue has it: at most ``mem_queue_size`` messages go
        first.
        """
        self.changed = True
        if self.max_attempts and attempts >= self.max_attempts:
            self.spent.add(first, next_, attempts)
            self._alarms.wake(self, self._clock.monotonic_ns())
        else:
            self._requeue_again(first, next_, attempts)

    def _requeue_again(self, first: int, next_: int, attempts: int) -> None:
        after = min(self.head, self.cursor + self._options.mem_queue_size)
        self.requeued.add(RequeuedRange(first, next_, attempts, after))

    def cancel_deferred(self, offsets: Iterable[int] | None) -> list[DeferredRange]:
        """Finish these deferred messages, or all with None; those that were deferred."""
        self.changed = True
        if offsets is not None:
            return self.deferred.take(offsets)
        taken = list(self.deferred)
        self.deferred.clear()
        return taken

    def release_deferred(self, offsets: Iterable[int] | None) -> list[DeferredRange]:
        """Deliver these deferred messages, or all, now in the order of their deadlines; returns
        those that were deferred.
        """
        taken = sorted(self.cancel_deferred(offsets))
        for _, first, next_, attempts in taken:
            self._requeue(first, next_, attempts)
        return taken

    # --- from anew -----------------------------------------------------------------------------

    def empty(self) -> None:
        """Forget all: waiting, deferred and in flight. Later finishes of those fail."""
        self.cursor = self.head
        self.skips.clear()
        self.requeued.clear()
        self.deferred.clear()
        self.spent.clear()
        for flights in self._holders():
            flights.clear()
        self._departed.clear()
        if self.latency is not None:
            self.latency.emptied()
        self.changed = True

    def seek(self, offset: int, head: int) -> None:
        """Forget all and go on from ``offset`` of the log, further back or ahead.

        What the log holds from there up to the topic's ``head`` is delivered (again), whatever was
        done about it before.
        """
        self.empty()
        self.cursor = offset
        self.head = max(head, offset)

    # --- keeping progress ----------------------------------------------------------------------

    def record(self, everything: bool) -> ChannelRecord:
        """The channel's record for the journal; ``everything`` when the journal is rewritten."""
        self.changed = False
        self._serial += 1
        to_wall = self._wall_ahead_ns()
        if abs(to_wall - self._recorded_ahead_ns) >= CLOCK_STEP_NS:
            self._recorded_ahead_ns = to_wall
            everything = True  # or deadlines of two clocks would stand side by side
        reset, added, over = self.deferred.collect(everything)
        unfinished = list(self.flying())
        unfinished += [(e.first, e.next, e.attempts) for e in (*self.requeued, *self.spent)]
        deferred = [(e.deadline + to_wall, e.first, e.next, e.attempts) for e in added]
        return ChannelRecord(self.name, self.cursor, self.head, unfinished, list(self.skips),
                             reset, deferred, over, self._serial,
                             self._clock.monotonic_ns() + to_wall)  # fmt: skip

    def restore(self, record: ChannelRecord, deferred: list[Deferral]) -> None:
        """Go on from a record. What was in flight is delivered again, with one attempt more.

        The record may lag behind the log or, after a power cut, be ahead of it: offsets that the
        log has let go were finished, those behind its end are forgotten. A wall clock that was set
        back since the record was written makes no deferral longer.
        """
        self._serial = record.serial
        start, end = self.log.start_offset, self.log.next_offset
        self.cursor = max(start, min(record.cursor, end))
        self.head = max(start, min(record.head, end))
        for first, next_ in record.skips:
            self.skips.add(max(first, self.cursor), min(next_, self.head))
        for first, next_, attempts in sorted(record.unfinished):
            first, next_ = max(first, start), min(next_, end)
            if first < next_:
                self.requeued.add(RequeuedRange(first, next_, attempts, self.cursor))
        to_wall = self._wall_ahead_ns()
        set_back_ns = max(0, record.written_ns - self._clock.monotonic_ns() - to_wall)
        for deadline, first, next_, attempts in deferred:
            first, next_ = max(first, start), min(next_, end)
            if first < next_:
                self._defer(deadline - to_wall - set_back_ns, first, next_, attempts)

    def owe(self, first: int, next_: int) -> None:
        """Deliver messages whose state is not known any more; those that were published with a
        delay when that is over.
        """
        first, next_ = max(first, self.log.start_offset), min(next_, self.log.next_offset)
        now, to_wall = self._clock.monotonic_ns(), self._wall_ahead_ns()
        try:
            for batch, low, high in retrieve(self.log, first, next_, _pass_over):
                deadline = min(batch.timestamp_ns - to_wall, now) + batch.delay_ns
                if deadline > now:
                    self._owe_now(first, low)
                    self._defer(deadline, low, high, 0)
                    first = high
        except StorageError as error:  # delivering them reads them again
            logger.warning("CHANNEL(%s): cannot tell what is deferred - %s", self.name, error)
        self._owe_now(first, next_)

    def _owe_now(self, first: int, next_: int) -> None:
        if first < next_:
            self.requeued.add(RequeuedRange(first, next_, 0, self.cursor))

    def _wall_ahead_ns(self) -> int:
        """Wall time minus monotonic time. The value only changes when the wall clock is set, so
        that equal deadlines stay equal, whenever each of them is converted.
        """
        ahead = self._clock.wall_ns() - self._clock.monotonic_ns()
        if abs(ahead - self._ahead_ns) >= CLOCK_GRAIN_NS:
            self._ahead_ns = ahead
        return self._ahead_ns
