"""The broker under test and its model side by side: the ground of all rules.

Hypothesis takes its rules from one class, so each set of them is a class over those it builds on:
publishing, consuming, administration, misfortune.
"""

from __future__ import annotations

from hypothesis.stateful import RuleBasedStateMachine

from penstock.broker.broker import Broker, BrokerOptions
from penstock.broker.channels.channel import Channel, ChannelOptions
from penstock.broker.channels.consumer import Consumer, Delivery
from penstock.broker.topic import Topic
from penstock.core.chance import SystemChance
from penstock.storage.durability import Durability
from penstock.storage.log import Log, LogOptions, SyncJob
from penstock.storage.store import Store
from penstock.testing.clock import FakeClock
from penstock.testing.disk import FaultyDisk
from tests.sim.model import ModelTopic

SECOND = 10**9
TIMEOUT = 5 * SECOND
TIMEOUT_MAX = 12 * SECOND
CHANNELS = ("a", "b", "c")
ID = slice(18, 34)
BODY_AT = 34


class Reader:
    """A consumer of the broker under test, and whose deliveries are checked as they come."""

    def __init__(self, machine: Machine, number: int, channel: Channel) -> None:
        self.machine = machine
        self.number = number
        self.channel = channel
        self.model = machine.model.channels[channel.name]
        self.consumer = Consumer(self.deliver, TIMEOUT)

    def deliver(self, deliveries: list[Delivery]) -> None:
        machine = self.machine
        now = machine.clock.monotonic_ns()
        assert self.consumer.writable
        for delivery in deliveries:
            for offset in range(delivery.first, delivery.next):
                frame = bytes(delivery.batch.slice(offset, offset + 1))
                assert frame[ID] == b"%016x" % (machine.topic.log.id_base + offset)
                assert frame[BODY_AT:] == machine.model.bodies[offset]
                machine.hand_out(offset)
                self.model.deliver(offset, delivery.attempts, self.number, now, TIMEOUT)
        assert len(self.held()) <= self.consumer.ready

    def held(self) -> list[int]:
        return sorted(o for o, held in self.model.held.items() if held.consumer == self.number)


class Machine(RuleBasedStateMachine):
    """One durable topic over a disk that may fail, and what is known of it."""

    def start(self, level: Durability, file_bytes: int, memory: int, partial: bool) -> None:
        self.disk = FaultyDisk("/data")
        self.disk.leaves_partial_writes = partial
        self.clock = FakeClock()
        self.level = level
        self.log_options = LogOptions(file_bytes, memory, level)
        self.options = BrokerOptions(channel=ChannelOptions(memory, TIMEOUT_MAX))
        self.model = ModelTopic()
        self.serial = 0
        self.trimmed = 0
        self.readers: list[Reader] = []
        self.job: tuple[SyncJob, int] | None = None  # and up to where it syncs
        self.handed: set[int] = set()  # seen by somebody, and not to be lost any more
        self.commits: dict[int, list[bytes]] = {}  # bodies by batch, done or tried
        self.ghosts: dict[bytes, int] = {}  # refused, and when due: after a crash they may be there
        self.doubtful = False  # progress could not be written down
        self.rotted = False  # the topic may not remember all that it gave to its channels
        self.broken = False  # a sync failed
        self.suspect: set[int] = set()  # by it; no later sync can make these durable
        self.may_be_told = False  # that a power cut took some of these, which were seen meanwhile
        self.open()

    def open(self) -> None:
        self.untrimmed = False  # the last attempt to trim has failed, or there is damage
        store = Store(self.disk, "/data", self.log_options)
        self.broker = Broker(store, self.clock, SystemChance(1), self.options)
        self.topic: Topic = self.broker.topic("t")
        assert isinstance(self.topic.log, Log)
        self.log: Log = self.topic.log

    def show(self, end: int) -> None:
        """Make the messages below this offset visible in the model."""
        self.model.show(end)
        self.dispatch()

    def hand_out(self, offset: int) -> None:
        """Note that a message was seen: at ``fsync`` no other one may ever get its offset."""
        if self.level is Durability.FSYNC and offset not in self.suspect:
            self.handed.add(offset)

    def body(self, size: int) -> bytes:
        self.serial += 1
        return b"%06d:" % self.serial + b"x" * size

    def progress_written(self) -> None:
        """The topic has written its progress down by itself, unless the disk did not let it."""
        if self.topic.changed:
            self.doubtful = True
            return
        self.doubtful = False
        for channel in self.model.channels.values():
            channel.synced()

    def dispatch(self) -> None:
        for channel in self.topic.channels.values():
            channel.dispatch(self.clock.monotonic_ns())
