"""A channel: every message of its topic, delivered until one of its consumers finishes it.

Its ``ChannelState`` says which messages it still owes. Delivery hands a consumer a slice of a
batch, as many messages as it has room for; finishing gives back a range. Only requeues, time-outs,
touches, deferrals and sampling look at single messages.

Times named ``now`` are monotonic nanoseconds.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from penstock.broker.channels.alarms import Alarms
from penstock.broker.channels.channel_progress import ChannelProgress
from penstock.broker.channels.channel_state import ChannelState
from penstock.broker.channels.consumer import Consumer, Delivery
from penstock.broker.channels.deferred import DeferredRange
from penstock.broker.channels.latency import Latency
from penstock.broker.channels.spent import (
    MOVE_BYTES_MAX,
    MOVE_MESSAGES_MAX,
    MOVE_RETRY_NS,
    SpentRange,
)
from penstock.broker.dead_letters import DeadLetterBatch, Origins, are_dead_letters
from penstock.broker.progress import ChannelRecord, Deferral, Range
from penstock.broker.retrieval import retrieve
from penstock.broker.runs import Offsets, runs
from penstock.core.chance import Chance
from penstock.core.clock import Clock
from penstock.core.errors import StorageError
from penstock.core.names import is_ephemeral
from penstock.core.ranges import RangeSet
from penstock.storage.batch import Batch
from penstock.storage.log import ReadableLog

logger = logging.getLogger(__name__)

# A disk that fails is asked again after this, not on each tick of 10 ms.
READ_RETRY_NS: Final = 10**9

SERVE_BYTES_MAX: Final = 1024 * 1024
"""About how much a consumer gets at once; then it is seen whether its connection takes more."""
# A requeued range may be thousands of large messages: the byte budget is checked in between.
_REQUEUED_AT_ONCE: Final = 16

Hungry = dict[Consumer, None]  # an ordered set


class NotInFlightError(Exception):
    """The message is not in flight, or not to this consumer; the text is NSQ's."""


