"""A broker over a disk in memory, and consumers that remember what they were given."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.broker.broker import Broker, BrokerOptions
from penstock.broker.channels.channel import Channel, ChannelOptions
from penstock.broker.channels.consumer import Consumer, Delivery
from penstock.broker.publish.batching import Outcome
from penstock.broker.topic import Topic
from penstock.core.errors import StorageError
from penstock.core.units import SECOND
from penstock.nsq.protocol.bodies import Bodies
from penstock.storage.log import Log, LogOptions
from penstock.storage.retention import Retention
from penstock.storage.store import Store
from penstock.testing.clock import FakeClock
from penstock.testing.disk import FaultyDisk

TIMEOUT = 5 * SECOND
TIMEOUT_MAX = 12 * SECOND
BODY_AT = 34


class Draws:
    """A Chance whose draws are written down beforehand."""

    def __init__(self, *draws: int) -> None:
        self.left = list(draws)

    def below(self, limit: int) -> int:
        draw = self.left.pop(0)
        assert 0 <= draw < limit
        return draw

    def fraction(self) -> float:
        raise AssertionError("nobody draws fractions here")


class RunningClock(FakeClock):
    """A clock that advances with every reading, so that its two clocks never agree."""

    def wall_ns(self) -> int:
        self.advance(700)
        return super().wall_ns()

    def monotonic_ns(self) -> int:
        self.advance(300)
        return super().monotonic_ns()


class World:
    """A disk, a clock and the broker that runs on them."""

    def __init__(
        self,
        *,
        memory: int = 10_000,
        file_bytes: int = 1 << 20,
        retention: Retention | None = None,
        draws: tuple[int, ...] = (),
    ) -> None:
        self.disk = FaultyDisk("/data")
        self.clock = FakeClock()
        self.draws = Draws(*draws)
        self.log_options = LogOptions(file_bytes, memory)
        channel_options = ChannelOptions(memory, TIMEOUT_MAX)
        self.options = BrokerOptions(5, channel_options, retention or Retention())
        self.open()

    def open(self) -> None:
        store = Store(self.disk, "/data", self.log_options)
        self.broker = Broker(store, self.clock, self.draws, self.options)

    def restart(self) -> None:
        self.broker.close()
        self.open()

    def let_time_run(self) -> None:
        """Restart with a clock that does not stand still between two readings."""
        self.clock = RunningClock()
        self.restart()

    def kill(self) -> None:
        """kill -9 and start anew: what was not written down is forgotten."""
        self.disk.crash("written")
        self.open()

    @property
    def now(self) -> int:
        return self.clock.monotonic_ns()

    @property
    def topic(self) -> Topic:
        return self.broker.topic("t")

    def channel(self, name: str = "c", topic: Topic | None = None) -> Channel:
        topic = topic or self.topic
        channel = topic.channel(name)
        topic.distribute()
        return channel

    def publish(self, *bodies: bytes, delay: int = 0, topic: Topic | None = None) -> None:
        """One publish, and its commit, which must not fail."""
        assert self.try_publish(*bodies, delay=delay, topic=topic) is None

    def try_publish(
        self, *bodies: bytes, delay: int = 0, topic: Topic | None = None
    ) -> StorageError | None:
        topic = topic or self.topic
        stage(topic, *bodies, delay=delay)
        return topic.commit()[1]

    def fill(self, count: int, topic: Topic | None = None) -> None:
        """Publish ``count`` messages, each in a batch of its own."""
        for number in range(count):
            self.publish(b"m%d" % number, topic=topic)

    def reader(self, count: int, ready: int) -> Reader:
        """A consumer of the channel ``c``, in which so many messages wait."""
        channel = self.channel()
        self.fill(count)
        return Reader(self, channel, ready)

    def wait(self, ns: int) -> None:
        """Let time pass, and do what the shell does then."""
        self.clock.advance(ns)
        for channel in self.broker.tick(self.now):
            channel.dispatch(self.now)


class Reader:
    """A consumer of a channel, and the (offset, attempts) it was given."""

    def __init__(
        self, world: World, channel: Channel, ready: int, *, sample: int = 0, timeout: int = TIMEOUT
    ) -> None:
        self.world = world
        self.channel = channel
        self.rounds: list[list[tuple[int, int]]] = []
        self.bodies: dict[int, bytes] = {}
        self.stop_after: int | None = None  # rounds; then its connection is full
        self.consumer = Consumer(self._deliver, timeout, sample)
        channel.add_consumer(self.consumer)
        self.ready(ready)

    def _deliver(self, deliveries: list[Delivery]) -> None:
        self.rounds.append([])
        for delivery in deliveries:
            for offset in range(delivery.first, delivery.next):
                self.rounds[-1].append((offset, delivery.attempts))
                self.bodies[offset] = bytes(delivery.batch.slice(offset, offset + 1))[BODY_AT:]
        if self.stop_after == len(self.rounds):
            self.writable(False)

    def ready(self, count: int) -> None:
        self.consumer.ready = count
        self.channel.refresh(self.consumer)

    def writable(self, writable: bool) -> None:
        self.consumer.writable = writable
        self.channel.refresh(self.consumer)

    def take(self) -> list[tuple[int, int]]:
        """Dispatch; all that came since the last call."""
        self.channel.dispatch(self.world.now)
        taken = [message for messages in self.rounds for message in messages]
        self.rounds.clear()
        return taken

    def offsets(self) -> list[int]:
        return [offset for offset, _ in self.take()]

    def finish(self, *offsets: int) -> list[int]:
        """Those that were not in flight to it."""
        return self.channel.finish(self.consumer, np.array(offsets, np.int64))

    def requeue(self, offset: int, delay: int = 0) -> None:
        self.channel.requeue(self.consumer, offset, delay, self.world.now)

    def touch(self, offset: int) -> None:
        self.channel.touch(self.consumer, offset, self.world.now)

    def leave(self) -> None:
        self.channel.remove_consumer(self.consumer)


def ignore(error: StorageError | None) -> None:
    """The outcome of a publish that nobody waits for."""


def log_of(topic: Topic) -> Log:
    assert isinstance(topic.log, Log)
    return topic.log


@pytest.fixture
def world() -> World:
    return World()


def stage(topic: Topic, *bodies: bytes, delay: int = 0, done: Outcome = ignore) -> None:
    topic.stage(Bodies.from_list(bodies), delay, done)
