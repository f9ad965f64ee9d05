"""Settings by name: /topic/config and /channel/config, and of the node itself /config/:opt.

GET shows what holds, and under ``set`` what was set here; POST replaces all of it: a field that is
left out, or null, is as the flags say, 0 switches off.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, IntEnum
from typing import Any, Final, TypeVar

import msgspec

from penstock.broker.channels.channel import Channel
from penstock.broker.channels.spent import MAX_ATTEMPTS_MAX
from penstock.broker.dead_letters import dead_letter_topic
from penstock.broker.progress import ChannelSettings, TopicSettings
from penstock.broker.publish.bounds import Overflow
from penstock.broker.publish.fill import fill_of
from penstock.broker.topic import Topic
from penstock.core.malformed import MALFORMED
from penstock.core.names import is_valid_name
from penstock.core.units import format_duration
from penstock.net.http.server.service import Request
from penstock.net.http.server.v1_api import ApiError, ApiRouter, Query
from penstock.node.http.api_arguments import duration_ns, existing_channel, existing_topic
from penstock.node.ports import Ports
from penstock.nsq.config_page import ConfigPage
from penstock.nsq.nsqd.http.write_down import check_written
from penstock.nsq.nsqd.lookup import Lookup
from penstock.nsq.nsqd.nsqd_options import NsqdOptions
from penstock.nsq.nsqd.stats.statsd import resolved_prefix
from penstock.storage.retention import Retention

_HIDDEN: Final = frozenset(("version", "config", "verbose", "worker_id"))


class ConfigApi(ConfigPage):
    """The /config endpoints of one nsqd."""

    def __init__(self, options: NsqdOptions, lookup: Lookup, ports: Ports) -> None:
        super().__init__(options, "nsqlookupd_tcp_addresses", _HIDDEN)
        self._options: NsqdOptions = options
        self._lookup = lookup
        self._ports = ports

    def add_routes(self, router: ApiRouter) -> None:
        router.v1("GET", "/config/:opt", self.get)
        # nsqd bounds this body by the size of a message, and calls a longer one invalid.
        router.v1(
            "PUT",
            "/config/:opt",
            self.put,
            max_body=self._options.max_msg_size,
            too_big="INVALID_VALUE",
        )

    def set_lookupds(self, addresses: tuple[str, ...]) -> None:
        self._options.lookupd_tcp_addresses = addresses
        self._lookup.set_addresses(addresses)

    def resolved(self, name: str, value: Any) -> Any:
        """An option's value in use, which may have been decided at the start."""
        # nsqd shows the port it listens on where the option says 0.
        if name == "broadcast_tcp_port":
            return self._ports.broadcast_tcp
        if name == "broadcast_http_port":
            return self._ports.broadcast_http
        if name == "tls_required":
            # nsqd shows its enum: 0 no, 1 tcp-https, 2 yes.
            return int(self._options.tls_needed)
        if name == "statsd_prefix":
            address = self._options.broadcast_address
            return resolved_prefix(value, address, self._ports.broadcast_http)
        if isinstance(value, IntEnum):
            return int(value)
        return value.value if isinstance(value, Enum) else value


_BODY_MAX = 64 * 1024
_NUMBER_MAX = (1 << 63) - 1


class ChannelBody(msgspec.Struct, forbid_unknown_fields=True):
    """The body of POST /channel/config."""

    max_attempts: int | None = None
    dead_letter_topic: str | None = None


class TopicBody(msgspec.Struct, forbid_unknown_fields=True):
    """The body of POST /topic/config."""

    max_depth: int | None = None
    max_bytes: int | None = None
    overflow: str | None = None
    retention_time: str | None = None
    retention_bytes: int | None = None


Body = TypeVar("Body", ChannelBody, TopicBody)


