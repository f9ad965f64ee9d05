"""A channel: every message of its topic, delivered until one of its consumers finishes it.

Theory of operation. A channel is a cursor over the topic's log, no queue of its own. Offsets below
the cursor have been delivered once; those that are not finished yet are somewhere: in flight to a
consumer, requeued, or deferred. Everything else below the cursor is done, and nothing needs to be
kept about it. From the cursor to ``head`` (what the topic has distributed) lies the backlog,
without the ``skips``: offsets that were deferred when published, dropped for want of room, or
emptied.

Delivery hands a consumer a slice of a batch, as many messages as it has room for; finishing gives
back a range. Only requeues, time-outs, touches, deferrals and sampling look at single messages.

Times named ``now`` are monotonic nanoseconds.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from penstock.broker.alarms import Alarms
from penstock.broker.backlog import Deferred, Requeue, Requeued
from penstock.broker.consumer import Consumer, Delivery
from penstock.broker.flights import Flights
from penstock.broker.progress import ChannelRecord, Deferral
from penstock.broker.runs import Offsets, runs
from penstock.core.chance import Chance
from penstock.core.clock import Clock
from penstock.core.errors import StorageError
from penstock.core.names import is_ephemeral
from penstock.core.ranges import RangeSet
from penstock.storage.batch import Batch
from penstock.storage.log import ReadableLog

logger = logging.getLogger(__name__)

READ_RETRY_NS: Final = 10**9
_FEW: Final = 8  # so few messages at one place are not worth reading all around them

SERVE_BYTES_MAX: Final = 1024 * 1024
"""About how much a consumer gets at once; then it is seen whether its connection takes more."""
_REQUEUED_AT_ONCE: Final = 16


@dataclass(slots=True)
class ChannelOptions:
    """Bounds of a channel: messages, and nanoseconds."""

    mem_queue_size: int = 10_000
    max_msg_timeout_ns: int = 900 * 10**9


class NotInFlightError(Exception):
    """The message is not in flight, or not to this consumer; the text is NSQ's."""


