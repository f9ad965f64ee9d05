"""The parts of a broker: built, wired to one another, and listed by what they answer and do.

Each part takes what it uses. What happens when messages are appended, a topic is deleted, or topics
and offsets change is in ``_wire``, in the order of the calls; nothing else registers itself, but
``Arrivals`` while somebody waits.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Protocol

from penstock.core.chance import Chance, SystemChance
from penstock.core.clock import wall_ms
from penstock.core.errors import StorageError
from penstock.rocketmq.broker import names
from penstock.rocketmq.broker.acl.check import Acl
from penstock.rocketmq.broker.acl.commands import AclCommands
from penstock.rocketmq.broker.acl.files import AclFiles
from penstock.rocketmq.broker.admin import runtime_info
from penstock.rocketmq.broker.admin.broker_metrics import BrokerMetrics
from penstock.rocketmq.broker.admin.cleaning import Cleaning
from penstock.rocketmq.broker.admin.client_relays import ClientRelays
from penstock.rocketmq.broker.admin.config_commands import ConfigCommands
from penstock.rocketmq.broker.admin.connections import ConnectionLists
from penstock.rocketmq.broker.admin.consume_stats import ConsumeStats
from penstock.rocketmq.broker.admin.group_commands import GroupCommands
from penstock.rocketmq.broker.admin.message_queries import MessageQueries
from penstock.rocketmq.broker.admin.offset_reset import OffsetReset
from penstock.rocketmq.broker.admin.queue_view import QueueView
from penstock.rocketmq.broker.admin.runtime_info import RuntimeInfo
from penstock.rocketmq.broker.admin.topic_commands import TopicCommands
from penstock.rocketmq.broker.admin.topic_stats import TopicStats
from penstock.rocketmq.broker.answering import AnswerTable
from penstock.rocketmq.broker.broker_settings import BrokerSettings
from penstock.rocketmq.broker.clients import heartbeats, orderly
from penstock.rocketmq.broker.clients.group_figures import GroupFigures
from penstock.rocketmq.broker.clients.group_topics import GroupTopics
from penstock.rocketmq.broker.clients.heartbeats import Heartbeats
from penstock.rocketmq.broker.clients.orderly import OrderlyLocks
from penstock.rocketmq.broker.delays import schedule, timers
from penstock.rocketmq.broker.delays.publisher import Publisher
from penstock.rocketmq.broker.delays.recalls import Recalls
from penstock.rocketmq.broker.delays.schedule import Schedule
from penstock.rocketmq.broker.delays.timers import Timers
from penstock.rocketmq.broker.log_view import RocketView
from penstock.rocketmq.broker.periodic import Periodic
from penstock.rocketmq.broker.pop import ordered_pops, pop_orders, request_mode_table
from penstock.rocketmq.broker.pop.ordered_pops import OrderedPops
from penstock.rocketmq.broker.pop.pop_acks import PopAcks
from penstock.rocketmq.broker.pop.pop_notices import PopNotices
from penstock.rocketmq.broker.pop.popping import Popping
from penstock.rocketmq.broker.pop.pops import COMMIT_S, Pops
from penstock.rocketmq.broker.pop.request_mode_table import RequestModes
from penstock.rocketmq.broker.pop.request_modes import RequestModeCommands
from penstock.rocketmq.broker.pull.arrivals import Arrivals
from penstock.rocketmq.broker.pull.long_poll import HeldPulls
from penstock.rocketmq.broker.pull.offsets_api import OffsetAnswers
from penstock.rocketmq.broker.pull.pull_search import PullSearch
from penstock.rocketmq.broker.pull.pulling import Pulling
from penstock.rocketmq.broker.registration import Introduction, NameServers
from penstock.rocketmq.broker.send.flush_timeouts import FlushTimeouts
from penstock.rocketmq.broker.send.request_reply import Replies
from penstock.rocketmq.broker.send.retries import Retries
from penstock.rocketmq.broker.send.send_back import SendBacks
from penstock.rocketmq.broker.send.sending import Sends
from penstock.rocketmq.broker.slaves.acks import SlaveAcks
from penstock.rocketmq.broker.slaves.slave import Slave
from penstock.rocketmq.broker.staging import RocketStaging
from penstock.rocketmq.broker.state.clients import Clients
from penstock.rocketmq.broker.state.consumer_offsets import ConsumerOffsets
from penstock.rocketmq.broker.state.files import GROUPS, OFFSETS, TOPICS, StateFiles
from penstock.rocketmq.broker.state.group_table import GroupTable
from penstock.rocketmq.broker.state.levels import DelayLevels
from penstock.rocketmq.broker.state.queue_locks import QueueLocks
from penstock.rocketmq.broker.state.stats import Stats
from penstock.rocketmq.broker.state.topic_table import DataVersion, TopicTable
from penstock.rocketmq.broker.store import retention
from penstock.rocketmq.broker.store.key_index import KeyIndex
from penstock.rocketmq.broker.store.message_store import MessageStore
from penstock.rocketmq.broker.store.retention import TopicRetention
from penstock.rocketmq.broker.transactions.checks import TransactionChecks
from penstock.rocketmq.broker.transactions.ending import Transactions
from penstock.rocketmq.broker.transactions.requests import TransactionRequests
from penstock.rocketmq.protocol import ids
from penstock.rocketmq.protocol.messages import properties
from penstock.storage.durability import Durability
from penstock.storage.log import Log

if TYPE_CHECKING:
    from collections.abc import Sized

    from penstock.node.node import Node
    from penstock.replication.copied_node import CopiedBroker
    from penstock.rocketmq.remoting import Connection

logger = logging.getLogger("penstock.mqbroker")


class Service(Protocol):
    """A service that the broker starts and closes."""

    def start(self) -> None: ...

    async def close(self) -> None: ...


class Services:
    """All parts of one broker over a node, which has the topics of all dialects.

    They are whole once this is made, and none has been started yet.
    """

    def __init__(
        self,
        settings: BrokerSettings,
        node: Node,
        files: StateFiles,
        address: ids.Host,
        chance: Chance | None = None,
    ) -> None:
        """Load the tables.

        Raises ConfigError if one is damaged or a setting makes no sense, StorageError.
        """
        self.settings = settings
        self.node = node
        self.files = files
        self.address = address
        self.clock = node.clock
        self.chance = chance or SystemChance()
        self._make_tables()
        self._make_writers()
        self._make_readers()
        self._make_views()
        self._wire()
        self.answers = AnswerTable(self._answerers())

    @property
    def now_ms(self) -> int:
        return wall_ms(self.clock)

    # --- the parts, each over those before -----------------------------------------------------

    def _make_tables(self) -> None:
        settings, files = self.settings, self.files
        self.topics = TopicTable()
        self.groups = GroupTable()
        self.offsets = ConsumerOffsets()
        self.clients: Clients[Connection] = Clients()
        self.locks = QueueLocks()
        self.levels = DelayLevels(settings.message_delay_level)
        self.stats = Stats(settings.broker_cluster_name, self.clock)
        self.config_version = DataVersion()
        # The store asks how many queues topics have, and transactions where they were.
        files.add(TOPICS, self.topics.as_json, self.topics.load)
        files.add(GROUPS, self.groups.as_json, self.groups.load)
        files.add(OFFSETS, self.offsets.as_json, self.offsets.load)
        self.group_topics = GroupTopics(settings, self.topics, self.groups, self.clock)
        self.store = MessageStore(self.node, self.topics, self.address)
        # Needs the offsets' file, which is loaded above.
        self.store.keep_above(self.offsets)
        self.retention = TopicRetention(settings, self.topics, self.offsets, self.store, files)
        self.keys = KeyIndex(files.disk, self._log_of, self.clock)
        self.name_servers = NameServers(
            Introduction(settings, self.topics, self.address.port), self._set_order
        )
        self.acl: Acl | None = None
        if settings.acl_enable:
            self.acl = Acl(AclFiles(files.disk, settings.access_rules_directory, self.clock))

    def _make_writers(self) -> None:
        settings, node, topics, store = self.settings, self.node, self.topics, self.store
        self.schedule = Schedule(topics, self.levels, store, self.files, self.clock)
        self.timers = Timers(topics, self.levels, store, self.files, self.clock)
        self.publisher = Publisher(store, self.levels, self.timers)
        self.transactions = Transactions(topics, self.offsets, store, self.publisher, self.clock)
        self.checks = TransactionChecks(
            settings, self.clients, store, self.transactions, self.acl, self.clock
        )
        self.slave_acks: SlaveAcks | None = None
        if settings.is_sync_master:
            self.slave_acks = SlaveAcks(
                node.followers,
                store.topics,
                self.clock,
                settings.slave_timeout,
                settings.ha_slave_fallbehind_max,
            )
        self.flush_timeouts: FlushTimeouts | None = None
        if settings.durability_level is Durability.FSYNC:
            self.flush_timeouts = FlushTimeouts(self.clock, settings.sync_flush_timeout)
        self.retries = Retries(self.stats, self.group_topics)
        cluster = properties.join({properties.CLUSTER: settings.broker_cluster_name})
        self.sends = Sends(
            settings,
            topics,
            store,
            self.publisher,
            self.transactions,
            self.name_servers,
            self.stats,
            self.retries,
            self.slave_acks,
            self.flush_timeouts,
            cluster.rstrip(properties.VALUE_END),
            self.clock,
            self.chance,
        )

    def _make_readers(self) -> None:
        settings, topics, groups, offsets = self.settings, self.topics, self.groups, self.offsets
        self.search = PullSearch(settings, self.stats, self.store)
        self.held_pulls = HeldPulls(settings, topics, groups, self.clients, self.search)
        self.arrivals = Arrivals(self.store)
        ordered = OrderedPops(
            settings,
            topics,
            groups,
            offsets,
            self.stats,
            self.store,
            self.files,
            self.arrivals,
            self.clock,
        )
        self.pops = Pops(
            settings,
            topics,
            groups,
            offsets,
            self.store,
            self.node.registry,
            self.retention,
            self.retries,
            self.publisher,
            ordered,
            self.clock,
        )
        self.request_modes = RequestModes()
        self.orderly_locks = OrderlyLocks(self.locks, self.clock)
        self.heartbeats = Heartbeats(
            settings,
            topics,
            groups,
            self.clients,
            self.group_topics,
            self.name_servers,
            self.clock,
        )

    def _make_views(self) -> None:
        """The views of the broker for the program around."""
        topics, offsets, store = self.topics, self.offsets, self.store
        self.log_view = RocketView(topics, offsets, store, self.group_topics, self.retention)
        self.staging = RocketStaging(
            self.sends, self.settings, topics, store, self.name_servers, self.clock
        )
        self.group_figures = GroupFigures(topics, offsets, self.clients, self.stats, store)

    def metrics(self, connections: Sized) -> BrokerMetrics:
        """The metrics of a broker with these connections."""
        return BrokerMetrics(
            self.stats, self.schedule, self.timers, self.held_pulls, self.name_servers, connections
        )

    def _log_of(self, name: str) -> Log | None:
        topic = self.store.topics.get(name)
        return topic.log if topic is not None and isinstance(topic.log, Log) else None

    # --- what calls what -----------------------------------------------------------------------

    def _wire(self) -> None:
        store, ordered, files = self.store, self.pops.ordered, self.files
        is_indexed = self.settings.message_index_enable
        # At a start: each table from its file.
        files.add(retention.FILE, self.retention.as_json, self.retention.load)
        files.add(schedule.FILE, self.schedule.offsets, self.schedule.load)
        files.add(timers.FILE, self.timers.progress, self.timers.load)
        files.add(pop_orders.FILE, ordered.table.as_json, ordered.table.load)
        files.add(request_mode_table.FILE, self.request_modes.as_json, self.request_modes.load)
        if is_indexed:
            for name in store.topics:  # what was stored while nobody indexed
                self.keys.note(name)
        # When the table of topics has changed.
        # The file first: name servers must not know a topic that a crash would take from the
        # broker.
        self.topics.listeners += [lambda: files.save(TOPICS), self.name_servers.register]
        # When a client or a tool has set an offset.
        self.offsets.listeners += [ordered.moved]
        # When messages were appended.
        self.node.broker.observe(store)
        # Waiting pulls early: what comes after them may take a while, as the key index does.
        store.on_append += [self.stats.appended, self.held_pulls.arrived]
        store.on_append += [self.keys.appended] if is_indexed else []
        store.on_append += [ordered.appended]
        store.on_append_to[names.SCHEDULE_TOPIC] = self.schedule.appended
        store.on_append_to[names.TIMER_TOPIC] = self.timers.appended
        # When a topic is deleted.
        store.deleted += [
            self.stats.forget_topic,
            self.held_pulls.deleted,
            self.schedule.deleted,
            self.timers.deleted,
            self.transactions.deleted,
        ]
        store.deleted += [self.keys.deleted] if is_indexed else []
        store.deleted += [ordered.deleted, self.pops.deleted, self.request_modes.forget_topic]
        # When a slave has copied more.
        if self.slave_acks is not None:
            self.node.followers.changed.append(self.slave_acks.look)

    def follow(self, copied: CopiedBroker) -> Slave:
        """The follower of a slave's copy; topics that leave the copy are dropped here."""
        copied.copy.leaving.append(self.store.dropped)
        return Slave(self.topics, self.store, self.keys, self.files, self.name_servers, copied)

    def _set_order(self, topics: set[str]) -> None:
        """Name servers say which topics are ordered."""
        if self.topics.set_order(topics, self.now_ms):
            try:
                self.topics.changed()
            except StorageError as error:
                logger.error("failed to write down which topics are ordered - %s", error)

    def disconnected(self, connection: Connection) -> None:
        """A client's connection has ended."""
        self.held_pulls.forget(connection)
        self.pops.forget(connection)
        self.heartbeats.connection_ended(connection)

    # --- who answers, and who runs beside ------------------------------------------------------

    def _answerers(self) -> tuple[object, ...]:
        """The objects whose methods are marked with the codes that they answer."""
        settings, clock, address, store = self.settings, self.clock, self.address, self.store
        topics, groups, offsets, clients = self.topics, self.groups, self.offsets, self.clients
        group_topics, name_servers, files = self.group_topics, self.name_servers, self.files
        publisher, pops, stats = self.publisher, self.pops, self.stats
        popping = Popping(settings, topics, stats, group_topics, pops, clock)
        return (
            AclCommands(settings, self.acl, address),
            Cleaning(self.node.broker, topics, store),
            ClientRelays(settings, clients, store),
            ConfigCommands(settings, topics, files, self.retention, name_servers,
                           self.config_version, clock),
            ConnectionLists(clients, clock),
            ConsumeStats(settings, topics, groups, offsets, clients, stats, files, store, address,
                         clock),
            GroupCommands(groups, offsets, stats, files, group_topics, pops, clock),
            self.heartbeats,
            MessageQueries(settings, store, self.keys),
            OffsetAnswers(offsets, store),
            OffsetReset(settings, topics, groups, offsets, clients, files, store, pops),
            self.orderly_locks,
            PopAcks(topics, store, pops, clock),
            PopNotices(topics, self.arrivals, pops, popping, clock),
            popping,
            Pulling(settings, topics, groups, offsets, clients, store, group_topics, self.search,
                    self.held_pulls),
            QueueView(topics, clients, self.levels, store),
            Recalls(settings, topics, store, self.keys, self.timers, clock),
            Replies(settings, topics, clients, self.sends, publisher, name_servers, address, clock,
                    self.chance),
            RequestModeCommands(settings, topics, clients, files, group_topics, self.request_modes,
                                name_servers),
            RuntimeInfo(settings, stats, store, self.schedule, clock),
            self.schedule,
            SendBacks(settings, topics, stats, store, group_topics, self.retries, publisher,
                      name_servers),
            self.sends,
            TopicCommands(settings, topics, offsets, files, store, name_servers, clock),
            TopicStats(settings, topics, offsets, clients, store, address),
            TransactionRequests(store, self.transactions),
        )  # fmt: skip

    def running(self) -> list[Service]:
        """The services beside requests, to be started in this order and closed in the opposite
        one.
        """
        services = self._reading()
        if not self.settings.is_slave:
            services += self._writing()
        if self.acl is not None:
            services.append(self.acl)
        return services

    def _reading(self) -> list[Service]:
        return [
            self.keys,
            Periodic("scan of clients", heartbeats.SCAN_S, self.heartbeats.end_silent_clients),
            Periodic(
                "expiry of queue locks", orderly.EXPIRY_SCAN_S, self.orderly_locks.forget_expired
            ),
            Periodic("statistics", runtime_info.TICK_S, self.stats.tick),
        ]

    def _writing(self) -> list[Service]:
        """The services that change topics: a slave gets what they do from its master."""
        pops = self.pops
        return [
            self.schedule,
            self.timers,
            self.transactions,
            self.checks,
            Periodic("offsets of popping groups", COMMIT_S, pops.commit),
            Periodic(
                "old batches of ordered pops", ordered_pops.OLD_SCAN_S, pops.ordered.forget_old
            ),
            Periodic("groups that hold NSQ's topics", retention.HOLD_S, self.retention.hold),
        ]
