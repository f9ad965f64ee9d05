"""/stats: everything nsqd knows of itself, as JSON and as text (NSQ spec 2.5).

The keys, their order and the widths of the text are NSQ's: dashboards and scripts read them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from penstock.broker.channels.channel import Channel
from penstock.broker.topic import Topic
from penstock.core.quantiles import Summary
from penstock.core.settings.version import NSQ_VERSION, go_line
from penstock.core.units import MICROSECOND, MILLISECOND, SECOND, format_duration
from penstock.net.budget import Memory
from penstock.net.http.server.service import Request, Response
from penstock.net.http.server.v1_api import Query, json_response, text_response
from penstock.net.tls.tls_layer import TlsLayer
from penstock.nsq.nsqd.http.damage_api import damage_of
from penstock.nsq.nsqd.stats import group_stats
from penstock.nsq.nsqd.stats.stat_sources import StatSources
from penstock.nsq.nsqd.tcp.session import Session

_FALSE = ("false", "0")
# The suites that Go's nsqd has names for, none of TLS 1.3 among them.
_GO_NAMES = {
    "RC4-SHA": "TLS_RSA_WITH_RC4_128_SHA",
    "DES-CBC3-SHA": "TLS_RSA_WITH_3DES_EDE_CBC_SHA",
    "AES128-SHA": "TLS_RSA_WITH_AES_128_CBC_SHA",
    "AES256-SHA": "TLS_RSA_WITH_AES_256_CBC_SHA",
    "ECDHE-ECDSA-RC4-SHA": "TLS_ECDHE_ECDSA_WITH_RC4_128_SHA",
    "ECDHE-ECDSA-AES128-SHA": "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA",
    "ECDHE-ECDSA-AES256-SHA": "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA",
    "ECDHE-RSA-RC4-SHA": "TLS_ECDHE_RSA_WITH_RC4_128_SHA",
    "ECDHE-RSA-DES-CBC3-SHA": "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA",
    "ECDHE-RSA-AES128-SHA": "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
    "ECDHE-RSA-AES256-SHA": "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
    "ECDHE-RSA-AES128-GCM-SHA256": "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
    "ECDHE-ECDSA-AES128-GCM-SHA256": "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
}


def handle(sources: StatSources, request: Request) -> Response:
    """GET /stats."""
    query = Query.parse(request.query)
    stats = collect(sources, query)
    if query.get("format") == "json":
        if "memory" in stats:
            stats["memory"] |= held(sources.node.memory)
        return json_response(stats)
    return text_response(as_text(sources, stats, query))


def collect(sources: StatSources, query: Query) -> dict[str, Any]:
    """The statistics that the parameters ask for, in the order of NSQ's keys."""
    wanted, channel = query.get("topic") or "", query.get("channel") or ""
    with_clients = query.get("include_clients") not in _FALSE
    known = sources.node.broker.topics
    # Sorted by code point, which for names of ASCII is Go's byte order (NSQ spec 2.5).
    topics = [known[name] for name in sorted(known) if wanted in ("", name)]
    if channel:
        # nsqd leaves out topics without the channel, where an unknown topic gives null.
        topics = [topic for topic in topics if channel in topic.channels]
    unknown = bool(wanted) and wanted not in known
    # Once for all channels: a walk over all connections for each would be quadratic.
    sessions = _sessions_by_channel(sources) if with_clients else None
    stats: dict[str, Any] = {
        "version": NSQ_VERSION,
        "health": sources.node.health,
        "start_time": sources.node.started_ns // SECOND,
        "topics": [_topic(sources, topic, channel, sessions) for topic in topics],
    }
    if unknown:
        # Go marshals the list that it never made as null; nsqadmin and nsq_stat accept it.
        stats["topics"] = None
    if query.get("include_mem") not in _FALSE:
        stats["memory"] = sources.node.vitals.go_memory()
    # nsqd shows no publishers of an unknown topic, and of a known one all that publish.
    producers = _producers(sources, wanted) if with_clients and not unknown else []
    stats["producers"] = producers or None
    if len(sources.staged_parts.parts):
        stats["staged"] = sources.staged_parts.figures()
    if (replication := sources.replication()) is not None:
        stats["replication"] = replication
    if sources.node.dialects and with_clients:
        stats["producer_groups"] = group_stats.producer_groups(sources.node.dialects)
    return stats


