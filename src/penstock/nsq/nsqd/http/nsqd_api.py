"""The HTTP API of nsqd: publish, administer, look (NSQ spec 2)."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

from penstock import __version__, lane
from penstock.broker.channels.channel import Channel
from penstock.broker.directed import directed_note
from penstock.broker.topic import Topic
from penstock.core.errors import StorageError
from penstock.core.settings.version import NSQ_VERSION
from penstock.core.units import MILLISECOND, SECOND
from penstock.net.http.server.guard import Guard
from penstock.net.http.server.route import Plain
from penstock.net.http.server.service import DeferredResponse, Request, Response
from penstock.net.http.server.v1_api import (
    ApiError,
    ApiRouter,
    Query,
    error_response,
    plain_response,
    text_response,
)
from penstock.node.http.api_arguments import existing_channel, topic_named
from penstock.node.http.log_api import LogApi
from penstock.node.ports import Ports
from penstock.nsq.debug_pages import add_debug_pages, free_memory
from penstock.nsq.nsqd.http.browse_api import BrowseApi
from penstock.nsq.nsqd.http.damage_api import DamageApi
from penstock.nsq.nsqd.http.dead_letters_api import DeadTopics
from penstock.nsq.nsqd.http.log_group_api import LogGroupApi
from penstock.nsq.nsqd.http.node_api import NodeApi, PipelinesApi
from penstock.nsq.nsqd.http.refusals import refusal
from penstock.nsq.nsqd.http.replay_api import ReplayApi
from penstock.nsq.nsqd.http.settings_api import ConfigApi, SettingsApi
from penstock.nsq.nsqd.http.stage_api import StageApi
from penstock.nsq.nsqd.http.write_down import check_written, write_down, write_names
from penstock.nsq.nsqd.lookup import Lookup
from penstock.nsq.nsqd.stats import packed_stats
from penstock.nsq.nsqd.stats.stat_sources import StatSources
from penstock.nsq.protocol.bodies import Bodies
from penstock.nsq.protocol.dead_letters import NotedBodies
from penstock.nsq.protocol.errors import ProtocolError
from penstock.replication.primary import Primary
from penstock.storage.retention import Retention

_OK = text_response("OK")
_INTEGER = re.compile(r"[+-]?[0-9]{1,19}")


class NsqdApi:
    """The handlers of one nsqd."""

    def __init__(
        self,
        sources: StatSources,
        lookup: Lookup,
        ports: Ports,
        hostname: str,
        primary: Primary,
    ) -> None:
        self._sources = sources
        self._primary = primary
        self._node = sources.node
        self._options = sources.options
        self._limits = sources.options.limits()
        self._registry = self._node.registry
        self._topics = self._node.broker.topics
        self._lookup = lookup
        self._ports = ports
        self._hostname = hostname

    def router(self) -> ApiRouter:
        """The routes of nsqd."""
        options, node, topics = self._options, self._node, self._topics
        router = ApiRouter(Guard.of(options, options.broadcast_address))
        node.vitals.add_routes(router, metrics=options.metrics)
        router.v1("GET", "/info", self._info)
        router.v1("GET", "/stats", partial(packed_stats.handle, self._sources))
        router.v1(
            "POST",
            "/pub",
            self._pub,
            max_body=options.max_msg_size,
            too_big="MSG_TOO_BIG",
            quiet=True,
            plain=Plain(_plain_topic, _outcome),
        )
        router.v1(
            "POST",
            "/mpub",
            self._mpub,
            max_body=options.max_body_size,
            quiet=True,
            begin=self._begin_mpub,
        )
        router.v1("POST", "/topic/create", self._create_topic)
        router.v1("POST", "/topic/delete", self._delete_topic)
        router.v1("POST", "/topic/empty", self._empty_topic)
        router.v1("POST", "/topic/pause", partial(self._pause_topic, True))
        router.v1("POST", "/topic/unpause", partial(self._pause_topic, False))
        router.v1("POST", "/channel/delete", self._delete_channel)
        router.v1(
            "POST", "/channel/publish", self._publish_to_channel, max_body=options.max_body_size
        )
        router.v1("POST", "/channel/empty", self._empty_channel)
        router.v1("POST", "/channel/pause", partial(self._pause_channel, True))
        router.v1("POST", "/channel/unpause", partial(self._pause_channel, False))
        ConfigApi(options, self._lookup, self._ports).add_routes(router)
        log_api = LogApi(
            topics, node.dialects, self._ports, options.broadcast_address, node.broker.store.epochs
        )
        log_api.add_routes(router)
        LogGroupApi(node).add_routes(router)
        PipelinesApi(self._sources.pipelines).add_routes(router)
        stage = StageApi(self._registry.topics, self._sources.staged_parts, node.clock)
        stage.add_routes(router, options.max_body_size)
        ReplayApi(self._registry, node.clock).add_routes(router)
        retention = Retention(options.retention_time, options.retention_bytes)
        SettingsApi(topics, retention).add_routes(router)
        DamageApi(topics).add_routes(router)
        NodeApi(self._sources, self._ports).add_routes(router)
        BrowseApi(topics, node.clock).add_routes(router)
        router.v1("GET", "/deadletters/topics", DeadTopics(topics).handle)
        self._primary.add_routes(router)
        add_debug_pages(router, index="/debug/pprof/")
        router.add("PUT", "/debug/setblockrate", _set_block_rate)
        router.add("POST", "/debug/freememory", free_memory)
        return router

    # --- looking -------------------------------------------------------------------------------

    def _info(self, request: Request) -> Any:
        options = self._options
        return {
            "version": NSQ_VERSION,
            "broadcast_address": options.broadcast_address,
            "hostname": self._hostname,
            # NSQ spec 2.4: those listened on, not the values of ``--broadcast-*-port``.
            "http_port": self._ports.http,
            "tcp_port": self._ports.tcp,
            "start_time": self._node.started_ns // SECOND,
            # nsqd has nanoseconds here, where IDENTIFY's answer has milliseconds.
            "max_heartbeat_interval": options.max_heartbeat_interval,
            "max_output_buffer_size": options.max_output_buffer_size,
            "max_output_buffer_timeout": options.max_output_buffer_timeout,
            "max_deflate_level": options.max_deflate_level,
            "topology_zone": options.topology_zone,
            "topology_region": options.topology_region,
            "penstock_version": __version__,
            "penstock_lane": lane.STATE,
        }

    # --- publishing ----------------------------------------------------------------------------

    def _pub(self, request: Request) -> Any:
        # nsqd looks at the body before the topic, so an empty one is MSG_EMPTY in any case.
        if not request.body:
            raise ApiError(400, "MSG_EMPTY")
        query = Query.parse(request.query)
        topic = self._topic_to_publish(query)
        return self._publish(topic, Bodies.single(request.body), self._delay(query))

    def _mpub(self, request: Request) -> Any:
        topic = request.begun or self._begin_mpub(request)
        if isinstance(topic, ApiError):
            raise topic
        query = Query.parse(request.query)
        # Ours: Go's /mpub knows no ``defer`` (NSQ spec 2.2).
        delay = self._delay(query)
        binary = query.get("binary")
        # nsqd takes every other value for true, an empty one included.
        bodies = self._text_bodies if binary in (None, "false", "0") else self._binary_bodies
        records = bodies(request.body)
        # nsqd answers OK to a text without lines, and publishes nothing.
        return _OK if records is None else self._publish(topic, records, delay)

    def _publish_to_channel(self, request: Request) -> DeferredResponse:
        """Ours: messages, framed as those of a binary /mpub, for one channel of a topic alone."""
        topic, channel = existing_channel(self._topics, Query.parse(request.query))
        if topic.paused:  # they would wait in the topic, and then come to every channel
            raise ApiError(409, "TOPIC_PAUSED")
        noted = NotedBodies(self._binary_bodies(request.body), directed_note(channel.name))
        answer = _Published()
        self._node.commits.publish(topic, noted, 0, answer.committed)
        return answer

    def _begin_mpub(self, request: Request) -> Topic | ApiError:
        """Find or create the topic before the body is read, as upstream does.

        If the topic is deleted before the body is complete, it stays deleted and the request fails.
        """
        try:
            return self._topic_to_publish(Query.parse(request.query))
        except ApiError as error:  # answered when the body is complete
            return error

    def _topic_to_publish(self, query: Query) -> Topic:
        topic = self._topics.get(query.get("topic") or "")
        # nsqd says INVALID_TOPIC here and at /topic/*, but INVALID_ARG_TOPIC at /channel/*.
        return self._made(query.topic("INVALID_TOPIC")) if topic is None else topic

    def _made(self, name: str) -> Topic:
        try:
            return self._registry.topic(name)
        except StorageError as error:
            raise refusal(error) from None

    def _delay(self, query: Query) -> int:
        defer = query.get("defer")
        if defer is None:
            return 0
        # Go's Atoi takes a sign, so +5 (sent as %2B5) is a delay; 1.5 and 0x10 are not.
        milliseconds = int(defer) if _INTEGER.fullmatch(defer) else -1
        delay = milliseconds * MILLISECOND
        # NSQ spec 2.2, /pub: both ends are allowed.
        if not 0 <= delay <= self._limits.max_req_timeout:
            raise ApiError(400, "INVALID_DEFER")
        return delay

    def _text_bodies(self, body: bytes) -> Bodies | None:
        try:
            return Bodies.from_lines(body, self._limits.max_msg_size)
        except ProtocolError:
            # NSQ spec 2.3: one line that is too long rejects all; lines are checked first.
            raise ApiError(413, "MSG_TOO_BIG") from None

    def _binary_bodies(self, body: bytes) -> Bodies:
        limits = self._limits
        try:
            return Bodies.from_mpub(body, limits.max_msg_size, limits.max_body_size)
        except ProtocolError as error:
            # nsqd has the codes of TCP without "E_", and 413 for each of them.
            raise ApiError(413, error.code.removeprefix("E_")) from None

    def _publish(self, topic: Topic, bodies: Bodies, delay: int) -> DeferredResponse:
        answer = _Published()
        self._node.commits.publish(topic, bodies, delay, answer.committed)
        return answer

    # --- administration ------------------------------------------------------------------------

    def _create_topic(self, request: Request) -> None:
        self._made(Query.parse(request.query).topic("INVALID_TOPIC"))

    async def _delete_topic(self, request: Request) -> None:
        # nsqd checks no name here: an impossible one is not found.
        topic = topic_named(self._topics, Query.parse(request.query).required("topic"))
        try:
            await self._registry.delete_topic(topic)
        except StorageError:
            raise ApiError(500, "INTERNAL_ERROR") from None

    def _empty_topic(self, request: Request) -> None:
        topic = topic_named(self._topics, Query.parse(request.query).topic("INVALID_TOPIC"))
        # NSQ spec 3.1: the topic's own backlog alone; its channels keep theirs.
        topic.empty()
        check_written(topic)

    async def _pause_topic(self, pause: bool, request: Request) -> None:
        # nsqd checks no name here: an impossible one is not found.
        topic = topic_named(self._topics, Query.parse(request.query).required("topic"))
        self._registry.pause_topic(topic, pause)
        # Before the answer: pause states are in the journal and in nsqd.dat (NSQ spec 2.2).
        check_written(topic)
        await write_names(self._node.topic_list)

    async def _delete_channel(self, request: Request) -> None:
        topic, channel = self._existing_channel(request)
        self._registry.delete_channel(topic, channel)
        check_written(topic)
        await write_names(self._node.topic_list)

    def _empty_channel(self, request: Request) -> None:
        topic, channel = self._existing_channel(request)
        channel.empty()
        write_down(topic)

    async def _pause_channel(self, pause: bool, request: Request) -> None:
        channel = self._existing_channel(request)[1]
        self._registry.pause_channel(channel, pause)
        await write_names(self._node.topic_list)

    def _existing_channel(self, request: Request) -> tuple[Topic, Channel]:
        return existing_channel(self._topics, Query.parse(request.query))


class _Published(DeferredResponse, eq=False):
    """The answer to a publish."""

    def committed(self, error: StorageError | None) -> None:
        """Answer a publish whose commit went well, or met this error."""
        self.complete(_outcome(error))


def _outcome(error: StorageError | None) -> Response:
    """The answer to a publish that is stored, or met this error."""
    if error is None:
        return _OK
    refused = refusal(error)
    return error_response(refused.status, refused.code)


def _plain_topic(request: Request) -> str | None:
    """The topic of a /pub that says no more than its name."""
    query = Query.parse(request.query)
    return query.get("topic") if query.get("defer") is None else None


def _set_block_rate(request: Request) -> Response:
    try:
        rate = Query.parse(request.query).get("rate") or ""
    except ApiError as error:
        return plain_response(error.code, error.status)
    if not _INTEGER.fullmatch(rate):
        # The text is that of Go's strconv, as nsqd answers it.
        text = f'invalid block rate : strconv.Atoi: parsing "{rate}": invalid syntax'
        return plain_response(text, 400)
    # NSQ spec 2.2: Go's handler fails here, with 500 for a rate that is right.
    return Response()