class SettingsApi:
    """The settings' endpoints of one nsqd."""

    def __init__(self, topics: Mapping[str, Topic], retention: Retention) -> None:
        """``retention`` is that of topics which have no other."""
        self._topics = topics
        self._retention = retention

    def add_routes(self, router: ApiRouter) -> None:
        router.v1("GET", "/channel/config", self._channel)
        router.v1("POST", "/channel/config", self._set_channel, max_body=_BODY_MAX)
        router.v1("GET", "/topic/config", self._topic)
        router.v1("POST", "/topic/config", self._set_topic, max_body=_BODY_MAX)

    # --- channels ------------------------------------------------------------------------------

    def _channel(self, request: Request) -> Any:
        return _shown_channel(*existing_channel(self._topics, Query.parse(request.query)))

    def _set_channel(self, request: Request) -> Any:
        topic, channel = existing_channel(self._topics, Query.parse(request.query))
        body = _decoded(request.body, ChannelBody)
        if not 0 <= (body.max_attempts or 0) <= MAX_ATTEMPTS_MAX:
            raise ApiError(400, "INVALID_ARG_MAX_ATTEMPTS")
        pattern = body.dead_letter_topic or None
        if pattern is not None:
            target = dead_letter_topic(pattern, topic.name)
            if not is_valid_name(target) or target == topic.name:
                raise ApiError(400, "INVALID_ARG_DEAD_LETTER_TOPIC")
        topic.configure_channel(ChannelSettings(channel.name, body.max_attempts, pattern))
        check_written(topic)
        return _shown_channel(topic, channel)

    # --- topics --------------------------------------------------------------------------------

    def _topic(self, request: Request) -> Any:
        return self._shown_topic(existing_topic(self._topics, Query.parse(request.query)))

    def _set_topic(self, request: Request) -> Any:
        topic = existing_topic(self._topics, Query.parse(request.query))
        body = _decoded(request.body, TopicBody)
        for name in ("max_depth", "max_bytes", "retention_bytes"):
            if not 0 <= (getattr(body, name) or 0) <= _NUMBER_MAX:
                raise ApiError(400, f"INVALID_ARG_{name.upper()}")
        if body.overflow not in (None, *(each.value for each in Overflow)):
            raise ApiError(400, "INVALID_ARG_OVERFLOW")
        text = body.retention_time
        retention_ns = None if text is None else duration_ns("retention_time", text)
        topic.configure(
            TopicSettings(
                body.max_depth, body.max_bytes, body.overflow, retention_ns, body.retention_bytes
            )
        )
        check_written(topic)
        return self._shown_topic(topic)

    def _shown_topic(self, topic: Topic) -> dict[str, Any]:
        bounds, own = topic.config.bounds, topic.config.own
        fill = fill_of(topic)
        retention = topic.config.retention(topic.retention or self._retention)
        return {
            "topic": topic.name,
            "max_depth": bounds.max_depth,
            "max_bytes": bounds.max_bytes,
            "overflow": bounds.overflow.value,
            "retention_time": format_duration(retention.time_ns),
            "retention_bytes": retention.nbytes,
            "set": {
                "max_depth": own.max_depth,
                "max_bytes": own.max_bytes,
                "overflow": own.overflow,
                "retention_time": None
                if own.retention_ns is None
                else format_duration(own.retention_ns),
                "retention_bytes": own.retention_bytes,
            },
            "messages": fill.messages,
            "bytes": fill.nbytes,
            "dropped_count": topic.dropped_count,
        }


def _shown_channel(topic: Topic, channel: Channel) -> dict[str, Any]:
    own = topic.config.of_channel(channel.name)
    return {
        "topic": topic.name,
        "channel": channel.name,
        "max_attempts": channel.max_attempts,
        "dead_letter_topic": channel.dead_letter_topic,
        "set": {"max_attempts": own.max_attempts, "dead_letter_topic": own.dead_letter_topic},
        "dead_letter_count": channel.dead_letter_count,
    }


def _decoded(body: bytes, kind: type[Body]) -> Body:
    try:
        return msgspec.json.decode(body, type=kind)
    except MALFORMED:
        raise ApiError(400, "INVALID_BODY") from None