def held(memory: Memory) -> dict[str, int]:
    """The memory that clients hold of the two budgets."""
    return {
        "request_bytes": memory.requests.used,
        "request_bytes_max": memory.requests.limit,
        "requests_held_up": memory.requests.refused,
        "answer_bytes": memory.answers.used,
        "answer_bytes_max": memory.answers.limit,
        "answers_refused": memory.answers.refused,
    }


Sessions = dict[Channel, list[Session]]


def _sessions_by_channel(sources: StatSources) -> Sessions:
    sessions: Sessions = {}
    for session in sources.sessions:
        if session.channel is not None:
            sessions.setdefault(session.channel, []).append(session)
    return sessions


def latency_of(channels: Iterable[Channel]) -> Summary | None:
    """The latencies of all these channels together; None when nothing measures any."""
    measured = [channel.latency.summary() for channel in channels if channel.latency is not None]
    return Summary.merged(measured) if measured else None


def _latency(channels: Iterable[Channel], percentiles: Sequence[float]) -> dict[str, Any]:
    """Latencies as NSQ shows them (NSQ spec 3.13), in nanoseconds."""
    summary = latency_of(channels)
    if summary is None:
        # nsqadmin in Go crashes on a channel without this object, so it is always there.
        return {"count": 0, "percentiles": None}
    values = [{"quantile": each, "value": summary.quantile(each)} for each in percentiles]
    return {"count": summary.count, "percentiles": values}


def _topic(
    sources: StatSources, topic: Topic, channel: str, sessions: Sessions | None
) -> dict[str, Any]:
    names = [name for name in sorted(topic.channels) if channel in ("", name)]
    percentiles = sources.options.e2e_processing_latency_percentiles
    stats: dict[str, Any] = {
        "topic_name": topic.name,
        "channels": [_channel(topic.channels[name], percentiles, sessions) for name in names],
        "depth": topic.depth,
        "backend_depth": topic.backend_depth,
        "message_count": topic.message_count,
        "message_bytes": topic.message_bytes,
        "paused": topic.paused,
        "e2e_processing_latency": _latency(topic.channels.values(), percentiles),
        **damage_of(topic),
    }
    if sources.node.dialects:
        stats["consumer_groups"] = group_stats.consumer_groups(
            sources.node.dialects, topic.name, channel, with_clients=sessions is not None
        )
    if topic.groups and (
        groups := group_stats.log_groups(sources.node.log_groups.of(topic), channel)
    ):
        stats["log_groups"] = groups
    return stats


def _channel(
    channel: Channel, percentiles: Sequence[float], sessions: Sessions | None
) -> dict[str, Any]:
    clients, state = None, channel.state
    if sessions is not None:
        clients = [_client(session) for session in sessions.get(channel, ())]
    stats = {
        "channel_name": channel.name,
        "depth": state.depth,
        "backend_depth": state.backend_depth,
        "in_flight_count": state.in_flight_count,
        "deferred_count": state.deferred_count,
        "message_count": channel.message_count,
        **_delivered(channel),
        "requeue_count": channel.requeue_count,
        "timeout_count": channel.timeout_count,
        "client_count": len(channel.consumers),
        "clients": clients,
        "paused": channel.paused,
        "e2e_processing_latency": _latency([channel], percentiles),
    }
    if channel.dead_letter_count:
        stats["dead_letter_count"] = channel.dead_letter_count
    if state.lost_count:
        stats["lost_count"] = state.lost_count
    return stats


