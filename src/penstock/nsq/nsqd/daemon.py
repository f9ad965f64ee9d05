"""nsqd as a whole: the broker behind a TCP port for clients and an HTTP port for everyone."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Sequence

from penstock import __version__
from penstock.broker.bounds import Bounds
from penstock.broker.broker import Broker, BrokerOptions
from penstock.broker.channel import Channel, ChannelOptions
from penstock.broker.topic import Topic
from penstock.core.chance import SystemChance
from penstock.core.clock import SYSTEM_CLOCK, Clock
from penstock.core.errors import ConfigError, PenstockError, StorageError, TooManyFilesError
from penstock.core.names import is_valid_name
from penstock.core.tls_kinds import TlsRequired
from penstock.net import tcp
from penstock.net.budget import UNREAD_S, Memory, Turns
from penstock.net.gate import file_limit
from penstock.net.gc_pauses import GcPauses
from penstock.net.http import HttpServer
from penstock.net.loop import StopRequested, interruptible
from penstock.net.tasks import spawn
from penstock.net.tls_server import over_tls
from penstock.node.commits import Commits
from penstock.nsq.nsqd import lookup, metadata
from penstock.nsq.nsqd.auth import GuardedSession
from penstock.nsq.nsqd.auth_servers import AuthServers
from penstock.nsq.nsqd.companion import Companion
from penstock.nsq.nsqd.dead_letters import DeadLetters
from penstock.nsq.nsqd.housekeeping import Housekeeping
from penstock.nsq.nsqd.http import NsqdApi
from penstock.nsq.nsqd.https import TlsRequiredRouter, server_tls
from penstock.nsq.nsqd.log_groups import LogGroups
from penstock.nsq.nsqd.options import NsqdOptions
from penstock.nsq.nsqd.session import Session
from penstock.nsq.nsqd.staged_parts import StagedParts
from penstock.nsq.nsqd.statsd_push import StatsdPush
from penstock.nsq.protocol.identify import Features
from penstock.nsq.takeover.importer import import_queues
from penstock.nsq.version import NSQ_VERSION, version_line
from penstock.storage.disk import OsDisk
from penstock.storage.log import LogOptions
from penstock.storage.retention import Retention
from penstock.storage.store import Store

logger = logging.getLogger("penstock.nsqd")

FILES_OF_A_TOPIC = 2
"""Its segment and its journal. New topics may take half of the file handles, so that none is left
without connections, and no connection without a topic to publish to.
"""


class Nsqd:
    """A running nsqd; ``start`` makes one, ``close`` ends it."""

    def __init__(
        self,
        options: NsqdOptions,
        clock: Clock = SYSTEM_CLOCK,
        companions: Sequence[Companion] = (),
    ) -> None:
        """Opens the data path. Raises ConfigError, StorageError."""
        options.check()
        self.options = options
        self.companions = companions
        self.clock = clock
        self.started_ns = clock.wall_ns()
        self.gc_pauses = GcPauses(clock)
        self.hostname = socket.gethostname()
        self.limits = options.limits()
        self.tls = server_tls(options)
        self.tls_required = options.tls_needed is not TlsRequired.NO
        self.features = Features(
            NSQ_VERSION,
            tls_v1=self.tls is not None,
            deflate=options.deflate,
            max_deflate_level=options.max_deflate_level,
            snappy=options.snappy,
            auth_required=bool(options.auth_http_addresses),
            topology_region=options.topology_region,
            topology_zone=options.topology_zone,
        )
        self.auth_servers = AuthServers.of(options)
        self.sessions: dict[Session, None] = {}
        self.broker = _open_broker(options, clock)
        self._topics_max = file_limit() // (2 * FILES_OF_A_TOPIC)
        self.commits = Commits(clock, options.durability, options.sync_every)
        self.dead_letters = DeadLetters(self)
        self.log_groups = LogGroups(clock, companions, options.group_retention)
        self.staged_parts = _staged_parts(self)
        self.metadata = metadata.MetadataFile(self.broker)
        self.housekeeping = Housekeeping(self)
        self.lookup = lookup.Lookup(self._identity, self._registrations, options.max_body_size,
                                    options.http_client_request_timeout)  # fmt: skip
        self.statsd = StatsdPush(self)
        self.memory = Memory.of(options)
        self.turns = Turns(self.memory.requests)
        self.answer_turns = Turns(self.memory.answers, UNREAD_S)
        router = NsqdApi(self).router()
        self._http = HttpServer(router, log=logger, clock=clock, memory=self.memory)
        self._plain_http = self._http
        if options.tls_needed is TlsRequired.YES:
            refusing = TlsRequiredRouter(lambda: self.https_port)
            self._plain_http = HttpServer(refusing, log=logger, clock=clock, memory=self.memory)
        self._tcp_listener: tcp.Listener | None = None
        self._http_listener: tcp.Listener | None = None
        self._https_listener: tcp.Listener | None = None

    @classmethod
    async def start(
        cls,
        options: NsqdOptions,
        clock: Clock = SYSTEM_CLOCK,
        companions: Sequence[Companion] = (),
    ) -> Nsqd:
        """Open everything. Raises PenstockError with one line for the user, nothing left open."""
        logger.info(version_line("nsqd"))
        logger.info("Penstock %s", __version__)
        logger.info("ID: %d", options.node_id)
        try:
            nsqd = cls(options, clock, companions)
        except (StorageError, ConfigError) as error:
            raise PenstockError(f"failed to instantiate nsqd - {error}") from error
        try:
            await nsqd._open()
        except PenstockError:
            await nsqd.close(save=False)
            raise
        return nsqd

    async def _open(self) -> None:
        for flag in self.options.without_effect():
            logger.warning("%s has no effect yet", flag)
        try:
            metadata.load(self.broker)
        except StorageError as error:
            raise PenstockError(f"failed to load metadata - {error}") from error
        try:
            await self.metadata.write()
        except StorageError as error:
            raise PenstockError(f"failed to persist metadata - {error}") from error
        options = self.options
        try:
            if options.tcp_address:
                self._tcp_listener = await tcp.listen(
                    self._session, options.tcp_address, "TCP", logger
                )
            # Before plain HTTP, which may have to name its port.
            if self.tls is not None and options.https_address:
                self._https_listener = await tcp.listen(
                    over_tls(self.tls, self._http, logger), options.https_address, "HTTPS", logger
                )
            if options.http_address:
                self._http_listener = await tcp.listen(
                    self._plain_http, options.http_address, "HTTP", logger
                )
        except tcp.ListenError as error:
            raise PenstockError(f"failed to instantiate nsqd - {error}") from error
        self.lookup.set_addresses(options.lookupd_tcp_addresses)
        self.housekeeping.start()
        self.gc_pauses.start()
        self.statsd.start()
        for companion in self.companions:
            await companion.start(self)

    def _session(self) -> Session:
        if self.auth_servers is None:
            return Session(self)
        return GuardedSession(self, self.auth_servers)

    # --- topics and channels -------------------------------------------------------------------

    def topic(self, name: str) -> Topic:
        """The topic of that name, made when it is not there. Raises StorageError."""
        topic = self.broker.topics.get(name)
        if topic is None:
            if len(self.broker.topics) >= self._topics_max:
                raise TooManyFilesError(f"{self._topics_max} topics are the most that the limit on "
                                        "open files leaves room for")  # fmt: skip
            topic = self.broker.topic(name)
            logger.info("TOPIC(%s): created", name)
            for companion in self.companions:
                companion.topic_created(topic)
            self.lookup.register(name)
            self.metadata.changed()
            if self.lookup.peers and is_valid_name(name):
                topic.gated = True
                spawn(self._create_known_channels(topic), f"channels of {name}")
        return topic

    async def _create_known_channels(self, topic: Topic) -> None:
        """Before the first message goes anywhere, make the channels that other nodes have."""
        try:
            names = await self.lookup.channels(topic.name)
            for name in () if topic.exiting else names:
                self.channel(topic, name)
        finally:
            topic.gated = False
            if not topic.exiting:
                self.distribute(topic)

    def channel(self, topic: Topic, name: str) -> Channel:
        """The channel of that name, made when it is not there."""
        channel = topic.channels.get(name)
        if channel is None:
            channel = topic.channel(name)
            logger.info("TOPIC(%s): new channel(%s)", topic.name, name)
            self.lookup.register(topic.name, name)
            self.metadata.changed()
            self.distribute(topic)
        return channel

    def distribute(self, topic: Topic) -> None:
        """Give the channels what they may have now, and the consumers of it."""
        topic.distribute()
        now = self.clock.monotonic_ns()
        for channel in topic.channels.values():
            channel.dispatch(now)

    async def delete_topic(self, topic: Topic) -> None:
        """Delete a topic with all its channels, durably. Raises StorageError."""
        topic.exiting = True
        await self.commits.settle(topic)
        if self.broker.topics.get(topic.name) is topic:  # or somebody else has deleted it meanwhile
            self._remove(topic)
        if not topic.ephemeral:
            await self.metadata.write()

    def _remove(self, topic: Topic) -> None:
        for name in list(topic.channels):
            self._close_consumers(topic.channels[name])
            self.lookup.unregister(topic.name, name)
        self.commits.forget(topic)
        self.broker.delete_topic(topic.name)
        self.staged_parts.topic_deleted(topic.name)
        for companion in self.companions:
            companion.topic_deleted(topic.name)
        self.lookup.unregister(topic.name)
        logger.info("TOPIC(%s): deleted", topic.name)

    def delete_channel(self, topic: Topic, channel: Channel) -> None:
        """Delete a channel; an ephemeral topic goes with its last one."""
        topic.delete_channel(channel.name)
        self._close_consumers(channel)
        self.lookup.unregister(topic.name, channel.name)
        self.metadata.changed()
        logger.info("TOPIC(%s): deleting channel %s", topic.name, channel.name)
        if topic.ephemeral and not topic.channels:
            spawn(self.delete_topic(topic), f"delete {topic.name}")

    def consumer_left(self, topic: Topic, channel: Channel) -> None:
        """A subscriber is gone: an ephemeral channel goes with its last one."""
        last = channel.ephemeral and not channel.consumers and not topic.exiting
        if last and topic.channels.get(channel.name) is channel:
            self.delete_channel(topic, channel)

    def _close_consumers(self, channel: Channel) -> None:
        for session in list(self.sessions):
            if session.channel is channel:
                session.close()

    # --- what others ask -----------------------------------------------------------------------

    @property
    def tcp_port(self) -> int:
        return self._tcp_listener.port if self._tcp_listener else 0

    @property
    def http_port(self) -> int:
        return self._http_listener.port if self._http_listener else 0

    @property
    def https_port(self) -> int:
        return self._https_listener.port if self._https_listener else 0

    @property
    def broadcast_http_port(self) -> int:
        return self.options.broadcast_http_port or max(0, self.http_port)

    @property
    def broadcast_tcp_port(self) -> int:
        return self.options.broadcast_tcp_port or max(0, self.tcp_port)

    @property
    def health(self) -> str:
        """``OK``, or what is wrong with the disk."""
        error = self.commits.health or self.broker.health
        return "OK" if error is None else f"NOK - {error}"

    def _identity(self) -> bytes:
        return lookup.identity(self.options, self.hostname, self.broadcast_tcp_port,
                               self.broadcast_http_port, NSQ_VERSION)  # fmt: skip

    def _registrations(self) -> list[tuple[str, str | None]]:
        pairs: list[tuple[str, str | None]] = []
        for topic in self.broker.topics.values():
            pairs += [(topic.name, channel) for channel in topic.channels or (None,)]
        return pairs

    # --- the end -------------------------------------------------------------------------------

    async def close(self, *, save: bool = True) -> None:
        """Stop taking, write all down, let go. What was acknowledged is kept.

        Without ``save`` nsqd.dat stays as it is: what it said was perhaps not even read.
        """
        for listener in (self._tcp_listener, self._http_listener, self._https_listener):
            if listener is not None:
                await listener.close()
        self.housekeeping.stop()
        self.gc_pauses.stop()
        await self.statsd.close()
        await self.commits.settle()
        for companion in self.companions:
            await companion.close()
        await self.commits.settle()
        for session in list(self.sessions):
            session.close()
        for server in {self._http, self._plain_http}:
            server.close_connections()
        await self.lookup.close()
        try:
            if save:
                await self.metadata.write()
        except StorageError as error:
            logger.critical("failed to persist metadata - %s", error)
        try:
            self.broker.close()
        except StorageError as error:
            logger.critical("failed to save everything - %s", error)
        logger.info("NSQ: bye")


def _staged_parts(nsqd: Nsqd) -> StagedParts:
    try:
        return StagedParts(nsqd)
    except StorageError:
        nsqd.broker.store.close()
        raise


def _open_broker(options: NsqdOptions, clock: Clock) -> Broker:
    log_options = LogOptions(
        max_bytes_per_file=options.max_bytes_per_file,
        mem_queue_size=max(0, options.mem_queue_size),
        durability=options.durability,
    )
    data_path = options.data_path or os.getcwd()
    try:
        store = Store(OsDisk(), data_path, log_options)
    except StorageError as error:
        raise ConfigError(f"failed to lock data-path: {error}") from error
    broker_options = BrokerOptions(
        node_id=options.node_id,
        channel=ChannelOptions(
            max(0, options.mem_queue_size),
            options.max_msg_timeout,
            options.latency_window(),
            options.max_attempts,
            options.dead_letter_topic,
        ),
        retention=Retention(options.retention_time, options.retention_bytes),
        bounds=Bounds(options.max_depth, options.max_bytes, options.overflow),
    )
    try:
        with interruptible():
            import_queues(store, clock, options.node_id, options.max_msg_size)
            return Broker(store, clock, SystemChance(), broker_options)
    except StopRequested:
        logger.info("NSQ: stopped while opening the data path; the next start begins anew")
        store.close()
        raise
    except PenstockError:
        store.close()
        raise
