"""All parts of a broker, whole from the start: its tables and the services over them.

Answers work with it, as the processors of Java's broker do with their BrokerController.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from penstock.core.chance import Chance
from penstock.core.errors import StorageError
from penstock.rocketmq.broker.acl.check import Acl
from penstock.rocketmq.broker.acl.files import AclFiles
from penstock.rocketmq.broker.answering import AnswerTable
from penstock.rocketmq.broker.delays.publisher import Publisher
from penstock.rocketmq.broker.delays.schedule import Schedule
from penstock.rocketmq.broker.delays.timers import Timers
from penstock.rocketmq.broker.pop.pops import Pops
from penstock.rocketmq.broker.pop.request_mode_table import FILE as MODES_FILE
from penstock.rocketmq.broker.pop.request_mode_table import RequestModes
from penstock.rocketmq.broker.pull.arrivals import Arrivals
from penstock.rocketmq.broker.pull.long_poll import HeldPulls
from penstock.rocketmq.broker.registration import Introduction, NameServers
from penstock.rocketmq.broker.settings import BrokerSettings
from penstock.rocketmq.broker.slaves.acks import SlaveAcks
from penstock.rocketmq.broker.state.files import State
from penstock.rocketmq.broker.store.key_index import KeyIndex
from penstock.rocketmq.broker.store.retention import TopicRetention
from penstock.rocketmq.broker.tables import Tables
from penstock.rocketmq.broker.transactions.ending import Transactions
from penstock.rocketmq.protocol import ids
from penstock.storage.log import Log

if TYPE_CHECKING:
    from penstock.node.node import Node

logger = logging.getLogger("penstock.mqbroker")


class Controller(Tables):
    """The tables of a broker with every service over them; none has been started yet."""

    __slots__ = ("acl", "answerers", "answers", "arrivals", "held_pulls", "keys", "name_servers",
                 "pops", "publisher", "request_modes", "retention", "schedule", "slave_acks",
                 "timers", "transactions")  # fmt: skip

    def __init__(
        self,
        settings: BrokerSettings,
        node: Node,
        state: State,
        address: ids.Host,
        chance: Chance | None = None,
    ) -> None:
        """Load the tables. Raises ConfigError (damaged table, senseless setting), StorageError."""
        super().__init__(settings, node, state, address, chance)
        self.retention = TopicRetention(self)
        self.held_pulls = HeldPulls(self)
        self.schedule = Schedule(self)
        self.timers = Timers(self)
        self.publisher = Publisher(self.store, self.levels, self.timers)
        self.transactions = Transactions(self, self.publisher)
        self.slave_acks: SlaveAcks | None = None
        if settings.is_sync_master:
            self.slave_acks = SlaveAcks(node.followers, node.broker.topics, node.clock,
                                        settings.slave_timeout,
                                        settings.ha_slave_fallbehind_max)  # fmt: skip
        self.keys = self._key_index()
        self.arrivals = Arrivals(self.store)
        self.pops = Pops(self, self.publisher, self.retention, self.arrivals)
        self.request_modes = RequestModes()
        state.add(MODES_FILE, self.request_modes.as_json, self.request_modes.load)
        self.store.deleted.append(self.request_modes.forget_topic)
        self.acl: Acl | None = None
        if settings.acl_enable:
            self.acl = Acl(AclFiles(state.disk, settings.access_rules_directory, self.clock))
        self.name_servers = NameServers(
            Introduction(settings, self.topics, address.port), self._set_order
        )
        self.topics_listeners.append(self.name_servers.register)
        self.answerers: list[object] = []
        self.answers = AnswerTable(())

    def _key_index(self) -> KeyIndex:
        topics = self.node.broker.topics

        def log_of(name: str) -> Log | None:
            topic = topics.get(name)
            return topic.log if topic is not None and isinstance(topic.log, Log) else None

        keys = KeyIndex(self.state.disk, log_of, self.clock)
        if self.settings.message_index_enable:
            self.store.on_append.append(keys.appended)
            self.store.deleted.append(keys.deleted)
            for name in topics:  # what was stored while nobody indexed
                keys.note(name)
        return keys

    async def registered(self) -> None:
        """Wait, though not long, until name servers know the topics as they are now."""
        await self.name_servers.registered()

    async def registered_since(self, changes: int) -> None:
        """Wait so if topics have changed since that number of changes, else not at all.

        An answer that made a topic ends with this: its reader may ask for the route at once.
        """
        if self.topics.version.counter != changes:
            await self.registered()

    def _set_order(self, topics: set[str]) -> None:
        if self.topics.set_order(topics, self.now_ms):
            try:
                self.topics_changed()
            except StorageError as error:
                logger.error("failed to write down which topics are ordered - %s", error)