@dataclass(slots=True)
class ChannelOptions:
    """Bounds of a channel: messages, and nanoseconds.

    ``max_attempts`` (0: any number) and ``dead_letter_topic`` (``%s``: the topic's name) hold for
    the channels without their own setting.
    """

    mem_queue_size: int = 10_000
    max_msg_timeout_ns: int = 900 * 10**9
    latency_window_ns: int = 0  # over which latencies are measured; 0: they are not
    max_attempts: int = 0
    dead_letter_topic: str = "%s.dead"


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
        topic_name: str = "",
        bounded: bool = False,
    ) -> None:
        self.name = name
        self.topic_name = topic_name
        self.log = log
        self.ephemeral = is_ephemeral(name)
        self.state = ChannelState(cursor, options.mem_queue_size, bounded=bounded or self.ephemeral)
        self.progress = ChannelProgress(name, log, self.state, clock)
        self.latency: Latency | None = None
        if options.latency_window_ns:
            self.latency = Latency(options.latency_window_ns, clock, self.state.in_flight)
        self.consumers: list[Consumer] = []
        self.paused = False
        self.max_attempts = 0  # 0: any number
        self.dead_letter_topic = ""
        self.message_count = 0
        self.requeue_count = 0
        self.timeout_count = 0
        self.dead_letter_count = 0
        self.delivered_counts = [0, 0, 0]  # by Locality
        self.wake_at: int | None = None
        self._hungry: tuple[Hungry, Hungry, Hungry] = ({}, {}, {})  # by Locality
        self._backlog_end = 0
        self._backlog_since_ns = 0  # monotonic
        self._clock = clock
        self._chance = chance
        self._alarms = alarms
        self._max_msg_timeout_ns = options.max_msg_timeout_ns

    @property
    def delivered_count(self) -> int:
        """Messages given to consumers, first and further attempts alike."""
        return sum(self.delivered_counts)

    # --- the topic's side ----------------------------------------------------------------------

    def advance(self, head: int, backlog: bool = False) -> None:
        """The topic has distributed its log up to ``head``; ``backlog``: what had waited in it."""
        state = self.state
        self.message_count += head - state.head
        state.head = head
        if backlog:
            self._backlog_end = head
            self._backlog_since_ns = self._clock.monotonic_ns()
        # What consumers that wait can take needs no place in the memory queue.
        if state.bounded:
            room = sum([max(0, c.room()) for hungry in self._hungry for c in hungry])
            state.drop_surplus(room)

    def defer(self, first: int, next_: int, delay_ns: int, now: int) -> None:
        """``[first, next_)`` of what comes or has come is to wait before its first delivery."""
        # The cursor steps over them: once due they come as requeued ones, with no attempt counted.
        self.state.skips.add(max(first, self.state.cursor), next_)
        self._defer(now + delay_ns, first, next_, 0)

    def pass_by(self, first: int, next_: int) -> None:
        """``[first, next_)`` of what comes is for another channel."""
        self.state.skips.add(max(first, self.state.cursor), next_)
        self.state.changed = True

    # --- consumers -----------------------------------------------------------------------------

    def add_consumer(self, consumer: Consumer) -> None:
        self.consumers.append(consumer)
        self.state.flights.append(consumer.flights)

    def remove_consumer(self, consumer: Consumer) -> None:
        """The consumer is gone; what it had in flight waits for its time-out."""
        self.consumers.remove(consumer)
        consumer.ready = 0  # whatever is still heard of it, nothing is given to it any more
        self._hungry[consumer.locality].pop(consumer, None)
        # As in Go a disconnect requeues nothing (NSQ spec 1.8).
        self.state.leave(consumer.flights)

    def refresh(self, consumer: Consumer) -> None:
        """The consumer's room has changed: RDY, a finish, or its connection can be written
        again.
        """
        if consumer.room() > 0:
            self._hungry[consumer.locality][consumer] = None
        else:
            self._hungry[consumer.locality].pop(consumer, None)

    def finish(self, consumer: Consumer, offsets: Offsets) -> list[int]:
        """FIN of these offsets; those that were not in flight to this consumer are returned."""
        failed: list[int] = []
        flights = consumer.flights
        before = flights.count
        # A run that is fresh and in flight here ends in one step, however long it is. Else each
        # offset is tried: some may be redelivered ones, timed out, or another consumer's.
        for first, next_ in runs(offsets):
            if flights.finish(first, next_):
                self._finished(first, next_)
                continue
            for offset in range(first, next_):
                if flights.take(offset) is None:
                    # The session answers E_FIN_FAILED, which is not fatal (NSQ spec 1.3, FIN 4, 5).
                    failed.append(offset)
                else:
                    self._finished(offset, offset + 1)
        if flights.count < before:
            consumer.finish_count += before - flights.count
            self.state.changed = True
            self.refresh(consumer)
        return failed

    def _finished(self, first: int, next_: int) -> None:
        if self.latency is not None:
            self.latency.finished(first, next_)

    def requeue(
        self, consumer: Consumer, offset: int, delay_ns: int, now: int, *, unseen: bool = False
    ) -> None:
        """REQ: deliver the message again, after a delay or, with 0, at the tail.

        One that is ``unseen`` reached nobody, which is not an attempt. Raises NotInFlightError.
        """
        odd = consumer.flights.take(offset)
        if odd is None:
            raise NotInFlightError(self.why_not(offset))
        consumer.requeue_count += 1
        self.requeue_count += 1
        attempts = odd.attempts - unseen
        # REQ 0 goes back to the tail at once; only a delay makes it deferred (NSQ spec 1.8, REQ).
        if delay_ns > 0:
            self._defer(now + delay_ns, offset, offset + 1, attempts)
        else:
            self._requeue(offset, offset + 1, attempts)
        self.refresh(consumer)

    def touch(
        self, consumer: Consumer, offset: int, now: int, timeout_ns: int | None = None
    ) -> None:
        """TOUCH: start the time-out again, within the longest allowed, or set it to ``timeout_ns``.

        Raises NotInFlightError.
        """
        odd = consumer.flights.take(offset)
        if odd is None:
            raise NotInFlightError(self.why_not(offset))
        if timeout_ns is None:
            # Counted from the delivery, not from the last TOUCH (NSQ spec 1.8).
            latest = odd.delivered + self._max_msg_timeout_ns
            deadline = min(now + consumer.flights.timeout_ns, latest)
        else:
            # RocketMQ's pop: the client sets an invisible time, which NSQ's bound does not limit.
            deadline = now + timeout_ns
        # With the time of its delivery, which bounds later TOUCHes as well.
        consumer.flights.add_odd(offset, odd.attempts, deadline, odd.delivered)
        self._alarms.wake(self, deadline)

    def why_not(self, offset: int) -> str:
        """The reason why a consumer cannot finish, requeue or touch this message."""
        # Both texts are Go's (nsqd/channel.go): clients compare them (NSQ spec 1.3, FIN).
        owned = any(offset in flights for flights in self.state.holders())
        return "client does not own message" if owned else "ID not in flight"

    # --- delivery ------------------------------------------------------------------------------

    def dispatch(self, now: int) -> None:
        """Give the waiting messages to the consumers that have room, the nearest first."""
        for hungry in self._hungry:
            # What could not be read for the nearer ones cannot be read for the others either.
            if hungry and not self._feed(hungry, now):
                return

    def _feed(self, hungry: Hungry, now: int) -> bool:
        """Share out what waits fairly; False when nothing could be read."""
        if self.state.skips:
            self.state.pass_skips()  # requeued messages behind them wait for the cursor
        turn = 0  # how many are still to be served before the first comes again
        while hungry and (waiting := self._deliverable()) > 0:
            turn = turn or len(hungry)
            consumer = next(iter(hungry))
            # Rounded up, or fewer messages than consumers would be shared out as nothing each.
            share = -(-waiting // turn)
            turn -= 1
            # Out, and in again at the end: the next turn begins with another consumer.
            del hungry[consumer]
            room = consumer.room()
            # It stopped reading meanwhile; ``refresh`` brings it back.
            if room <= 0:
                continue
            # The log cannot be read. Sampling and damage deliver nothing too, but move the cursor.
            if not self._serve(consumer, min(room, share), now) and self._deliverable() == waiting:
                hungry[consumer] = None
                return False
            if consumer.room() > 0:
                hungry[consumer] = None
        return True

    def _deliverable(self) -> int:
        if self.paused:
            return 0
        state = self.state
        fresh = state.head - state.cursor - len(state.skips)
        return fresh + state.requeued.eligible(state.cursor)

    def _serve(self, consumer: Consumer, room: int, now: int) -> bool:
        deliveries: list[Delivery] = []
        try:
            # Requeued ones first: ``after`` has made them wait for their turn already.
            room -= self._serve_requeued(consumer, room, now, deliveries)
            if room > 0:
                self._serve_fresh(consumer, room, now, deliveries)
        except StorageError as error:  # nothing is lost: it is still where it was
            logger.error("CHANNEL(%s): failed to read from the log - %s", self.name, error)
            self._alarms.wake(self, now + READ_RETRY_NS)
        # What was read before an error is noted as in flight, so it has to go out.
        if deliveries:
            delivered = sum([d.next - d.first for d in deliveries])
            consumer.message_count += delivered
            self.delivered_counts[consumer.locality] += delivered
            if self.latency is not None:
                self.latency.delivered(deliveries)
            consumer.deliver(deliveries)
            self.state.changed = True
        return bool(deliveries)

    def _serve_requeued(
        self, consumer: Consumer, room: int, now: int, deliveries: list[Delivery]
    ) -> int:
        state = self.state
        served = 0
        budget = SERVE_BYTES_MAX
        deadline = now + consumer.flights.timeout_ns
        while served < room and budget > 0:
            entry = state.requeued.take(state.cursor, min(room - served, _REQUEUED_AT_ONCE))
            if entry is None:
                break
            attempts = (entry.attempts + 1) & 0xFFFF  # u16 on the wire, wraps as in Go
            self._alarms.wake(self, deadline)
            rest = entry.first
            try:
                for batch, first, next_ in retrieve(self.log, entry.first, entry.next, state.lose):
                    deliveries.append(Delivery(batch, first, next_, attempts))
                    # By the batch's mean: exact sizes would cost a look at each message.
                    budget -= (next_ - first) * (len(batch.frames) // batch.count)
                    # One by one, as a fresh range stands for the first attempt.
                    for offset in range(first, next_):
                        consumer.flights.add_odd(offset, attempts, deadline, now)
                    served += next_ - first
                    rest = next_
            except StorageError:
                # What was read before the error is in flight already: only the rest waits again.
                state.requeued.put_back(entry._replace(first=rest))
                raise
        return served

    def _serve_fresh(
        self, consumer: Consumer, room: int, now: int, deliveries: list[Delivery]
    ) -> None:
        """Deliver from the cursor on, for the first time, up to ``room`` messages.

        Go's messagePump (nsqd/protocol_v2.go) takes one message at a time and writes it, so that
        TCP stops it behind a client that does not read. A slice may be megabytes that nobody has
        seen leave, so bytes bound it as well: the rest comes in the next turn.
        """
        state = self.state
        budget = SERVE_BYTES_MAX
        # Each round is a run between two skips; within it come the batches that the log has at
        # hand, of its tail or of a block of a file.
        while room > 0 and budget > 0 and (border := state.border) > state.cursor:
            batches, place = self.log.batches_at(state.cursor)
            if place >= len(batches):  # damage up to the log's end: nobody can have the rest
                state.step_to(border)
            while place < len(batches) and room > 0 and budget > 0 and state.cursor < border:
                batch = batches[place]
                place += 1
                if batch.first_offset > state.cursor:  # damage before this batch
                    state.step_to(min(border, batch.first_offset))
                    if state.cursor >= border:
                        break
                # As in Go, where a topic without channels keeps deferred messages like any other
                # and messagePump (nsqd/topic.go) defers them in the channel that comes to them.
                if batch.delay_ns and self._defer_late(batch, border, now):
                    break  # the deferral is a skip at the cursor
                frame_bytes = len(batch.frames) // batch.count
                # One more than the budget has room for: a message larger than it gets through.
                fitting = min(room, budget // frame_bytes + 1)
                last = min(batch.next_offset, border, state.cursor + fitting)
                budget -= (last - state.cursor) * frame_bytes
                if consumer.sample_rate:
                    room -= self._sample(consumer, batch, last, now, deliveries)
                else:
                    deliveries.append(Delivery(batch, state.cursor, last, 1))
                    self._launch(consumer, state.cursor, last, now)
                    room -= last - state.cursor
                state.cursor = last
            if state.skips:
                state.pass_skips()

    def _launch(self, consumer: Consumer, first: int, last: int, now: int) -> None:
        deadline = consumer.flights.add(first, last, now)
        # ``wake`` asks the same, but most deliveries end later than an alarm that is set: no call.
        if self.wake_at is None or deadline < self.wake_at:
            self._alarms.wake(self, deadline)

    def _sample(
        self, consumer: Consumer, batch: Batch, last: int, now: int, deliveries: list[Delivery]
    ) -> int:
        """Deliver about ``sample_rate`` percent up to ``last``; the others vanish here."""
        self.state.changed = True  # also if none is delivered
        kept = 0
        for offset in range(self.state.cursor, last):
            # Go drops at random > rate and so delivers N + 1 percent; this is N (NSQ spec 9).
            if self._chance.below(100) < consumer.sample_rate:
                deliveries.append(Delivery(batch, offset, offset + 1, 1))
                self._launch(consumer, offset, offset + 1, now)
                kept += 1
        return kept

    def _defer_late(self, batch: Batch, border: int, now: int) -> bool:
        """Defer a batch of the backlog whose time has not come.

        It is counted from the publish or, as in NSQ, from when the topic gave it to the channel.
        """
        if batch.first_offset < self._backlog_end:
            deadline = self._backlog_since_ns + batch.delay_ns
        else:
            deadline = batch.timestamp_ns + batch.delay_ns - self.progress.wall_ahead_ns()
        wait = min(deadline - now, batch.delay_ns)  # the wall clock may have been set back since
        if wait <= 0:
            return False
        self.defer(self.state.cursor, min(batch.next_offset, border), wait, now)
        return True

    # --- time ----------------------------------------------------------------------------------

    def tick(self, now: int) -> None:
        """Requeue what has timed out and what was deferred until now; then sleep again."""
        state = self.state
        for flights in state.holders():
            for first, next_, attempts in flights.expire(now):
                self.timeout_count += next_ - first
                self._requeue(first, next_, attempts)
        # Nobody can finish these: they go when the last has timed out.
        state.departed = [flights for flights in state.departed if flights.count]
        for _, first, next_, attempts in state.deferred.due(now):
            self._requeue(first, next_, attempts)
        # A time-out gives its owner room, as in flight is what counts against RDY (NSQ spec 1.8).
        for consumer in self.consumers:
            self.refresh(consumer)
        self._sleep()

    def _sleep(self) -> None:
        """Wake up for the next deadline at the latest."""
        deadline = self.state.next_deadline()
        if deadline is not None:
            self._alarms.wake(self, deadline)

    def _defer(self, deadline: int, first: int, next_: int, attempts: int) -> None:
        self.state.deferred.add(deadline, first, next_, attempts)
        self.state.changed = True
        self._alarms.wake(self, deadline)

    def _requeue(self, first: int, next_: int, attempts: int) -> None:
        """Deliver again, unless these messages have had all their attempts."""
        state = self.state
        state.changed = True
        if self.max_attempts and attempts >= self.max_attempts:
            # Housekeeping's next tick moves them: publishing from within a FIN or a delivery would
            # let one channel's consumers run inside another's.
            state.spent.add(first, next_, attempts)
            self._alarms.wake(self, self._clock.monotonic_ns())
        else:
            state.requeue(first, next_, attempts)

    # --- dead letters --------------------------------------------------------------------------

    def limit_attempts(self, most: int, dead_letter_topic: str) -> None:
        """Deliver a message at most so often (0: without end), then move it to that topic."""
        self.max_attempts = most
        self.dead_letter_topic = dead_letter_topic
        # The limit may be higher than before: what was spent is judged once more.
        again = self.state.spent.take(None)
        if most:
            again += [SpentRange(*e[:3]) for e in self.state.requeued.take_spent(most)]
        for first, next_, attempts in again:
            self._requeue(first, next_, attempts)

    def take_spent(self, now: int) -> DeadLetterBatch | None:
        """Spent messages to be moved to the dead-letter topic, until ``settle``; None: none now.

        One that is a dead letter already is not moved again, or it might go round in circles: it is
        delivered on.
        """
        state = self.state
        entries = state.spent.take(MOVE_MESSAGES_MAX)
        if not entries:
            return None
        parcel = DeadLetterBatch([], [], Origins(self.topic_name, self.name, [], []))
        budget = MOVE_BYTES_MAX
        while entries and budget > 0:
            first, next_, attempts = entries.pop(0)
            try:
                for batch, low, high in retrieve(self.log, first, next_, state.lose):
                    if are_dead_letters(batch):
                        state.requeue(low, high, attempts)
                    else:
                        budget -= parcel.add(batch, low, high, attempts, self.log.id_base)
                    first = high
                    if budget <= 0:
                        break
                else:
                    # Parts that ``retrieve`` did not yield are damaged, and counted as lost.
                    first = next_
            except StorageError as error:
                logger.error("CHANNEL(%s): failed to read from the log - %s", self.name, error)
                self._alarms.wake(self, now + READ_RETRY_NS)
                budget = 0
            if first < next_:
                entries.insert(0, SpentRange(first, next_, attempts))
        state.spent.put_back(entries)
        state.spent.move(parcel.move)
        state.changed = True
        return parcel if parcel.move else None

    def settle(self, parcel: DeadLetterBatch, now: int, *, moved: bool) -> None:
        """The parcel is in the dead-letter topic, or it could not be: then once more, later."""
        state = self.state
        if not state.spent.end(parcel.move, moved):
            return  # emptied meanwhile
        if moved:
            self.dead_letter_count += len(parcel.frames)
        state.changed = True
        if state.spent.count:
            self._alarms.wake(self, now if moved else now + MOVE_RETRY_NS)

    # --- administration ------------------------------------------------------------------------

    def pause(self) -> None:
        self.paused = True

    def unpause(self) -> None:
        """Deliver again; the caller dispatches."""
        self.paused = False

    def empty(self) -> None:
        """Forget all: waiting, deferred and in flight. Later finishes of those fail."""
        self.state.empty()
        if self.latency is not None:
            self.latency.emptied()
        # Nothing is in flight any more, so all of them have room again (NSQ spec 3.2).
        for consumer in self.consumers:
            self.refresh(consumer)

    def seek(self, offset: int, head: int) -> None:
        """Forget all and go on from ``offset`` of the log, further back or ahead.

        What the log holds from there up to the topic's ``head`` is delivered (again), whatever was
        done about it before.
        """
        self.empty()
        self.state.cursor = offset
        self.state.head = max(head, offset)

    def seek_part(self, done: RangeSet, wanted: RangeSet) -> None:
        """Take some messages below the head for finished and deliver others (again), whatever was
        done about them before; all that are in neither set stay as they are.
        """
        self.state.settle(done, wanted)
        for consumer in self.consumers:
            self.refresh(consumer)

    def release_deferred(self, offsets: Iterable[int] | None) -> list[DeferredRange]:
        """Deliver these deferred messages, or all, now in the order of their deadlines; returns
        those that were deferred.
        """
        taken = sorted(self.state.cancel_deferred(offsets))
        for _, first, next_, attempts in taken:
            self._requeue(first, next_, attempts)
        return taken

    def restore(
        self, record: ChannelRecord, deferred: list[Deferral], doubtful: Iterable[Range] = ()
    ) -> None:
        """Go on from a record, and deliver the messages of whose state there is doubt."""
        self.progress.restore(record, deferred)
        for first, next_ in doubtful:
            self.progress.owe(first, next_)
        self._sleep()
