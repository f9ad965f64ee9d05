"""A consumer's place in a channel: how much it may hold, what it holds, where its messages go."""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum

from msgspec import Struct

from penstock.broker.channels.flights import Flights
from penstock.storage.batch import Batch


class Delivery(Struct):
    """Messages ``[first, next)`` of a batch for one consumer, each for the ``attempts``-th time."""

    batch: Batch
    first: int
    next: int
    attempts: int


class Locality(IntEnum):
    """The distance of a consumer; the nearer ones are served first (NSQ spec 3.11)."""

    ZONE = 0
    REGION = 1
    ANYWHERE = 2


class Consumer:
    """One subscriber. ``ready`` is NSQ's RDY: a level, never counted down.

    ``deliver`` is called with the deliveries of one round; it must not call back into the channel.
    ``writable`` is lowered by the connection while its peer does not read.
    """

    __slots__ = (
        "deliver",
        "finish_count",
        "flights",
        "locality",
        "message_count",
        "ready",
        "requeue_count",
        "sample_rate",
        "writable",
    )

    def __init__(
        self,
        deliver: Callable[[list[Delivery]], None],
        timeout_ns: int,
        sample_rate: int = 0,
        locality: Locality = Locality.ANYWHERE,
    ) -> None:
        self.deliver = deliver
        self.flights = Flights(timeout_ns)
        self.sample_rate = sample_rate
        self.locality = locality
        self.ready = 0
        self.writable = True
        self.message_count = 0
        self.finish_count = 0
        self.requeue_count = 0

    @property
    def in_flight(self) -> int:
        return self.flights.count

    def room(self) -> int:
        """The number of messages that it takes now."""
        return self.ready - self.flights.count if self.writable else 0
