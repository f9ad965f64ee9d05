"""A broker on a disk that fails on command, with group commit, and its disk watched and held."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

from penstock.broker.broker import Broker, BrokerOptions
from penstock.broker.channels.consumer import Consumer, Delivery
from penstock.broker.topic import Topic
from penstock.core.chance import SystemChance
from penstock.core.clock import SYSTEM_CLOCK
from penstock.core.errors import StorageError
from penstock.node.commits import Commits
from penstock.nsq.protocol.bodies import Bodies
from penstock.storage.durability import Durability
from penstock.storage.log import LogOptions
from penstock.storage.store import Store
from penstock.testing.disk import FaultyDisk, FaultyFile
from tests.programs.nsq.nsqd.conftest import TIMEOUT_S


class Bench:
    """A broker on a faulty disk, with what the publishers were told, in order."""

    def __init__(self, durability: Durability) -> None:
        self.disk = FaultyDisk("/data")
        store = Store(self.disk, "/data", LogOptions(durability=durability))
        self.broker = Broker(store, SYSTEM_CLOCK, SystemChance(), BrokerOptions())
        self.commits = Commits(SYSTEM_CLOCK, durability, sync_every=10_000)
        self.told: list[tuple[str, StorageError | None]] = []
        self.told_more = asyncio.Event()
        self.topic = self.broker.topic("t")

    def publish(self, name: str, topic: Topic | None = None) -> None:
        def done(error: StorageError | None) -> None:
            self.told.append((name, error))
            self.told_more.set()

        self.commits.publish(topic or self.topic, Bodies.single(name.encode()), 0, done)

    async def publish_around_a_sync(self, gate: threading.Event) -> None:
        """Publish three messages and, while their sync is held up, one that waits for the next."""
        for name in "abc":
            self.publish(name)
        await asyncio.sleep(0.02)
        self.publish("d")
        gate.set()

    async def until_told(self, count: int) -> None:
        async with asyncio.timeout(TIMEOUT_S):
            while len(self.told) < count:
                self.told_more.clear()
                await self.told_more.wait()

    def consume(self) -> list[int]:
        """A consumer of the topic; the list grows with the offsets that it gets."""
        offsets: list[int] = []

        def deliver(deliveries: list[Delivery]) -> None:
            for delivery in deliveries:
                offsets.extend(range(delivery.first, delivery.next))

        channel = self.topic.channel("c")
        self.topic.distribute()
        consumer = Consumer(deliver, 60 * 10**9)
        consumer.ready = 100
        channel.add_consumer(consumer)
        channel.refresh(consumer)
        return offsets


fsync = pytest.mark.parametrize("bench", [Durability.FSYNC], indirect=True)
"""A mark: at the level ``fsync``."""


@pytest.fixture
async def bench(request: pytest.FixtureRequest) -> Bench:
    return Bench(getattr(request, "param", Durability.WRITE))


@pytest.fixture
def writes(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The path of each write from now on."""
    paths: list[str] = []
    append = FaultyFile.append

    def noted(file: FaultyFile, data: bytes | memoryview) -> None:
        paths.append(file.path)
        append(file, data)

    monkeypatch.setattr(FaultyFile, "append", noted)
    return paths


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """An event; syncs of logs wait until it is set."""
    opened = threading.Event()
    sync = FaultyFile.sync

    def waiting(file: FaultyFile) -> None:
        assert not file.path.endswith(".log") or opened.wait(TIMEOUT_S)
        sync(file)

    monkeypatch.setattr(FaultyFile, "sync", waiting)
    yield opened
    opened.set()
