"""The tables of a broker, its store and its settings: all that services and answers work on."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from penstock.core.chance import Chance, SystemChance
from penstock.core.units import MILLISECOND
from penstock.rocketmq.broker.send.flush_timeouts import FlushTimeouts
from penstock.rocketmq.broker.settings import BrokerSettings
from penstock.rocketmq.broker.state import files
from penstock.rocketmq.broker.state.clients import Clients
from penstock.rocketmq.broker.state.files import State
from penstock.rocketmq.broker.state.groups import GroupTable
from penstock.rocketmq.broker.state.levels import DelayLevels
from penstock.rocketmq.broker.state.offsets import ConsumerOffsets
from penstock.rocketmq.broker.state.queue_locks import QueueLocks
from penstock.rocketmq.broker.state.stats import Stats
from penstock.rocketmq.broker.state.topics import DataVersion, TopicTable
from penstock.rocketmq.broker.store.message_store import MessageStore
from penstock.rocketmq.protocol import ids
from penstock.rocketmq.protocol.messages import properties
from penstock.storage.durability import Durability

if TYPE_CHECKING:
    from penstock.node.node import Node
    from penstock.rocketmq.remoting import Connection


class Tables:
    """The tables of one broker over a node, which has the topics of all dialects."""

    # Slots: each request reads several of these, and no other module can add one.
    __slots__ = ("address", "chance", "clients", "clock", "cluster_property", "config_version",
                 "flush_timeouts", "groups", "levels", "locks", "node", "offset_listeners",
                 "offsets", "settings", "started_ms", "state", "stats", "store", "topics",
                 "topics_listeners")  # fmt: skip

    def __init__(
        self,
        settings: BrokerSettings,
        node: Node,
        state: State,
        address: ids.Host,
        chance: Chance | None = None,
    ) -> None:
        """Load the tables. Raises ConfigError if one is damaged, StorageError."""
        self.settings = settings
        self.node = node
        self.clock = node.clock
        self.chance = chance or SystemChance()
        self.state = state
        self.address = address
        self.topics = TopicTable()
        self.groups = GroupTable()
        self.offsets = ConsumerOffsets()
        self.clients: Clients[Connection] = Clients()
        self.locks = QueueLocks()
        self.levels = DelayLevels(settings.message_delay_level)
        self.stats = Stats(settings.broker_cluster_name, node.clock)
        self.config_version = DataVersion()
        self.started_ms = self.now_ms
        self.topics_listeners: list[Callable[[], None]] = []
        """Called when the table of topics has changed: the registration at name servers listens."""
        self.offset_listeners: list[Callable[[tuple[str, str], int], None]] = []
        """Told the topic and group, and the queue, when a client commits an offset."""
        state.add(files.TOPICS, self.topics.as_json, self.topics.load)
        state.add(files.GROUPS, self.groups.as_json, self.groups.load)
        state.add(files.OFFSETS, self.offsets.as_json, self.offsets.load)
        self.store = MessageStore(node, self.topics, address)
        self.store.keep_above(self.offsets)
        self.store.on_append.append(self.stats.appended)
        self.store.deleted.append(self.stats.forget_topic)
        self.flush_timeouts: FlushTimeouts | None = None
        if settings.durability_level is Durability.FSYNC:
            self.flush_timeouts = FlushTimeouts(node.clock, settings.sync_flush_timeout)
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
