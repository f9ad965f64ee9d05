"""A group that pops a topic: a channel, as NSQ has them, with RocketMQ's consumers on it.

A popped message is in flight until it is acknowledged; when its invisible time is over it waits
again, one attempt older. The channel has the name of the group, so NSQ's consumers of a channel and
RocketMQ's of a group of the same name share its messages.

Requests wait in the order in which they came. What is delivered to them is looked at a moment
later, since a channel must not be called back while it delivers.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Protocol

from penstock.broker.channels.channel import Channel, NotInFlightError
from penstock.broker.channels.consumer import Consumer, Delivery
from penstock.broker.runs import runs
from penstock.broker.topic import Topic
from penstock.core.clock import Clock
from penstock.core.errors import StorageError
from penstock.core.ranges import RangeSet
from penstock.core.units import MILLISECOND
from penstock.rocketmq.broker.answering import RefusedError
from penstock.rocketmq.broker.state.subscriptions import Subscription
from penstock.rocketmq.broker.store.message_store import MessageStore, Slice
from penstock.rocketmq.protocol.codes import ResponseCode
from penstock.rocketmq.protocol.frames import FRAME_MAX
from penstock.rocketmq.protocol.messages.message import decode, encode, properties_text
from penstock.storage.batch import Buffer

TIMES_MAX: Final = 64
"""Different invisible times that one group may use at once."""
ANSWER_BYTES: Final = 4 * 1024 * 1024
"""An answer gets no further messages when it has this many bytes of them."""
ANSWER_BYTES_MAX: Final = FRAME_MAX - 64 * 1024
"""The most bytes of several messages in one answer: clients read no longer frame."""
PLACES_MAX: Final = 100_000
"""Ranges of the log that one queue's reset may consist of; each stays in memory and journal."""

logger = logging.getLogger("penstock.mqbroker")


@dataclass(slots=True)
class Popped:
    """A message that was delivered: its places in log and queue, how often it was delivered."""

    offset: int
    queue: int
    queue_offset: int
    attempts: int
    frame: Buffer


class Waiter(Protocol):
    """A request that waits for messages."""

    @property
    def count(self) -> int:
        """The largest number of messages that it takes."""
        ...

    @property
    def subscription(self) -> Subscription: ...

    @property
    def connection(self) -> object:
        """The connection that it came from."""
        ...

    def cancel(self) -> None:
        """Nobody wants an answer any more."""
        ...

    def take_again(self) -> None:
        """Stop waiting and process the request again: permissions have changed."""
        ...

    def expire(self) -> None:
        """End the wait without messages."""
        ...

    def answer(self, popped: list[Popped]) -> None:
        """Answer with messages, one at least."""
        ...


class PopConsumer(Consumer):
    """The requests of a group with the same invisible time; its flights are what they hold."""

    __slots__ = ("inbox", "nbytes", "waiters")

    def __init__(self, deliver: Callable[[list[Delivery]], None], invisible_ms: int) -> None:
        super().__init__(deliver, invisible_ms * MILLISECOND)
        self.inbox: list[Delivery] = []
        self.nbytes = 0
        """Bytes of the messages in the inbox."""
        self.waiters: deque[Waiter] = deque()

    def room(self) -> int:
        """The number of messages that the waiting requests take, less those under way to them; none
        while as many bytes are under way as go into an answer.
        """
        if self.nbytes >= ANSWER_BYTES:
            return 0
        wanted = sum([waiter.count for waiter in self.waiters])
        return wanted - sum([each.next - each.first for each in self.inbox])

    def put(self, deliveries: list[Delivery]) -> None:
        """Take what was delivered."""
        self.inbox += deliveries
        self.nbytes += sum(
            [
                each.batch.position(each.next) - each.batch.position(each.first)
                for each in deliveries
            ]
        )

    def take(self) -> list[Delivery]:
        """All that was delivered."""
        inbox, self.inbox, self.nbytes = self.inbox, [], 0
        return inbox

    @property
    def is_idle(self) -> bool:
        return not (self.waiters or self.inbox or self.flights.count)


