"""RocketMQ's port over a node: the broker as a whole."""

from __future__ import annotations

import logging
import socket
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Final

from penstock.broker.group_figures import ROCKETMQ_PREFIX, ConsumerGroup, ProducerGroup
from penstock.broker.topic import Topic
from penstock.core.errors import ConfigError, PenstockError, StorageError
from penstock.net import tcp
from penstock.net.address import join_host_port, preferred
from penstock.node.node import Node
from penstock.node.registry import Observer
from penstock.rocketmq.broker import names
from penstock.rocketmq.broker.broker_settings import BrokerSettings
from penstock.rocketmq.broker.processor import Processor
from penstock.rocketmq.broker.services import Services
from penstock.rocketmq.broker.state import files
from penstock.rocketmq.broker.state.files import StateFiles
from penstock.rocketmq.broker.state.group_table import GroupConfig
from penstock.rocketmq.protocol import ids
from penstock.rocketmq.protocol.codes import RequestCode
from penstock.rocketmq.protocol.registration import VIP_DISTANCE, TopicConfig
from penstock.rocketmq.remoting import RemotingServer
from penstock.storage.batch import Dialect
from penstock.storage.files.disk import Disk

if TYPE_CHECKING:
    from collections.abc import Iterable

logger = logging.getLogger("penstock.mqbroker")

LARGE_ANSWERS: Final = (
    RequestCode.PULL_MESSAGE,
    RequestCode.LITE_PULL_MESSAGE,
    RequestCode.POP_MESSAGE,
    RequestCode.PEEK_MESSAGE,
    RequestCode.QUERY_MESSAGE,
    RequestCode.VIEW_MESSAGE_BY_ID,
)
"""Requests for messages: their answers may be megabytes."""


