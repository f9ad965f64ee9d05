"""RocketMQ's port over a node: the broker as a whole."""

from __future__ import annotations

import logging
import socket
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from penstock.broker.group_figures import ROCKETMQ_PREFIX, ConsumerGroup, ProducerGroup
from penstock.broker.topic import Topic
from penstock.core.errors import ConfigError, PenstockError, StorageError
from penstock.net import tcp
from penstock.net.address import join_host_port
from penstock.node import node as base
from penstock.node.registry import Observer
from penstock.rocketmq.broker import figures, names
from penstock.rocketmq.broker import state as files
from penstock.rocketmq.broker.groups import GroupConfig
from penstock.rocketmq.broker.log_view import RocketView
from penstock.rocketmq.broker.node import Node
from penstock.rocketmq.broker.processor import Processor
from penstock.rocketmq.broker.registration import Introduction, NameServers
from penstock.rocketmq.broker.services import add_services
from penstock.rocketmq.broker.settings import BrokerSettings
from penstock.rocketmq.broker.state import State
from penstock.rocketmq.protocol import ids
from penstock.rocketmq.protocol.codes import RequestCode
from penstock.rocketmq.protocol.registration import TopicConfig
from penstock.rocketmq.remoting import RemotingServer
from penstock.storage.disk import Disk, OsDisk

if TYPE_CHECKING:
    from collections.abc import Iterable

_log = logging.getLogger("penstock.mqbroker")

LARGE_ANSWERS: Final = (
    RequestCode.PULL_MESSAGE,
    RequestCode.LITE_PULL_MESSAGE,
    RequestCode.POP_MESSAGE,
    RequestCode.PEEK_MESSAGE,
    RequestCode.QUERY_MESSAGE,
    RequestCode.VIEW_MESSAGE_BY_ID,
)
"""Requests for messages: their answers may be megabytes."""
_VIP_DISTANCE: Final = 2
"""Clients with a VIP channel talk to the port that is so much lower."""


