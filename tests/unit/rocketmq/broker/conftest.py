"""A node over a real store, and a whole broker in a loop of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast

import pytest

from penstock.broker.broker import Broker, BrokerOptions
from penstock.broker.publish.batching import Outcome
from penstock.broker.publish.records import Records
from penstock.broker.topic import Topic
from penstock.core.chance import SystemChance
from penstock.core.clock import SYSTEM_CLOCK
from penstock.net.budget import Memory, MemoryQueue
from penstock.net.vitals.vitals import Vitals
from penstock.node.commits import Commits
from penstock.node.dialect import Dialect
from penstock.node.followers import Followers
from penstock.node.log_groups import LogGroups
from penstock.node.node import Node
from penstock.node.registry import Registry
from penstock.rocketmq.broker.broker_settings import BrokerSettings
from penstock.rocketmq.broker.daemon import RocketBroker
from penstock.rocketmq.broker.services import Services
from penstock.rocketmq.broker.state.files import StateFiles
from penstock.rocketmq.protocol import ids
from penstock.rocketmq.protocol.registration import TopicConfig
from penstock.storage.files.disk import OsDisk
from penstock.storage.log import LogOptions
from penstock.storage.store import Store
from penstock.testing.clock import FakeClock
from tests.unit.rocketmq.broker.filling import stored
from tests.unit.rocketmq.conftest import LoopThread
from tools.harness.rocketmq.raw_client import RawClient

BROKER_ADDRESS = ids.Host(bytes((127, 0, 0, 1)), 10911)


class FakeCommits:
    """Commits every publish at once."""

    is_idle = False

    def publish(
        self, topic: Topic, records: Records, delay_ns: int, done: Outcome, queue: int | None = None
    ) -> None:
        topic.stage(records, delay_ns, done, queue)
        outcomes, error = topic.commit()
        for outcome in outcomes:
            outcome(error)

    def hold(self) -> None: ...

    def release(self) -> bool:
        return False

    def forget(self, topic: Topic) -> None: ...

    async def answer(self) -> None: ...

    async def settle(self, topic: Topic | None = None) -> None: ...


class FakeList:
    """A list of topics that is not written."""

    def changed(self) -> None: ...

    async def write(self) -> None: ...

    def tick(self, now: int) -> None: ...


class FakeNode:
    """A node without an event loop: no housekeeping, and publishes are committed at once."""

    def __init__(self, path: Path, clock: FakeClock | None = None) -> None:
        self.clock = clock or SYSTEM_CLOCK
        self.turns = MemoryQueue(Memory.of().requests)
        self.answer_turns = MemoryQueue(Memory.of().answers)
        store = Store(OsDisk(), str(path), LogOptions())
        self.broker = Broker(store, self.clock, SystemChance(7), BrokerOptions())
        self.commits = FakeCommits()
        self.registry = Registry(self.broker, cast(Commits, self.commits), FakeList(), self.clock)
        self.log_groups = LogGroups(self.clock)
        self.dialects: list[Dialect] = []
        self.followers = Followers(self.clock)
        self.vitals = Vitals("mqbroker", self.clock)


def fake_node(path: Path, clock: FakeClock | None = None) -> Node:
    """A node over a real store."""
    return cast(Node, FakeNode(path, clock))


def broker_settings(path: Path) -> BrokerSettings:
    settings = BrokerSettings()
    settings.broker_name = "broker-a"
    settings.broker_ip1 = "127.0.0.1"
    settings.bind_address = "127.0.0.1"
    settings.namesrv_addr = ""
    settings.listen_port = 0
    settings.store_path_root_dir = str(path)
    settings.enable_property_filter = True
    return settings


class Lives:
    """The lives of one broker with topics T and U; services are made and not started, a test steps
    them itself.
    """

    services: Services

    def __init__(self, path: Path, clock: FakeClock) -> None:
        self.clock = clock
        self.settings = broker_settings(path)
        self._path = path
        self._host: Node | None = None

    def start(self) -> None:
        """A new life. The one before has crashed: its tables are as they were saved last."""
        self.stop()
        self._host = fake_node(self._path, self.clock)
        state = StateFiles(OsDisk(), str(self._path / "config"))
        services = Services(self.settings, self._host, state, BROKER_ADDRESS)
        services.topics.add_system_topics(
            "DefaultCluster", "broker-a", 0, auto_create=True, trace=False
        )
        for topic in ("T", "U"):
            services.topics.put(TopicConfig(topic, 4, 4), 0)
        for topic in services.topics.configs:
            services.store.configured(topic)
        services.files.save("topics.json")
        self.services = services

    def stop(self) -> None:
        if self._host is not None:
            self._host.broker.close()
            self._host = None

    def bodies(self, queue: int = 0) -> list[bytes]:
        """What consumers of topic T see of a queue."""
        return [message.body for message in stored(self.services, "T", queue)]

    def set_time(self, by_ns: int) -> None:
        """Set the system's time on or back."""
        self.clock.set_wall(self.clock.wall_ns() + by_ns)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def settings(tmp_path: Path) -> BrokerSettings:
    return broker_settings(tmp_path)


@pytest.fixture
def services(tmp_path: Path, settings: BrokerSettings, clock: FakeClock) -> Iterator[Services]:
    """All parts, with a clock that stands still; no connections, and no service was started."""
    host = fake_node(tmp_path, clock)
    yield Services(settings, host, StateFiles(OsDisk(), str(tmp_path / "config")), BROKER_ADDRESS)
    host.broker.close()


@pytest.fixture
def rocket(
    loop_thread: LoopThread, tmp_path: Path, settings: BrokerSettings
) -> Iterator[RocketBroker]:
    """A broker on a free port."""
    host = fake_node(tmp_path)
    broker = loop_thread.run(RocketBroker.start(settings, host))
    yield broker
    loop_thread.run(broker.close())
    host.broker.close()


@pytest.fixture
def connect(rocket: RocketBroker) -> Iterator[Callable[[], RawClient]]:
    clients = []

    def connected() -> RawClient:
        clients.append(RawClient(rocket.port))
        return clients[-1]

    yield connected
    for client in clients:
        client.close()
