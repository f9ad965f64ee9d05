"""Spans of a node's messages, made of what its topics and channels report.

A publish is the root of a trace: from its commit until readers see it. Each delivery to a channel
is a child of it: from its leaving for the consumer until the answer, or until its time-out. Only
messages whose id is a multiple of ``every`` are looked at, so that the cost follows their number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from penstock.broker.channels.channel import Channel
from penstock.broker.channels.consumer import Delivery
from penstock.broker.channels.delivery_observer import DeliveryObserver
from penstock.broker.publish.records import PlacedRecords
from penstock.broker.topic import Topic
from penstock.core.clock import Clock
from penstock.node.registry import Observer
from penstock.nsq.trace_context import SpanIds, delivery_span, publish_span
from penstock.storage.batch import Batch

OPEN_MAX: Final = 10_000
"""Deliveries of a node that wait for their end; beyond them the oldest gets no span."""


class MessageSpan(NamedTuple):
    """One span that has ended; times are wall nanoseconds.

    A publish has no ``parent``, an empty ``channel`` and 0 ``attempts``. ``outcome`` is that of a
    delivery: finished, requeued, timed out, or dropped by an emptied or deleted channel.
    """

    ids: SpanIds
    parent: SpanIds | None
    topic: str
    channel: str
    message_id: int
    attempts: int
    start_ns: int
    end_ns: int
    outcome: str


Emit = Callable[[MessageSpan], None]


class _Open(NamedTuple):
    """A delivery whose end is awaited."""

    attempts: int
    start_ns: int


_OpenDeliveries = dict[tuple["ChannelSpans", int], _Open]


class MessageSpans(Observer):
    """The spans of one node's messages, handed to ``emit`` as they end.

    It observes the broker (``appended``) and the registry (``channel_created``).
    """

    def __init__(self, topics: dict[str, Topic], clock: Clock, every: int, emit: Emit) -> None:
        assert every > 0
        self._topics = topics
        self._clock = clock
        self._every = every
        self._emit = emit
        self._open: _OpenDeliveries = {}

    def placed(self, records: Sequence[tuple[PlacedRecords, int]], timestamp_ns: int) -> None:
        """Do nothing: a publish has its span when it is visible."""

    def appended(self, topic: str, batches: Sequence[Batch]) -> None:
        """End the span of each publish among these."""
        found = self._topics.get(topic)
        if found is None:
            return
        base, now = found.log.id_base, self._clock.wall_ns()
        for batch in batches:
            for offset in traced(batch.first_offset, batch.next_offset, base, self._every):
                begun = batch.timestamp_ns
                self._emit(MessageSpan(publish_span(topic, base + offset), None, topic, "",
                                       base + offset, 0, begun, max(now, begun), ""))  # fmt: skip

    def channel_created(self, topic: Topic, channel: Channel) -> None:
        """Observe its deliveries from now on."""
        spans = ChannelSpans(channel, self._clock, self._every, self._emit, self._open)
        channel.observers.append(spans)


class ChannelSpans(DeliveryObserver):
    """The spans of one channel's deliveries; ``deliveries`` holds the open ones of all channels."""

    __slots__ = ("_base", "_clock", "_deliveries", "_emit", "_every", "_name", "_topic")

    def __init__(
        self, channel: Channel, clock: Clock, every: int, emit: Emit, deliveries: _OpenDeliveries
    ) -> None:
        self._topic = channel.topic_name
        self._name = channel.name
        self._base = channel.log.id_base
        self._clock = clock
        self._every = every
        self._emit = emit
        self._deliveries = deliveries

    def delivered(self, deliveries: list[Delivery]) -> None:
        """Begin the spans of these messages."""
        now = self._clock.wall_ns()
        waiting = self._deliveries
        for delivery in deliveries:
            for offset in traced(delivery.first, delivery.next, self._base, self._every):
                if len(waiting) >= OPEN_MAX:
                    del waiting[next(iter(waiting))]
                waiting[self, offset] = _Open(delivery.attempts, now)

    def finished(self, first: int, next_: int) -> None:
        """End the spans of these messages."""
        self._end(first, next_, "finished")

    def requeued(self, offset: int) -> None:
        """End the span of this message, which is delivered again."""
        self._end(offset, offset + 1, "requeued")

    def timed_out(self, first: int, next_: int) -> None:
        """End the spans of these messages, for which nobody has answered."""
        self._end(first, next_, "timed out")

    def emptied(self) -> None:
        """End the spans of all that was in flight."""
        for offset in [offset for spans, offset in self._deliveries if spans is self]:
            self._end(offset, offset + 1, "dropped")

    def _end(self, first: int, next_: int, outcome: str) -> None:
        now = self._clock.wall_ns()
        for offset in traced(first, next_, self._base, self._every):
            begun = self._deliveries.pop((self, offset), None)
            if begun is None:
                continue
            message_id = self._base + offset
            ids = delivery_span(self._topic, self._name, message_id, begun.attempts)
            parent = publish_span(self._topic, message_id)
            end_ns = max(now, begun.start_ns)  # the wall clock may have been set back
            self._emit(MessageSpan(ids, parent, self._topic, self._name, message_id,
                                   begun.attempts, begun.start_ns, end_ns, outcome))  # fmt: skip


def traced(first: int, next_: int, base: int, every: int) -> range:
    """The offsets of ``[first, next_)`` whose ids, ``base`` plus the offset, are multiples."""
    return range(first + -(base + first) % every, next_, every)