class PopChannel:
    """The channel of one group on one topic.

    ``attempts_max`` tells how often a message may be delivered; ``bury`` takes those that were
    more often and finishes them with ``finish`` when they are elsewhere. ``may_consume`` tells if
    the group is still allowed to read the topic.
    """

    def __init__(
        self,
        topic: Topic,
        channel: Channel,
        store: MessageStore,
        clock: Clock,
        attempts_max: Callable[[], int],
        bury: Callable[[PopChannel, Popped], None],
        may_consume: Callable[[], bool],
    ) -> None:
        self.topic = topic
        self.channel = channel
        self._store = store
        self._clock = clock
        self._attempts_max = attempts_max
        self._bury = bury
        self._may_consume = may_consume
        self._consumers: dict[int, PopConsumer] = {}
        self._is_settling = False
        self._loop = asyncio.get_running_loop()

    # --- requests ------------------------------------------------------------------------------

    @property
    def waiting(self) -> int:
        """Requests that wait."""
        return sum(len(consumer.waiters) for consumer in self._consumers.values())

    def wait(self, waiter: Waiter, invisible_ms: int) -> bool:
        """Let a request have messages, now or when they come; False: too many invisible times."""
        consumer = self._consumers.get(invisible_ms) or self._new_consumer(invisible_ms)
        if consumer is None:
            return False
        consumer.waiters.append(waiter)
        self._serve(consumer)
        return True

    def give_up(self, waiter: Waiter) -> None:
        """A request waits no longer."""
        for consumer in self._consumers.values():
            if waiter in consumer.waiters:
                consumer.waiters.remove(waiter)
                self.channel.refresh(consumer)

    def forget(self, connection: object) -> None:
        """A connection is gone, and its requests with it."""
        for consumer in self._consumers.values():
            for waiter in [each for each in consumer.waiters if each.connection is connection]:
                waiter.cancel()
                self.give_up(waiter)

    def _new_consumer(self, invisible_ms: int) -> PopConsumer | None:
        # Idle ones stay until their room is needed: a group mostly asks with the same time again.
        if len(self._consumers) >= TIMES_MAX:
            for idle in [ms for ms, each in self._consumers.items() if each.is_idle]:
                self.channel.remove_consumer(self._consumers.pop(idle))
            if len(self._consumers) >= TIMES_MAX:
                return None

        def deliver(deliveries: list[Delivery]) -> None:
            consumer.put(deliveries)
            self._settle_soon()

        consumer = self._consumers[invisible_ms] = PopConsumer(deliver, invisible_ms)
        self.channel.add_consumer(consumer)
        return consumer

    def _serve(self, consumer: PopConsumer) -> None:
        self.channel.refresh(consumer)
        self.channel.dispatch(self._clock.monotonic_ns())

    def _settle_soon(self) -> None:
        if not self._is_settling:
            self._is_settling = True
            # Not at once: the channel that delivers must not be called back while it does.
            self._loop.call_soon(self._settle)

    def _settle(self) -> None:
        """Hand what was delivered to the requests; those that got nothing of it wait on."""
        self._is_settling = False
        for consumer in list(self._consumers.values()):
            if not consumer.inbox:
                continue
            if not self._may_consume():
                for waiter in list(consumer.waiters):
                    waiter.take_again()
            try:
                self._hand_out(consumer)
            except StorageError as error:  # they are in flight, and will come again
                logger.error(
                    "CHANNEL(%s): failed to read what was popped - %s", self.channel.name, error
                )
            # What was filtered, buried or put back has left room for more.
            self._serve(consumer)

    def _hand_out(self, consumer: PopConsumer) -> None:
        most = self._attempts_max()
        filtered: list[int] = []
        taken: list[Popped] = []
        nbytes = 0
        for each in self._read(consumer.take()):
            if taken and nbytes + len(each.frame) > ANSWER_BYTES_MAX:
                consumer.waiters.popleft().answer(taken)
                taken, nbytes = [], 0
            # Known only here: Go's limit of attempts is the consumer's, RocketMQ's the broker's.
            if each.attempts > most:
                self._bury(self, each)
            elif not consumer.waiters:  # it gave up meanwhile
                self._put_back(consumer, each.offset)
            elif not _is_wanted(consumer.waiters[0].subscription, each.frame):
                filtered.append(each.offset)
            else:
                taken.append(each)
                nbytes += len(each.frame)
                if len(taken) >= consumer.waiters[0].count:
                    consumer.waiters.popleft().answer(taken)
                    taken, nbytes = [], 0
        if taken:
            consumer.waiters.popleft().answer(taken)
        if filtered:
            # What the filter leaves out is done for the group, as a pull's offset moves past it.
            self.channel.finish(consumer, filtered)

    def _read(self, deliveries: list[Delivery]) -> Iterator[Popped]:
        for each in deliveries:
            yield from popped(self._store, self.topic, each)

    def _put_back(self, consumer: PopConsumer, offset: int) -> None:
        """Nobody saw it; it waits again at once."""
        now = self._clock.monotonic_ns()
        with suppress(NotInFlightError):  # the channel was emptied meanwhile
            self.channel.requeue(consumer, offset, 0, now, unseen=True)

    # --- popped messages -----------------------------------------------------------------------

    def finish(self, offsets: list[int]) -> list[int]:
        """Finish log offsets; those that were not in flight are returned."""
        for consumer in self._consumers.values():
            if offsets:
                offsets = self.channel.finish(consumer, offsets)
        return offsets

    def hide(self, offset: int, invisible_ms: int) -> bool:
        """Restart a message's time in flight, ``invisible_ms``; False if it is not in flight."""
        now = self._clock.monotonic_ns()
        for consumer in self._consumers.values():
            if offset in consumer.flights:
                self.channel.touch(consumer, offset, now, invisible_ms * MILLISECOND)
                return True
        return False

    def seek(self, offset: int) -> None:
        """Go on at a log offset, ahead or back; what was hidden is hidden no more."""
        self.topic.seek(self.channel, offset)
        self.channel.dispatch(self._clock.monotonic_ns())

    def seek_queue(self, queue: int, offset: int) -> None:
        """Go on at a queue offset of one queue; the others stay as they are.

        Raises RefusedError where that is not a small number of places in the log.
        """
        queues, state = self.topic.queues, self.channel.state
        floor, end = queues.search(queue, state.floor()), queues.search(queue, state.head)
        done, wanted = (
            self._places(queue, low, high)
            for low, high in ((floor, min(offset, end)), (offset, end))
        )
        self.topic.seek_part(self.channel, done, wanted)
        self.channel.dispatch(self._clock.monotonic_ns())

    def _places(self, queue: int, low: int, high: int) -> RangeSet:
        """The places in the log of the messages ``[low, high)`` of a queue."""
        found = RangeSet()
        locate = self.topic.queues.locate
        # By pieces, as places come as a list; neighbours in the log become one range.
        while low < high and (places := locate(queue, low, min(high - low, PLACES_MAX))):
            for first, next_ in runs(list(places)):
                found.add(first, next_)
            low += len(places)
            # Each range is kept in memory and journal until it is done, so the reset is refused
            # before that.
            if found.ranges > PLACES_MAX:
                remark = (
                    f"queue {queue} of {self.topic.name} cannot be reset alone: its messages are "
                    f"in more than {PLACES_MAX} places of the log; reset all queues to a time"
                )
                raise RefusedError(ResponseCode.SYSTEM_ERROR, remark)
        return found

    def close(self) -> None:
        """The channel is gone: there are no messages for those who still wait."""
        consumers, self._consumers = self._consumers, {}
        for consumer in consumers.values():
            for waiter in consumer.waiters:
                waiter.expire()


def popped(store: MessageStore, topic: Topic, delivery: Delivery) -> Iterator[Popped]:
    """The messages of a delivery; those that were delivered before say so."""
    batch, first, attempts = delivery.batch, delivery.first, delivery.attempts
    place = topic.queues.search(batch.queue, first)
    part = Slice(batch, first, delivery.next, place)
    for number, frame in enumerate(store.frames(topic.name, part)):
        shown = frame if attempts <= 1 else _tried_again(frame, attempts)
        yield Popped(first + number, batch.queue, place + number, attempts, shown)


def _is_wanted(subscription: Subscription, frame: Buffer) -> bool:
    return subscription.wants_all or subscription.matches(properties_text(frame))


def _tried_again(frame: Buffer, attempts: int) -> bytes:
    """The message as it is delivered for the ``attempts``-th time."""
    message, _ = decode(frame)
    # Consumers find here how often it came before; the stored message is the same each time.
    message.reconsume_times += attempts - 1
    return encode(message)