class RocketBroker(Observer):
    """A running RocketMQ broker; ``start`` makes one, ``close`` ends it and leaves the node beneath
    as it is.
    """

    def __init__(
        self, settings: BrokerSettings, node: Node, disk: Disk, port: int, ha_port: int = 0
    ) -> None:
        """Read the broker's tables. Raises ConfigError, StorageError."""
        self.settings = settings
        self.port = port
        """The port that clients are told."""
        self._files = StateFiles(
            disk,
            f"{settings.store_path_root_dir}/config",
            lambda: settings.flush_consumer_offset_interval / 1000,
            own=(files.OFFSETS,) if settings.is_slave else None,
        )
        self.services = made = Services(settings, node, self._files, _address(settings, port))
        made.name_servers.introduction.ha_port = ha_port
        self.log_view = made.log_view
        self.staging = made.staging
        if not settings.is_slave:
            self._add_own()
        self._running = made.running()
        self._server = RemotingServer(
            Processor(made.answers, made.acl, made.sends, node.commits, made.disconnected),
            settings.server_channel_max_idle_time_seconds,
            tls=settings.server_tls(),
            tls_only=settings.tls_mode == "enforcing",
            gatherer=node.commits,
            turns=node.turns,
            answer_turns=node.answer_turns,
            large_answers=LARGE_ANSWERS,
        )
        self._listeners: list[tcp.Listener] = []
        self._metrics = made.metrics(self._server.connections)

    @classmethod
    async def start(
        cls, settings: BrokerSettings, node: Node, disk: Disk | None = None, *, ha_port: int = 0
    ) -> RocketBroker:
        """Open the ports; slaves are told ``ha_port`` to copy from. Raises PenstockError with one
        line for the user, nothing left open.
        """
        for warning in settings.check():
            logger.warning("%s", warning)
        try:
            # Before all else: the port may be left to the system, and is a part of message ids.
            sock = tcp.bind(join_host_port(settings.bind_address, settings.listen_port))
        except tcp.ListenError as error:
            raise PenstockError(
                f"the broker cannot start: {error}; listenPort and bindAddress set another"
            ) from error
        try:
            disk = disk or node.broker.store.disk
            broker = cls(settings, node, disk, sock.getsockname()[1], ha_port)
        except PenstockError:
            sock.close()
            raise
        try:
            await broker._open(sock)
        except PenstockError:
            await broker.close()
            raise
        # Only now: from here on the node's events come to the broker, and it has to be whole.
        node.registry.observe(broker)
        node.dialects.append(broker)
        node.vitals.checks.append(broker.services.name_servers.missing)
        node.vitals.sources.append(broker._metrics.source)
        node.log_groups.leave_out(ROCKETMQ_PREFIX)
        return broker

    async def _open(self, sock: socket.socket) -> None:
        settings = self.settings
        self._listeners.append(await tcp.serve(sock, self._server, "RocketMQ", logger))
        # RocketMQ spec 6, ports: clients up to 4.4 send to port - 2 by default.
        if settings.listen_port > VIP_DISTANCE:
            vip = join_host_port(settings.bind_address, settings.listen_port - VIP_DISTANCE)
            try:
                self._listeners.append(await tcp.listen(self._server, vip, "RocketMQ VIP", logger))
            except tcp.ListenError as error:
                logger.warning("clients that want a VIP channel will not get one: %s", error)
        self._files.start()
        for service in self._running:
            service.start()
        self.services.name_servers.start()

    @property
    def connection_count(self) -> int:
        """The clients that are connected now."""
        return len(self._server.connections)

    @property
    def address(self) -> str:
        """The address at which clients find the broker."""
        return join_host_port(self.settings.broker_ip1, self.port)

    def _add_own(self) -> None:
        """The topics and groups that every broker has."""
        settings, services = self.settings, self.services
        services.topics.add_system_topics(
            settings.broker_cluster_name,
            settings.broker_name,
            services.now_ms,
            auto_create=settings.auto_create_topic_enable,
            trace=settings.trace_topic_enable,
            template_queues=settings.default_topic_queue_nums,
        )
        for group in names.PREDEFINED_GROUPS:
            if group not in services.groups.configs:
                services.groups.put(GroupConfig(group), services.now_ms)
        self._configure(services.node.broker.topics.values())
        services.retention.adopt_all()
        services.files.save(files.TOPICS)
        services.files.save(files.GROUPS)

    def _configure(self, topics: Iterable[Topic]) -> bool:
        """Let RocketMQ's clients find topics that no table has; whether any was new.

        Those of others have one queue, and theirs may have names that RocketMQ does not allow. One
        can be RocketMQ's: this was a slave, promoted before the table came to it, or a kill has
        ended its deletion.
        """
        services = self.services
        unknown = [topic for topic in topics if services.topics.get(topic.name) is None]
        queues = {topic.name: max(topic.queues.firsts or (0,)) + 1 for topic in unknown}
        theirs = [
            topic.name for topic in unknown if queues[topic.name] == 1 and not _is_rocketmqs(topic)
        ]
        if theirs:
            services.retention.made_by_nsq(theirs)
        new = {name: count for name, count in queues.items() if names.topic_problem(name) is None}
        for name, count in new.items():
            services.topics.put(TopicConfig(name, count, count), services.now_ms)
        return bool(new)

    def topic_created(self, topic: Topic) -> None:
        """The program has a new topic, made by whomever. Raises StorageError."""
        self.services.store.topic(topic.name)
        if self._configure((topic,)):
            self.services.topics.changed()
        self.services.retention.adopt(topic)

    def topic_deleted(self, name: str) -> None:
        """A topic is gone, deleted by whomever. Raises StorageError; then some file still has it,
        until it is written again.
        """
        services = self.services
        with ExitStack() as steps:  # the last comes first, and each whatever became of the others
            steps.callback(self._forget_config, name)
            steps.callback(services.files.save, files.OFFSETS)
            steps.callback(services.offsets.forget_topic, name)
            steps.callback(services.retention.forget, name)
            steps.callback(services.store.forget, name)

    def _forget_config(self, name: str) -> None:
        if self.services.topics.delete(name, self.services.now_ms) is not None:
            self.services.topics.changed()

    def consumer_groups(self, topic: str) -> list[ConsumerGroup]:
        """The groups that consume a topic."""
        return self.services.group_figures.consumer_groups(topic)

    def producer_groups(self) -> list[ProducerGroup]:
        """All groups of producers."""
        return self.services.group_figures.producer_groups()

    async def registered(self) -> None:
        """Wait, though not long, until name servers know the topics as they are now."""
        await self.services.name_servers.registered()

    async def close(self) -> None:
        """Answer what was taken, take leave of name servers and clients, and write all down."""
        # The order matters: answers leave before connections end, and name servers send no new
        # clients while the rest is closed.
        await self.services.node.commits.answer()
        await self.services.name_servers.close()
        for listener in self._listeners:
            await listener.close()
        self._server.close_connections()
        for service in reversed(self._running):
            await service.close()
        await self._files.close()


def _is_rocketmqs(topic: Topic) -> bool:
    """True of a topic that only RocketMQ's side can have made, or has sent to last. Where messages
    wait is its own, whoever has deleted it before.
    """
    if topic.name in names.SYSTEM_TOPICS or names.is_inner(topic.name):
        return True
    log = topic.log
    if log.next_offset <= log.start_offset:
        return False
    with suppress(StorageError):  # whoever reads the message will meet it
        newest = log.batch_at(log.next_offset - 1)
        return newest is not None and newest.dialect == Dialect.ROCKETMQ
    return False


def _address(settings: BrokerSettings, port: int) -> ids.Host:
    """The address that is part of message ids. Raises ConfigError."""
    ip = settings.broker_ip1
    # RocketMQ spec 3.4: ids of messages have the address in them, as bytes.
    with suppress(ValueError):
        return ids.Host.parse(join_host_port(ip, port))
    try:
        found = socket.getaddrinfo(ip, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "no such host"
        raise ConfigError(f"brokerIP1={ip} is not an address: {why}") from error
    return ids.Host.parse(join_host_port(str(preferred(found)[1][0]), port))
