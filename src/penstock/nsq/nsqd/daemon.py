"""NSQ's ports over a node: one for clients, one for HTTP, and what speaks of them to others."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable

from penstock import lane
from penstock.broker.channels.channel import Channel
from penstock.broker.topic import Topic
from penstock.core.errors import PenstockError
from penstock.core.names import is_valid_name
from penstock.core.settings.tls_kinds import TlsRequired
from penstock.core.settings.version import NSQ_VERSION, version_line
from penstock.net.http.server.service import HttpServer
from penstock.net.tasks import spawn
from penstock.net.tls.tls_server import over_tls
from penstock.node.node import Node
from penstock.node.ports import Ports, server_tls
from penstock.node.registry import Observer
from penstock.nsq.nsqd import lookup
from penstock.nsq.nsqd.http.https import TlsRequiredRouter
from penstock.nsq.nsqd.http.nsqd_api import NsqdApi
from penstock.nsq.nsqd.http.staged_parts import StagedParts
from penstock.nsq.nsqd.nsqd_options import NsqdOptions
from penstock.nsq.nsqd.stats.pipelines import GroupsHere, Pipelines
from penstock.nsq.nsqd.stats.prometheus import NsqdMetrics
from penstock.nsq.nsqd.stats.stat_sources import StatSources
from penstock.nsq.nsqd.stats.statsd_push import StatsdPush
from penstock.nsq.nsqd.tcp.auth import GuardedSession
from penstock.nsq.nsqd.tcp.auth_servers import AuthServers
from penstock.nsq.nsqd.tcp.connection import Connection
from penstock.nsq.nsqd.tcp.context import Context
from penstock.nsq.nsqd.tcp.session import Session
from penstock.replication.port import ReplicationPort
from penstock.replication.primary import Primary

logger = logging.getLogger("penstock.nsqd")


def log_versions(options: NsqdOptions) -> None:
    """The first lines of an nsqd's log."""
    logger.info(version_line("nsqd"))
    logger.info("ID: %d", options.node_id)


def _keep_on() -> None:
    """Nobody opens the data path in another role."""


