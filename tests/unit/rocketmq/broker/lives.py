"""A node that can be started again over what its last life has left."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from penstock.core.errors import StorageError
from penstock.node.node import Node
from penstock.rocketmq.broker.services import Services
from penstock.rocketmq.broker.settings import BrokerSettings
from penstock.rocketmq.broker.state.files import StateFiles
from penstock.rocketmq.broker.store.draft import Placed
from penstock.rocketmq.protocol.messages.message import StoredMessage, decode
from penstock.rocketmq.protocol.registration import TopicConfig
from penstock.storage.files.disk import OsDisk
from penstock.testing.clock import FakeClock
from tests.unit.rocketmq.broker.conftest import BROKER_ADDRESS, broker_settings, fake_node

Done = Callable[[list[Placed], StorageError | None], None]


class Lives:
    """The lives of one broker; services are made and not started, a test steps them itself."""

    def __init__(self, path: Path, clock: FakeClock) -> None:
        self.clock = clock
        self.settings: BrokerSettings = broker_settings(path)
        self._path = path
        self._host: Node | None = None

    def begin(self, *topics: str) -> Services:
        """A new life. The one before has crashed: its tables are as they were saved last."""
        self.end()
        self._host = fake_node(self._path, self.clock)
        state = StateFiles(OsDisk(), str(self._path / "config"))
        services = Services(self.settings, self._host, state, BROKER_ADDRESS)
        services.topics.add_system_topics(
            "DefaultCluster", "broker-a", 0, auto_create=True, trace=False
        )
        for topic in topics:
            services.topics.put(TopicConfig(topic, 4, 4), 0)
        for topic in services.topics.configs:
            services.store.configured(topic)
        services.files.save("topics.json")
        return services

    def end(self) -> None:
        if self._host is not None:
            self._host.broker.close()
            self._host = None


def stored(services: Services, topic: str, queue: int = 0) -> list[StoredMessage]:
    """All messages of a queue."""
    low, end = services.store.bounds(topic, queue)
    return [decode(each.frame)[0] for each in services.store.read(topic, queue, low, end, 1 << 30)]


class FailingPuts:
    """Makes puts to some topics fail, or never end, until ``mend``."""

    def __init__(self, services: Services, *topics: str, hang: bool = False) -> None:
        self._services = services
        self._put = services.store.put
        self.count = 0

        def put(drafts, done) -> None:  # type: ignore[no-untyped-def]
            if drafts[0].topic not in topics:
                self._put(drafts, done)
                return
            self.count += 1
            if not hang:
                done([], StorageError("no space left"))

        services.store.put = put  # type: ignore[method-assign]

    def mend(self) -> None:
        self._services.store.put = self._put  # type: ignore[method-assign]


async def until(condition: Callable[[], object], seconds: float = 30.0) -> None:
    """Wait until something holds. Raises TimeoutError."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - what is waited for tells nobody
            await asyncio.sleep(0.002)