def _delivered(channel: Channel) -> dict[str, int]:
    """The messages delivered to consumers, counted by proximity; a count of zero has no key."""
    names = ("zone_local_msg_count", "region_local_msg_count", "global_msg_count")
    counts = zip(names, channel.delivered_counts, strict=True)
    return {name: count for name, count in counts if count}


def _client(session: Session, topic: str = "") -> dict[str, Any]:
    """A connection; its publish counts only of ``topic``, if that is given."""
    connection, consumer = session.connection, session.consumer
    identity = connection.identity
    counts = [
        {"topic": name, "count": count}
        for name, count in session.connection.pub_counts.items()
        if topic in ("", name)
    ]
    client: dict[str, Any] = {
        "client_id": identity.client_id,
        "hostname": identity.hostname,
        "version": "V2",
        "remote_address": connection.remote_address,
        "state": int(connection.reader.state),
        "ready_count": consumer.ready if consumer else 0,
        "in_flight_count": consumer.in_flight if consumer else 0,
        "message_count": consumer.message_count if consumer else 0,
        "finish_count": consumer.finish_count if consumer else 0,
        "requeue_count": consumer.requeue_count if consumer else 0,
        "connect_ts": connection.connected_ns // SECOND,
        "sample_rate": identity.sample_rate,
        "deflate": connection.compression == "deflate",
        "snappy": connection.compression == "snappy",
        "user_agent": identity.user_agent,
        **_authorized(session),
        "topology_zone": identity.topology_zone,
        "topology_region": identity.topology_region,
        "pub_counts": counts,
        **tls_fields(connection.tls),
    }
    if not counts:
        del client["pub_counts"]
    return client


def _authorized(session: Session) -> dict[str, Any]:
    """The auth servers' answer on a connection; as in Go's, without false and empty values."""
    granted = session.authorizations
    if granted is None:
        return {}
    fields = {
        "authed": bool(granted.entries),
        "auth_identity": granted.identity,
        "auth_identity_url": granted.identity_url,
    }
    return {name: value for name, value in fields.items() if value}


def _producers(sources: StatSources, topic: str) -> list[dict[str, Any]]:
    return [
        _client(session, topic) for session in sources.sessions if session.connection.pub_counts
    ]


# --- text --------------------------------------------------------------------------------------


def as_text(sources: StatSources, stats: dict[str, Any], query: Query) -> str:
    """The statistics as lines of text for people."""
    now = sources.node.clock.wall_ns()
    started = datetime.fromtimestamp(sources.node.started_ns / SECOND).astimezone()
    start_time = started.strftime("%Y-%m-%dT%H:%M:%S%z")
    offset = start_time[-5:]
    zone = "Z" if offset == "+0000" else f"{offset[:3]}:{offset[3:]}"
    lines = [
        f"{go_line('nsqd')}\n",
        f"start_time {start_time[:-5]}{zone}\n",
        f"uptime {format_duration(now - sources.node.started_ns)}\n",
        f"\nHealth: {stats['health']}\n",
    ]
    if "memory" in stats:
        lines.append("\nMemory:\n")
        lines += [f"   {name:<25}\t{value}\n" for name, value in stats["memory"].items()]
    if not stats["topics"]:
        lines.append("\nTopics: None\n")
    else:
        lines.append("\nTopics:")
        for topic in stats["topics"]:
            lines += _topic_lines(topic, now)
    lines += _producer_lines(stats["producers"], now)
    lines += group_stats.producer_lines(stats)
    return "".join(lines)


def _topic_lines(topic: dict[str, Any], now: int) -> list[str]:
    prefix = "*P " if topic["paused"] else "   "
    lines = [
        f"\n{prefix}[{topic['topic_name']:<15}] depth: {topic['depth']:<5} "
        f"be-depth: {topic['backend_depth']:<5} msgs: {topic['message_count']:<8} "
        f"e2e%: {_percentiles(topic)}\n"
    ]
    for channel in topic["channels"]:
        prefix = "   *P " if channel["paused"] else "      "
        lines.append(
            f"{prefix}[{channel['channel_name']:<25}] depth: {channel['depth']:<5} "
            f"be-depth: {channel['backend_depth']:<5} inflt: {channel['in_flight_count']:<4} "
            f"def: {channel['deferred_count']:<4} re-q: {channel['requeue_count']:<5} "
            f"timeout: {channel['timeout_count']:<5} msgs: {channel['message_count']:<8} "
            f"e2e%: {_percentiles(channel)}\n"
        )
        lines += [_client_line(client, now) for client in channel["clients"] or ()]
    return lines + group_stats.consumer_lines(topic) + group_stats.log_lines(topic)


