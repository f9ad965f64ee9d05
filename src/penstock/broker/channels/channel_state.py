"""The state of each message of a channel: waiting, in flight, requeued, deferred or spent.

A channel is a cursor over the topic's log, not a second queue. Offsets below the cursor have been
delivered once; those that are not finished yet are somewhere: in flight to a consumer, requeued,
deferred, or spent. Everything else below the cursor is done, and nothing needs to be kept about it.
From the cursor to ``head`` (what the topic has distributed) lies the backlog, without the
``skips``: offsets that were deferred when published, dropped for want of room, or emptied.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from penstock.broker.channels.deferred import Deferred, DeferredRange
from penstock.broker.channels.flights import Flights
from penstock.broker.channels.requeued import Requeued, RequeuedRange
from penstock.broker.channels.spent import Spent
from penstock.core.ranges import RangeSet


class ChannelState:
    """The messages of a channel by their state.

    ``mem_queue_size`` is the number of waiting messages beyond which the others count as on disk
    or, in a ``bounded`` channel, the newest are dropped, or the oldest if it ``drops_oldest``.
    """

    __slots__ = ("bounded", "changed", "cursor", "deferred", "departed", "dropped_count",
                 "drops_oldest", "flights", "head", "lost_count", "mem_queue_size", "requeued",
                 "skips", "spent")  # fmt: skip

    def __init__(self, cursor: int, mem_queue_size: int, *, bounded: bool = False) -> None:
        self.cursor = cursor
        self.head = cursor
        self.skips = RangeSet()
        self.requeued = Requeued()
        self.deferred = Deferred()
        self.spent = Spent()
        self.flights: list[Flights] = []
        """Messages in flight, by consumer."""
        self.departed: list[Flights] = []
        """Messages in flight to consumers that are gone."""
        self.mem_queue_size = mem_queue_size
        self.bounded = bounded
        self.drops_oldest = False
        self.changed = True
        """True if the journal does not have it yet."""
        self.lost_count = 0
        self.dropped_count = 0

    # --- how much ------------------------------------------------------------------------------

    @property
    def depth(self) -> int:
        """Messages that wait to be delivered; those in flight and deferred do not count."""
        # As in Go without what is in flight or deferred (NSQ spec 3.3).
        waiting = self.head - self.cursor - len(self.skips)
        return waiting + self.requeued.count + self.spent.count

    @property
    def backend_depth(self) -> int:
        """The number of waiting messages that are beyond the memory queue."""
        return 0 if self.bounded else max(0, self.depth - self.mem_queue_size)

    @property
    def in_flight_count(self) -> int:
        return sum(flights.count for flights in self.holders())

    @property
    def deferred_count(self) -> int:
        return self.deferred.count

    @property
    def unfinished_count(self) -> int:
        """All that the channel still needs."""
        return self.depth + self.in_flight_count + self.deferred.count

    def floor(self) -> int:
        """No offset below this one is needed any more."""
        floors = [flights.floor() for flights in self.holders()]
        floors += [self.requeued.floor(), self.deferred.floor(), self.spent.floor(), self.cursor]
        return min(floor for floor in floors if floor is not None)

    def next_deadline(self) -> int | None:
        """The next time-out or end of a deferral (monotonic ns), perhaps too early."""
        deadlines = [flights.next_deadline() for flights in self.holders()]
        deadlines.append(self.deferred.next_deadline())
        return min((each for each in deadlines if each is not None), default=None)

    # --- which ---------------------------------------------------------------------------------

    def needed(self) -> Iterator[tuple[int, int]]:
        """All ranges of offsets that are still to be finished, in no order."""
        yield from self.in_flight()
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

    def flying(self) -> Iterator[tuple[int, int, int]]:
        """All that is in flight: (first, next, attempts) each, in no order."""
        for flights in self.holders():
            yield from flights.ranges()

    def unfinished_below(self, offset: int) -> int:
        """The number of messages below an offset that are still to be finished."""
        ranges = [*self.in_flight(), *self.backlog()]
        ranges += [(each.first, each.next) for each in (*self.requeued, *self.spent)]
        low = sum(min(next_, offset) - first for first, next_ in ranges if first < offset)
        return low + self.deferred.count_below(offset)

    def in_flight(self) -> Iterator[tuple[int, int]]:
        """The ranges of offsets that are in flight, in no order."""
        for first, next_, _ in self.flying():
            yield first, next_

    def holders(self) -> Iterator[Flights]:
        """The flights of each consumer, also of those that are gone."""
        yield from self.flights
        yield from self.departed

    # --- in flight -----------------------------------------------------------------------------

    def leave(self, flights: Flights) -> None:
        """The consumer is gone; what it had in flight waits for its time-out."""
        self.flights.remove(flights)
        if flights.count:
            self.departed.append(flights)

    def lose(self, count: int) -> None:
        """Count messages that are damaged in the log: nobody can have them."""
        self.lost_count += count

    # --- the backlog ---------------------------------------------------------------------------

    @property
    def border(self) -> int:
        """The end of the run of deliverable offsets that begins at the cursor; the cursor or less
        where that stands at a skip.
        """
        if not self.skips:
            return self.head
        skip = self.skips.first_from(self.cursor)
        return self.head if skip is None else min(self.head, skip[0])

    def pass_skips(self) -> None:
        """Move the cursor behind the skip at which it stands."""
        skip = self.skips.first_from(self.cursor)
        if skip is not None and skip[0] <= self.cursor:  # the next one does not touch it
            self.cursor = skip[1]
            self.skips.discard_below(self.cursor)

    def step_to(self, next_: int) -> None:
        """Offsets up to ``next_`` are damaged in the log: step over them and count them."""
        self.lose(next_ - self.cursor)
        self.cursor = next_

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
        self.pass_skips()
        while dropped < count and (border := self.border) > self.cursor:
            step = min(count - dropped, border - self.cursor)
            self.cursor += step
            dropped += step
            self.pass_skips()
        if dropped < count:
            dropped += self.deferred.drop(count - dropped)
        self.dropped_count += dropped
        self.changed = True
        return dropped

    def drop_surplus(self, room: int) -> None:
        """Skip the newest of the backlog that fit neither the consumers nor the memory queue, or as
        many of the oldest.
        """
        surplus = self.depth - self.mem_queue_size - room
        if surplus <= 0:
            return
        if self.drops_oldest:
            self.drop_oldest(surplus)
            return
        skipped_before = len(self.skips)
        # Back from the head over what is skipped already, to the surplus of those that wait.
        last = self.head
        for first, next_ in reversed(self.skips):
            if last - next_ >= surplus:
                break
            surplus -= last - next_
            last = first
        self.skips.add(max(self.cursor, last - surplus), self.head)
        self.dropped_count += len(self.skips) - skipped_before

    # --- what comes again ----------------------------------------------------------------------

    def requeue(self, first: int, next_: int, attempts: int) -> None:
        """Requeue at the tail, as Go's memory queue does: at most ``mem_queue_size`` messages go
        first. Without such a queue all go first, as Go's is on disk then.
        """
        size = self.mem_queue_size
        after = min(self.head, self.cursor + size) if size > 0 else self.head
        self.requeued.add(RequeuedRange(first, next_, attempts, after))

    def cancel_deferred(self, offsets: Iterable[int] | None) -> list[DeferredRange]:
        """Finish these deferred messages, or all with None; those that were deferred."""
        self.changed = True
        if offsets is not None:
            return self.deferred.take(offsets)
        taken = list(self.deferred)
        self.deferred.clear()
        return taken

    # --- from the start ------------------------------------------------------------------------

    def settle(self, done: RangeSet, wanted: RangeSet) -> None:
        """Take messages below ``head`` for finished, and others for undelivered, whatever they
        were. What is spent stays on its way.
        """
        self._forget(done)
        self._forget(wanted)
        again = [part for each in wanted for part in self._not_in_backlog(*each)]
        # Each goes in front of the others, so the last one first.
        for first, next_ in reversed(again):
            # Attempts begin again: these were asked for once more, not failed.
            self.requeued.put_back(RequeuedRange(first, next_, 0, self.cursor))
        for first, next_ in done:
            self.skips.add(max(first, self.cursor), next_)
        self.changed = True

    def _forget(self, ranges: RangeSet) -> None:
        """Forget what has been delivered or deferred of these."""
        self.requeued.forget(ranges)
        self.deferred.take(
            offset
            for each in self.deferred
            for part in ranges.within(each.first, each.next)
            for offset in range(*part)
        )
        for flights in self.holders():
            for first, next_, _ in flights.ranges():
                for part in ranges.within(first, next_):
                    for offset in range(*part):
                        flights.take(offset)

    def _not_in_backlog(self, first: int, next_: int) -> Iterator[tuple[int, int]]:
        """The parts of a range that the cursor does not come to."""
        if first < self.cursor:
            yield first, min(next_, self.cursor)
        yield from self.skips.within(max(first, self.cursor), next_)

    def empty(self) -> None:
        """Forget all: waiting, deferred and in flight. Later finishes of those fail."""
        self.cursor = self.head
        self.skips.clear()
        self.requeued.clear()
        self.deferred.clear()
        self.spent.clear()
        for flights in self.holders():
            flights.clear()
        self.departed.clear()
        self.changed = True
