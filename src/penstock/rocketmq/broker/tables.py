"""RocketMQ's side of a broker: its tables, its store, and what its connections share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from penstock.core.chance import Chance, SystemChance
from penstock.core.units import MILLISECOND
from penstock.node import node as base
from penstock.rocketmq.broker import state as files
from penstock.rocketmq.broker.clients import Clients
from penstock.rocketmq.broker.delays import schedule
from penstock.rocketmq.broker.delays.levels import DelayLevels
from penstock.rocketmq.broker.draft import Draft, Placed
from penstock.rocketmq.broker.flush_timeouts import FlushTimeouts
from penstock.rocketmq.broker.groups import GroupTable
from penstock.rocketmq.broker.held_pulls import HeldPulls
from penstock.rocketmq.broker.message_store import Done, MessageStore
from penstock.rocketmq.broker.offsets import ConsumerOffsets
from penstock.rocketmq.broker.queue_locks import QueueLocks
from penstock.rocketmq.broker.retention import TopicRetention
from penstock.rocketmq.broker.settings import BrokerSettings
from penstock.rocketmq.broker.state import State
from penstock.rocketmq.broker.stats import Stats
from penstock.rocketmq.broker.topics import DataVersion, TopicTable
from penstock.rocketmq.protocol import ids, properties
from penstock.storage.durability import Durability

if TYPE_CHECKING:
    from penstock.rocketmq.broker.acl.check import Acl
    from penstock.rocketmq.broker.delays.schedule import Schedule
    from penstock.rocketmq.broker.delays.timers import Timers
    from penstock.rocketmq.broker.key_index import KeyIndex
    from penstock.rocketmq.broker.pop_notices import Arrivals
    from penstock.rocketmq.broker.pops import Pops
    from penstock.rocketmq.broker.registration import NameServers
    from penstock.rocketmq.broker.request_modes import RequestModes
    from penstock.rocketmq.broker.transactions.ending import Transactions
    from penstock.rocketmq.remoting import Connection


class Service(Protocol):
    """Something that goes on beside the requests."""

    def start(self) -> None: ...

    async def close(self) -> None: ...


class Node:
    """All that answers and services work with; the daemon makes one and starts its services."""

    acl: Acl | None = None
    keys: KeyIndex
    arrivals: Arrivals
    pops: Pops
    request_modes: RequestModes
    schedule: Schedule
    timers: Timers
    transactions: Transactions
    name_servers: NameServers | None = None

    def __init__(
        self,
        settings: BrokerSettings,
        base: base.Node,
        state: State,
        address: ids.Host,
        chance: Chance | None = None,
    ) -> None:
        """Loads the tables. Raises ConfigError for a damaged one, StorageError."""
        self.settings = settings
        self.base = base
        self.clock = base.clock
        self.chance = chance or SystemChance()
        self.state = state
        self.address = address
        self.topics = TopicTable()
        self.groups = GroupTable()
        self.offsets = ConsumerOffsets()
        self.clients: Clients[Connection] = Clients()
        self.locks = QueueLocks()
        self.levels = DelayLevels(settings.message_delay_level)
        self.stats = Stats(settings.broker_cluster_name, base.clock)
        self.config_version = DataVersion()
        self.started_ms = self.now_ms
        self.services: list[Service] = []
        self.topics_listeners: list[Callable[[], None]] = []
        """Told when the table of topics has changed: who registers at name servers."""
        self.offset_listeners: list[Callable[[tuple[str, str], int], None]] = []
        """Told the topic and group, and the queue, when a client commits an offset."""
        state.add(files.TOPICS, self.topics.as_json, self.topics.load)
        state.add(files.GROUPS, self.groups.as_json, self.groups.load)
        state.add(files.OFFSETS, self.offsets.as_json, self.offsets.load)
        self.store = MessageStore(base, self.topics, address)
        self.store.keep_above(self.offsets)
        self.store.appended.append(self.stats.appended)
        self.store.deleted.append(self.stats.forget_topic)
        self.retention = TopicRetention(self)
        self.held_pulls = HeldPulls(self)
        self.flush_timeouts: FlushTimeouts | None = None
        if settings.durability_level is Durability.FSYNC:
            self.flush_timeouts = FlushTimeouts(base.clock, settings.sync_flush_timeout)
        self.cluster_property = properties.join(
            {properties.CLUSTER: settings.broker_cluster_name}
        ).rstrip(properties.VALUE_END)

    @property
    def now_ms(self) -> int:
        return self.clock.wall_ns() // MILLISECOND

    def topics_changed(self) -> None:
        """Write the table of topics down and tell the name servers. Raises StorageError."""
        self.state.save(files.TOPICS)
        for listener in self.topics_listeners:
            listener()

    def offsets_changed(self) -> None:
        """Write down the offsets of groups at once, as a tool has changed them.

        Other changes wait for the next interval. Raises StorageError.
        """
        self.state.save(files.OFFSETS)

    async def registered(self) -> None:
        """Wait, though not long, until name servers know the topics as they are now."""
        if self.name_servers is not None:
            await self.name_servers.registered()

    def publish(self, drafts: Sequence[Draft], done: Done) -> None:
        """Store messages of one queue of one topic; those with a delay wait in its queue first."""
        if len(drafts) == 1:
            drafts = (schedule.divert(self, drafts[0]),)
        self.store.put(drafts, done)

    async def publish_one(self, draft: Draft) -> Placed:
        """The same for one message, awaited. Raises StorageError."""
        draft = schedule.divert(self, draft)
        return await self.store.append(draft)