class RocketBroker(Observer):
    """A running RocketMQ broker; ``start`` makes one, ``close`` ends it and leaves the node beneath
    as it is.
    """

    def __init__(self, settings: BrokerSettings, beneath: base.Node, disk: Disk) -> None:
        """Reads its tables. Raises ConfigError, StorageError."""
        for warning in settings.check():
            _log.warning("%s", warning)
        self.settings = settings
        self._state = State(
            disk, f"{settings.store_path_root_dir}/config",
            lambda: settings.flush_consumer_offset_interval / 1000,
        )  # fmt: skip
        self.node = Node(settings, beneath, self._state, _address(settings))
        self.log_view = RocketView(self.node)
        self._add_own(self.node)
        add_services(self.node, disk)
        self._server = RemotingServer(
            Processor(self.node),
            settings.server_channel_max_idle_time_seconds,
            tls=settings.server_tls(),
            tls_only=settings.tls_mode == "enforcing",
            gatherer=beneath.commits,
            turns=beneath.turns,
            answer_turns=beneath.answer_turns,
            large_answers=LARGE_ANSWERS,
        )
        self._listeners: list[tcp.Listener] = []

    @classmethod
    async def start(
        cls, settings: BrokerSettings, beneath: base.Node, disk: Disk | None = None
    ) -> RocketBroker:
        """Open the ports. Raises PenstockError with one line for the user, nothing left open."""
        broker = cls(settings, beneath, disk or OsDisk())
        try:
            await broker._open()
        except PenstockError:
            await broker.close()
            raise
        beneath.registry.observe(broker)
        beneath.dialects.append(broker)
        beneath.log_groups.leave_out(ROCKETMQ_PREFIX)
        return broker

    async def _open(self) -> None:
        settings, node = self.settings, self.node
        try:
            self._listeners.append(await self._listen(settings.listen_port, "RocketMQ"))
        except tcp.ListenError as error:
            raise PenstockError(f"the broker cannot start: {error}; listenPort and bindAddress, "
                                "or nsqd's --rocketmq-address, set another") from error  # fmt: skip
        if settings.listen_port > _VIP_DISTANCE:
            try:
                vip_port = settings.listen_port - _VIP_DISTANCE
                self._listeners.append(await self._listen(vip_port, "RocketMQ VIP"))
            except tcp.ListenError as error:
                _log.warning("clients that want a VIP channel will not get one: %s", error)
        # The port may have been left to the system.
        node.address = node.store.address = node.address._replace(port=self.port)
        introduction = Introduction(settings, node.topics, self.port)
        node.name_servers = NameServers(introduction, self._set_order)
        node.topics_listeners.append(node.name_servers.register)
        self._state.start()
        for service in node.services:
            service.start()
        node.name_servers.start()

    async def _listen(self, port: int, what: str) -> tcp.Listener:
        address = join_host_port(self.settings.bind_address, port)
        return await tcp.listen(self._server, address, what, _log)

    @property
    def port(self) -> int:
        """The port that clients are told."""
        return self._listeners[0].port

    @property
    def address(self) -> str:
        """Where clients find the broker."""
        return join_host_port(self.settings.broker_ip1, self.port)

    def _add_own(self, node: Node) -> None:
        """The topics and groups that every broker has."""
        settings = self.settings
        node.topics.add_system_topics(
            settings.broker_cluster_name, settings.broker_name, node.now_ms,
            auto_create=settings.auto_create_topic_enable, trace=settings.trace_topic_enable,
            template_queues=settings.default_topic_queue_nums,
        )  # fmt: skip
        for group in names.PREDEFINED_GROUPS:
            if group not in node.groups.configs:
                node.groups.put(GroupConfig(group), node.now_ms)
        self._configure(node.base.broker.topics)
        node.retention.adopt_all()
        node.state.save(files.TOPICS)
        node.state.save(files.GROUPS)

    def _configure(self, topics: Iterable[str]) -> bool:
        """Let RocketMQ's clients find topics of others: one queue each; whether any was new.

        Other dialects allow names that RocketMQ does not; those stay theirs. Where messages wait is
        never theirs, whoever has deleted it before.
        """
        node = self.node
        others = [topic for topic in topics if node.topics.get(topic) is None]
        theirs = [topic for topic in others if topic not in names.SYSTEM_TOPICS]
        if theirs:
            node.retention.made_by_nsq(theirs)
        new = [topic for topic in others if names.topic_problem(topic) is None]
        for name in new:
            node.topics.put(TopicConfig(name, 1, 1), node.now_ms)
        return bool(new)

    def topic_created(self, topic: Topic) -> None:
        """The program has a new topic, made by whomever. Raises StorageError."""
        self.node.store.topic(topic.name)
        if self._configure((topic.name,)):
            self.node.topics_changed()
        self.node.retention.adopt(topic)

    def topic_deleted(self, name: str) -> None:
        """A topic is gone, deleted by whomever. Raises StorageError."""
        self.node.store.forget(name)
        self.node.retention.forget(name)
        self.node.offsets.forget_topic(name)
        self.node.offsets_changed()
        if self.node.topics.delete(name, self.node.now_ms) is not None:
            self.node.topics_changed()

    def consumer_groups(self, topic: str) -> list[ConsumerGroup]:
        """The groups that consume a topic."""
        return figures.consumer_groups(self.node, topic)

    def producer_groups(self) -> list[ProducerGroup]:
        """All groups of producers."""
        return figures.producer_groups(self.node)

    async def registered(self) -> None:
        """Wait, though not long, until name servers know the topics as they are now."""
        await self.node.registered()

    def _set_order(self, topics: set[str]) -> None:
        if self.node.topics.set_order(topics, self.node.now_ms):
            try:
                self.node.topics_changed()
            except StorageError as error:
                _log.error("failed to write down which topics are ordered - %s", error)

    async def close(self) -> None:
        """Answer what was taken, take leave of name servers and clients, and write all down."""
        await self.node.base.commits.settle()
        if self.node.name_servers is not None:
            await self.node.name_servers.close()
        for listener in self._listeners:
            await listener.close()
        self._server.close_connections()
        for service in reversed(self.node.services):
            await service.close()
        await self._state.close()


def _address(settings: BrokerSettings) -> ids.Host:
    """The address that is part of message ids. Raises ConfigError."""
    ip, port = settings.broker_ip1, settings.listen_port
    with suppress(ValueError):
        return ids.Host.parse(join_host_port(ip, port))
    try:
        found = socket.getaddrinfo(ip, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise ConfigError(f"brokerIP1={ip} is no address: {error.strerror}") from error
    return ids.Host.parse(join_host_port(str(found[0][4][0]), port))