class Nsqd(Observer):
    """A running nsqd; ``open`` makes one, ``close`` ends it and leaves the node as it is."""

    def __init__(
        self,
        node: Node,
        options: NsqdOptions,
        turn: Callable[[], object] = _keep_on,
        ports: Ports | None = None,
    ) -> None:
        """``turn`` is called when another node is primary: this one is to end then.

        Raises ConfigError, StorageError.
        """
        self.node = node
        self.options = options
        publisher = lane.publisher(node.commits, node.broker.topics)
        self.context = Context.of(node, options, server_tls(options), publisher)
        self.auth_servers = AuthServers.of(options)
        self.sessions: dict[Session, None] = {}
        self.staged_parts = StagedParts(node, options)
        self.pipelines = Pipelines(node.clock, GroupsHere(node.broker.topics, node.log_groups))
        self.ports = ports or Ports(options)
        self._hostname = socket.gethostname()
        self.lookup = lookup.Lookup(
            self._identity,
            self._registrations,
            options.max_body_size,
            options.http_client_connect_timeout,
            options.http_client_request_timeout,
        )
        self.primary = Primary.of(node, options, turn)
        self._replication: ReplicationPort | None = None
        sources = StatSources(
            node,
            options,
            self.sessions,
            self.staged_parts,
            self.pipelines,
            self.auth_servers,
            self.primary.figures,
        )
        self._metrics = NsqdMetrics(sources, self.lookup)
        self.statsd = StatsdPush(sources, self.ports)
        router = NsqdApi(sources, self.lookup, self.ports, self._hostname, self.primary).router()
        self._http = HttpServer(
            router, log=logger, clock=node.clock, memory=node.memory, publisher=publisher
        )
        self._plain_http = self._http
        if options.tls_needed is TlsRequired.YES:
            refusing = TlsRequiredRouter(lambda: self.ports.https)
            self._plain_http = HttpServer(
                refusing, log=logger, clock=node.clock, memory=node.memory
            )

    @classmethod
    async def open(
        cls,
        node: Node,
        options: NsqdOptions,
        turn: Callable[[], object] = _keep_on,
        ports: Ports | None = None,
    ) -> Nsqd:
        """Open the ports that have an address. Raises ConfigError, StorageError, ListenError;
        nothing of it is left open then.
        """
        nsqd = cls(node, options, turn, ports)
        try:
            await nsqd._open()
        except PenstockError:
            await nsqd.close()
            raise
        return nsqd

    async def _open(self) -> None:
        for flag in self.options.without_effect():
            logger.warning("%s has no effect yet", flag)
        # Before the ports: the topics of the first clients are registered, too.
        self.node.registry.observe(self)
        self.node.vitals.checks.append(self.lookup.missing)
        self.node.vitals.sources.append(self._metrics.source)
        self.node.housekeeping.ticks.append(self.staged_parts.tick)
        tls = self.context.tls
        https = over_tls(tls, self._http, logger) if tls is not None else None
        await self.ports.open(self._connection, self._plain_http, https)
        if self._plain_http is self._http:  # else it is for TLS alone
            self.node.stand_in.listeners += self.ports.plain
        # The ports first: nsqlookupd is told their numbers.
        self.lookup.set_addresses(self.options.lookupd_tcp_addresses)
        self.statsd.start()
        self._replication = await ReplicationPort.open(
            self.primary, self.node, self.options, self.ports
        )

    def _connection(self) -> Connection:
        return Connection(self.context, self._session)

    def _session(self, connection: Connection) -> Session:
        if self.auth_servers is None:
            return Session(connection, self.sessions)
        return GuardedSession(connection, self.sessions, self.auth_servers)

    # --- what the registry tells ---------------------------------------------------------------

    def topic_created(self, topic: Topic) -> None:
        """Register it at nsqlookupd, and ask there which channels it has at other nodes."""
        self.lookup.register(topic.name)
        if self.lookup.peers and is_valid_name(topic.name):
            # Go makes the publishing client wait for this (NSQ spec 3.1); here only delivery waits.
            topic.gated = True
            spawn(self._create_known_channels(topic), f"channels of {topic.name}")

    async def _create_known_channels(self, topic: Topic) -> None:
        """Before the first message goes anywhere, make the channels that other nodes have."""
        try:
            names = await self.lookup.channels(topic.name)
            for name in () if topic.exiting else names:
                self.node.registry.channel(topic, name)
        finally:
            # In any case: a topic that stays gated would deliver nothing.
            topic.gated = False
            if not topic.exiting:
                self.node.registry.distribute(topic)

    def topic_deleted(self, name: str) -> None:
        """Forget it at nsqlookupd, with what was staged for it."""
        self.staged_parts.topic_deleted(name)
        self.lookup.unregister(name)

    def channel_created(self, topic: Topic, channel: Channel) -> None:
        """Register it at nsqlookupd."""
        self.lookup.register(topic.name, channel.name)

    def channel_deleted(self, topic: Topic, channel: Channel) -> None:
        """Close its consumers, and forget it at nsqlookupd."""
        for session in list(self.sessions):
            if session.channel is channel:
                session.connection.close()
        self.lookup.unregister(topic.name, channel.name)

    def channel_paused(self, channel: Channel) -> None:
        """Send its consumers what is buffered for them, as nothing more follows."""
        for session in self.sessions:
            if session.channel is channel:
                session.connection.outbox.flush()

    # --- what nsqlookupd is told ---------------------------------------------------------------

    def _identity(self) -> bytes:
        return lookup.identity(
            self.options,
            self._hostname,
            # Those that clients are to use, which ``--broadcast-tcp-port`` may say (NSQ spec 3.10).
            self.ports.broadcast_tcp,
            self.ports.broadcast_http,
            NSQ_VERSION,
        )

    def _registrations(self) -> list[tuple[str, str | None]]:
        pairs: list[tuple[str, str | None]] = []
        for topic in self.node.broker.topics.values():
            pairs += [(topic.name, channel) for channel in topic.channels or (None,)]
        return pairs

    # --- the end -------------------------------------------------------------------------------

    async def close(self) -> None:
        """Take no more, answer what was taken, and end all connections."""
        await self.ports.close()
        if self._replication is not None:
            await self._replication.close()
        await self.statsd.close()
        # While the connections are open: what was published is owed an answer.
        await self.node.commits.answer()
        for session in list(self.sessions):
            session.connection.close()
        # A set: unless plain HTTP is refused, both are the same.
        for server in {self._http, self._plain_http}:
            server.close_connections()
        await self.lookup.close()