def _percentiles(stats: dict[str, Any]) -> str:
    values = stats["e2e_processing_latency"]["percentiles"] or ()
    return ", ".join(human_duration(each["value"]) for each in values)


def human_duration(ns: float) -> str:
    """Nanoseconds with one decimal in the unit that fits, as NSQ shows latencies: ``45.6ms``."""
    for size, unit in ((SECOND, "s"), (MILLISECOND, "ms"), (MICROSECOND, "us")):
        # Above the unit, not from it: exactly one second is 1000.0ms, as in Go (NSQ spec 2.5).
        if ns > size:
            return f"{ns / size:.1f}{unit}"
    return f"{ns:.1f}ns"


def _client_line(client: dict[str, Any], now: int) -> str:
    # nsqd shows a consumer that has published as a producer, in the channel's list as well.
    if client.get("pub_counts"):
        return f"        {_producer(client, now)}"
    return (
        f"        [V2 {_name(client):<21}] state: {client['state']} "
        f"inflt: {client['in_flight_count']:<4} rdy: {client['ready_count']:<4} "
        f"fin: {client['finish_count']:<8} re-q: {client['requeue_count']:<8} "
        f"msgs: {client['message_count']:<8} connected: {_connected(client, now)}\n"
    )


def _producer_lines(producers: list[dict[str, Any]] | None, now: int) -> list[str]:
    if not producers:
        return ["\nProducers: None\n"]
    return ["\nProducers:\n", *(f"   {_producer(client, now)}" for client in producers)]


def _producer(client: dict[str, Any], now: int) -> str:
    counts = client.get("pub_counts", [])
    topics = ",".join(f"{each['topic']}={each['count']}" for each in counts)
    total = sum(each["count"] for each in counts)
    return (
        f"[V2 {_name(client):<21}] msgs: {total:<8} topics: {topics} "
        f"connected: {_connected(client, now)}\n"
    )


def _name(client: dict[str, Any]) -> str:
    port = client["remote_address"].rpartition(":")[2]
    # So since nsqd 1.2.1; 1.2.0 had the client_id (NSQ spec 0).
    return f"{client['hostname']}:{port} {client['user_agent']}"


def _connected(client: dict[str, Any], now: int) -> str:
    # In whole seconds as in Go, which does not truncate the uptime.
    return format_duration((now // SECOND - client["connect_ts"]) * SECOND)


def tls_fields(tls: TlsLayer | None) -> dict[str, Any]:
    """The keys of a client that begin with ``tls``, in their order and in Go's words."""
    if tls is None:
        return {
            "tls": False,
            "tls_cipher_suite": "",
            "tls_version": "",
            "tls_negotiated_protocol": "",
            "tls_negotiated_protocol_is_mutual": False,
        }
    name, number = tls.cipher
    return {
        "tls": True,
        "tls_cipher_suite": _GO_NAMES.get(name, f"Unknown {number}"),
        "tls_version": go_version(tls.version),
        "tls_negotiated_protocol": tls.protocol,
        # Go says so on every TLS connection, with ALPN or without (NSQ spec 2.5).
        "tls_negotiated_protocol_is_mutual": True,
    }


def go_version(version: str) -> str:
    """``TLS1.0`` for OpenSSL's ``TLSv1``, ``TLS1.3`` for its ``TLSv1.3``."""
    number = version.removeprefix("TLSv")
    return f"TLS{number if '.' in number else number + '.0'}"