class Channel:
    """A named cursor over a topic queue's log, with acknowledgement of each message."""

    def __init__(
        self,
        name: str,
        log: ReadableLog,
        cursor: int,
        *,
        clock: Clock,
        chance: Chance,
        alarms: Alarms,
        options: ChannelOptions,
        bounded: bool = False,
    ) -> None:
        self.name = name
        self.log = log
        self.cursor = cursor
        self.head = cursor
        self.skips = RangeSet()
        self.requeued = Requeue()
        self.deferred = Deferred()
        self.ephemeral = is_ephemeral(name)
        self.bounded = bounded or self.ephemeral
        self.paused = False
        self.backlog_end = 0
        self.backlog_since_ns = 0
        self.changed = True
        self.wake_at: int | None = None
        self.consumers: list[Consumer] = []
        self.message_count = 0
        self.delivered_count = 0
        self.requeue_count = 0
        self.timeout_count = 0
        self.lost_count = 0
        self._hungry: dict[Consumer, None] = {}
        self._departed: list[Flights] = []
        self._clock = clock
        self._chance = chance
        self._alarms = alarms
        self._options = options

    # --- what it holds -------------------------------------------------------------------------

    @property
    def depth(self) -> int:
        """Messages that wait to be delivered; those in flight and deferred do not count."""
        return self.head - self.cursor - len(self.skips) + self.requeued.count

    @property
    def backend_depth(self) -> int:
        """How many of them are beyond the memory queue."""
        return 0 if self.bounded else max(0, self.depth - self._options.mem_queue_size)

    @property
    def in_flight_count(self) -> int:
        return sum(flights.count for flights in self._holders())

    @property
    def deferred_count(self) -> int:
        return self.deferred.count

    def floor(self) -> int:
        """No offset below this one is needed any more."""
        floors = [flights.floor() for flights in self._holders()]
        floors += [self.requeued.floor(), self.deferred.floor(), self.cursor]
        return min(floor for floor in floors if floor is not None)

    def _holders(self) -> Iterator[Flights]:
        for consumer in self.consumers:
            yield consumer.flights
        yield from self._departed

    # --- the topic's side ----------------------------------------------------------------------

    def advance(self, head: int, backlog: bool = False) -> None:
        """The topic has distributed its log up to ``head``; ``backlog``: what had waited in it."""
        self.message_count += head - self.head
        self.head = head
        if backlog:
            self.backlog_end = head
            self.backlog_since_ns = self._clock.wall_ns()
        if self.bounded:
            room = sum([max(0, consumer.room()) for consumer in self._hungry])
            surplus = self.depth - self._options.mem_queue_size - room
            if surplus > 0:
                self._drop_newest(surplus)

    def defer(self, first: int, next_: int, delay_ns: int, now: int) -> None:
        """``[first, next_)`` of what comes or has come is to wait before its first delivery."""
        self.skips.add(max(first, self.cursor), next_)
        self._defer(now + delay_ns, first, next_, 0)

    def skip(self, first: int, next_: int) -> None:
        """``[first, next_)``, from ``head`` on, is not to be delivered: the topic was emptied."""
        assert first >= self.head
        self.skips.add(first, next_)
        self.head = next_
        self.changed = True

    def _drop_newest(self, surplus: int) -> None:
        last = self.head
        for first, next_ in reversed(self.skips):
            if last - next_ >= surplus:
                break
            surplus -= last - next_
            last = first
        self.skips.add(max(self.cursor, last - surplus), self.head)

    def needed(self) -> Iterator[tuple[int, int]]:
        """All ranges of offsets that are still to be finished, in no order."""
        for flights in self._holders():
            for first, next_, _ in flights.ranges():
                yield first, next_
        for entry in (*self.requeued, *self.deferred):
            yield entry.first, entry.next
        low = self.cursor
        for first, next_ in self.skips:
            yield low, first
            low = max(low, next_)
        yield low, self.head

    # --- consumers -----------------------------------------------------------------------------

    def add_consumer(self, consumer: Consumer) -> None:
        self.consumers.append(consumer)

    def remove_consumer(self, consumer: Consumer) -> None:
        """The consumer is gone; what it had in flight waits for its time-out."""
        self.consumers.remove(consumer)
        consumer.ready = 0  # whatever is still heard of it, nothing is given to it any more
        self._hungry.pop(consumer, None)
        if consumer.flights.count:
            self._departed.append(consumer.flights)

    def refresh(self, consumer: Consumer) -> None:
        """The consumer's room has changed: RDY, a finish, or its connection can be written
        again.
        """
        if consumer.room() > 0:
            self._hungry[consumer] = None
        else:
            self._hungry.pop(consumer, None)

    def finish(self, consumer: Consumer, offsets: Offsets) -> list[int]:
        """FIN of these offsets; those that were not in flight to this consumer are returned."""
        failed: list[int] = []
        flights = consumer.flights
        before = flights.count
        for first, next_ in runs(offsets):
            if not flights.finish(first, next_):
                failed += [o for o in range(first, next_) if flights.take(o) is None]
        if flights.count < before:
            consumer.finish_count += before - flights.count
            self.changed = True
            self.refresh(consumer)
        return failed

    def requeue(self, consumer: Consumer, offset: int, delay_ns: int, now: int) -> None:
        """REQ: deliver the message again, after a delay or, with 0, at the tail.

        Raises NotInFlightError.
        """
        odd = consumer.flights.take(offset)
        if odd is None:
            raise NotInFlightError(self.why_not(offset))
        consumer.requeue_count += 1
        self.requeue_count += 1
        if delay_ns > 0:
            self._defer(now + delay_ns, offset, offset + 1, odd.attempts)
        else:
            self._requeue(offset, offset + 1, odd.attempts)
        self.refresh(consumer)

    def touch(self, consumer: Consumer, offset: int, now: int) -> None:
        """TOUCH: start the message's time-out anew, within the longest allowed.

        Raises NotInFlightError.
        """
        odd = consumer.flights.take(offset)
        if odd is None:
            raise NotInFlightError(self.why_not(offset))
        latest = odd.delivered + self._options.max_msg_timeout_ns
        deadline = min(now + consumer.flights.timeout_ns, latest)
        consumer.flights.add_odd(offset, odd.attempts, deadline, odd.delivered)
        self._alarms.wake(self, deadline)

    def why_not(self, offset: int) -> str:
        """Why a message cannot be finished, requeued or touched by a consumer that has it not."""
        owned = any(offset in flights for flights in self._holders())
        return "client does not own message" if owned else "ID not in flight"

    # --- delivery ------------------------------------------------------------------------------

    def dispatch(self, now: int) -> None:
        """Give the waiting messages to the consumers that have room, shared out fairly."""
        hungry = self._hungry
        turn = 0  # how many are still to be served before the first comes again
        while hungry and (waiting := self._deliverable()) > 0:
            turn = turn or len(hungry)
            consumer = next(iter(hungry))
            share = -(-waiting // turn)
            turn -= 1
            del hungry[consumer]
            room = consumer.room()
            if room <= 0:
                continue
            if not self._serve(consumer, min(room, share), now) and self._deliverable() == waiting:
                hungry[consumer] = None
                return
            if consumer.room() > 0:
                hungry[consumer] = None

    def _deliverable(self) -> int:
        if self.paused:
            return 0
        self._border()  # requeued messages wait for the cursor, skips at it do not hold it back
        fresh = self.head - self.cursor - len(self.skips)
        return fresh + self.requeued.eligible(self.cursor)

    def _serve(self, consumer: Consumer, room: int, now: int) -> bool:
        deliveries: list[Delivery] = []
        try:
            room -= self._serve_requeued(consumer, room, now, deliveries)
            if room > 0:
                self._serve_fresh(consumer, room, now, deliveries)
        except StorageError as error:  # nothing is lost: it is still where it was
            logger.error("CHANNEL(%s): failed to read from the log - %s", self.name, error)
            self._alarms.wake(self, now + READ_RETRY_NS)
        if deliveries:
            delivered = sum([d.next - d.first for d in deliveries])
            consumer.message_count += delivered
            self.delivered_count += delivered
            consumer.deliver(deliveries)
            self.changed = True
        return bool(deliveries)

    def _serve_requeued(
        self, consumer: Consumer, room: int, now: int, deliveries: list[Delivery]
    ) -> int:
        served = 0
        budget = SERVE_BYTES_MAX
        deadline = now + consumer.flights.timeout_ns
        while served < room and budget > 0:
            entry = self.requeued.take(self.cursor, min(room - served, _REQUEUED_AT_ONCE))
            if entry is None:
                break
            attempts = (entry.attempts + 1) & 0xFFFF  # u16 on the wire, wraps as in Go
            self._alarms.wake(self, deadline)
            rest = entry.first
            try:
                for batch, first, next_ in self._stored(entry.first, entry.next):
                    deliveries.append(Delivery(batch, first, next_, attempts))
                    budget -= (next_ - first) * (len(batch.frames) // batch.count)
                    for offset in range(first, next_):
                        consumer.flights.add_odd(offset, attempts, deadline, now)
                    served += next_ - first
                    rest = next_
            except StorageError:
                self.requeued.put_back(entry._replace(first=rest))
                raise
        return served

    def _stored(self, first: int, next_: int) -> Iterator[tuple[Batch, int, int]]:
        """The batches that hold ``[first, next_)``, with the part of it in each."""
        while first < next_:
            batch = self.log.batch_at(first) if next_ - first < _FEW else None
            if batch is not None:
                yield batch, first, min(next_, batch.next_offset)
                first = batch.next_offset
                continue
            batches, place = self.log.batches_at(first)
            low = batches[place].first_offset if place < len(batches) else next_
            if low > first:
                self.lost_count += min(low, next_) - first
                first = low
                continue
            batch = batches[place]
            yield batch, first, min(next_, batch.next_offset)
            first = batch.next_offset

    def _serve_fresh(
        self, consumer: Consumer, room: int, now: int, deliveries: list[Delivery]
    ) -> None:
        budget = SERVE_BYTES_MAX
        while room > 0 and budget > 0 and (border := self._border()) > self.cursor:
            batches, place = self.log.batches_at(self.cursor)
            if place >= len(batches):
                self._lose(border)  # nothing readable is left before the head
                continue
            while place < len(batches) and room > 0 and budget > 0 and self.cursor < border:
                batch = batches[place]
                place += 1
                if batch.first_offset > self.cursor:
                    self._lose(min(border, batch.first_offset))
                if self.cursor >= border or (
                    batch.delay_ns and self._defer_late(batch, border, now)
                ):
                    break
                frame_bytes = len(batch.frames) // batch.count
                fitting = min(room, budget // frame_bytes + 1)
                last = min(batch.next_offset, border, self.cursor + fitting)
                budget -= (last - self.cursor) * frame_bytes
                if consumer.sample_rate:
                    room -= self._sample(consumer, batch, last, now, deliveries)
                else:
                    deliveries.append(Delivery(batch, self.cursor, last, 1))
                    self._launch(consumer, self.cursor, last, now)
                    room -= last - self.cursor
                self.cursor = last
        self.skips.discard_below(self.cursor)

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

    def _launch(self, consumer: Consumer, first: int, last: int, now: int) -> None:
        deadline = consumer.flights.add(first, last, now)
        if self.wake_at is None or deadline < self.wake_at:
            self._alarms.wake(self, deadline)

    def _sample(
        self, consumer: Consumer, batch: Batch, last: int, now: int, deliveries: list[Delivery]
    ) -> int:
        """Deliver about ``sample_rate`` percent up to ``last``; the others vanish here."""
        kept = 0
        for offset in range(self.cursor, last):
            if self._chance.below(100) < consumer.sample_rate:
                deliveries.append(Delivery(batch, offset, offset + 1, 1))
                self._launch(consumer, offset, offset + 1, now)
                kept += 1
        return kept

    def _lose(self, next_: int) -> None:
        """Offsets up to ``next_`` are damaged in the log: step over them and count them."""
        self.lost_count += next_ - self.cursor
        self.cursor = next_

    def _defer_late(self, batch: Batch, border: int, now: int) -> bool:
        """Defer a batch of the backlog whose time has not come.

        It is counted from the publish or, as in NSQ, from when the topic gave it to the channel.
        """
        since = batch.timestamp_ns
        if batch.first_offset < self.backlog_end:
            since = max(since, self.backlog_since_ns)
        wait = since + batch.delay_ns - self._clock.wall_ns()
        if wait <= 0:
            return False
        self.defer(self.cursor, min(batch.next_offset, border), wait, now)
        return True

    # --- time ----------------------------------------------------------------------------------

    def tick(self, now: int) -> None:
        """Requeue what has timed out and what was deferred until now; then sleep again."""
        for flights in self._holders():
            for first, next_, attempts in flights.expire(now):
                self.timeout_count += next_ - first
                self._requeue(first, next_, attempts)
        self._departed = [flights for flights in self._departed if flights.count]
        for _, first, next_, attempts in self.deferred.due(now):
            self._requeue(first, next_, attempts)
        for consumer in self.consumers:
            self.refresh(consumer)
        deadlines = [flights.next_deadline() for flights in self._holders()]
        deadlines.append(self.deferred.next_deadline())
        waiting = [deadline for deadline in deadlines if deadline is not None]
        if waiting:
            self._alarms.wake(self, min(waiting))

    def _defer(self, deadline: int, first: int, next_: int, attempts: int) -> None:
        self.deferred.add(deadline, first, next_, attempts)
        self._alarms.wake(self, deadline)
        self.changed = True

    def _requeue(self, first: int, next_: int, attempts: int) -> None:
        """To the tail, as Go's memory queue has it: at most ``mem_queue_size`` messages go
        first.
        """
        after = min(self.head, self.cursor + self._options.mem_queue_size)
        self.requeued.add(Requeued(first, next_, attempts, after))
        self.changed = True

    # --- administration ------------------------------------------------------------------------

    def pause(self) -> None:
        self.paused = True

    def unpause(self) -> None:
        """Deliver again; the caller dispatches."""
        self.paused = False

    def empty(self) -> None:
        """Forget all: waiting, deferred and in flight. Later finishes of those fail."""
        self.cursor = self.head
        self.skips.clear()
        self.requeued.clear()
        self.deferred.clear()
        for flights in self._holders():
            flights.clear()
        self._departed.clear()
        for consumer in self.consumers:
            self.refresh(consumer)
        self.changed = True

    # --- keeping progress ----------------------------------------------------------------------

    def record(self, everything: bool) -> ChannelRecord:
        """What the journal has to know; ``everything`` when the journal starts anew."""
        self.changed = False
        to_wall = self._clock.wall_ns() - self._clock.monotonic_ns()
        reset, added, over = self.deferred.collect(everything)
        unfinished = [entry for flights in self._holders() for entry in flights.ranges()]
        unfinished += [(entry.first, entry.next, entry.attempts) for entry in self.requeued]
        deferred = [(e.deadline + to_wall, e.first, e.next, e.attempts) for e in added]
        return ChannelRecord(self.name, self.cursor, self.head, unfinished, list(self.skips),
                             reset, deferred, over)  # fmt: skip

    def restore(self, record: ChannelRecord, deferred: list[Deferral]) -> None:
        """Go on from a record. What was in flight is delivered again, with one attempt more.

        The record may lag behind the log or, after a power cut, be ahead of it: offsets that the
        log has let go were finished, those behind its end are forgotten.
        """
        start, end = self.log.start_offset, self.log.next_offset
        self.cursor = max(start, min(record.cursor, end))
        self.head = max(start, min(record.head, end))
        for first, next_ in record.skips:
            self.skips.add(max(first, self.cursor), min(next_, self.head))
        for first, next_, attempts in sorted(record.unfinished):
            first, next_ = max(first, start), min(next_, end)
            if first < next_:
                self.requeued.add(Requeued(first, next_, attempts, self.cursor))
        to_monotonic = self._clock.monotonic_ns() - self._clock.wall_ns()
        for deadline, first, next_, attempts in deferred:
            first, next_ = max(first, start), min(next_, end)
            if first < next_:
                self._defer(deadline + to_monotonic, first, next_, attempts)
