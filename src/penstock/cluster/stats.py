"""Figures of topics, channels and clients by node, and their sums (NSQ spec 5.3).

The objects are read from the answers of nsqds and written into those of the API, so the order of
their fields is the order of keys there. Fields that Go omits when they are zero are UNSET then.
Numbers are counts of messages, times nanoseconds, ``connect_ts`` unix seconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from msgspec import UNSET, Struct, UnsetType

from penstock.cluster.latency import Latency, merged
from penstock.core.units import SECOND

Count = int | UnsetType
"""A count that is not written when it is zero."""
EVERYWHERE: Final = "*"
"""The ``node`` of what is summed up over several."""


class ClientStats(Struct):
    """A consumer of a channel."""

    node: str = ""
    remote_address: str = ""
    version: str = ""
    client_id: str = ""
    hostname: str = ""
    user_agent: str = ""
    connect_ts: int = 0
    connected: int = 0
    in_flight_count: int = 0
    ready_count: int = 0
    finish_count: int = 0
    requeue_count: int = 0
    message_count: int = 0
    sample_rate: int = 0
    deflate: bool = False
    snappy: bool = False
    authed: bool = False
    auth_identity: str = ""
    auth_identity_url: str = ""
    node_topology_region: str | UnsetType = UNSET
    node_topology_zone: str | UnsetType = UNSET
    topology_region: str | UnsetType = UNSET
    topology_zone: str | UnsetType = UNSET
    tls: bool = False
    tls_cipher_suite: str = ""
    tls_version: str = ""
    tls_negotiated_protocol: str = ""
    tls_negotiated_protocol_is_mutual: bool = False

    @property
    def software(self) -> str:
        """The client's user agent or, of an old one, its version."""
        return self.user_agent or self.version


class ChannelStats(Struct):
    """A channel on one node, or on all of them."""

    node: str = ""
    hostname: str = ""
    topic_name: str = ""
    channel_name: str = ""
    depth: int = 0
    memory_depth: int = 0
    backend_depth: int = 0
    in_flight_count: int = 0
    deferred_count: int = 0
    requeue_count: int = 0
    timeout_count: int = 0
    message_count: int = 0
    delivery_msg_count: Count = UNSET
    zone_local_msg_count: Count = UNSET
    region_local_msg_count: Count = UNSET
    global_msg_count: Count = UNSET
    client_count: int = 0
    nodes: list[ChannelStats] | None = None
    clients: list[ClientStats] | None = None
    paused: bool = False
    e2e_processing_latency: Latency | None = None


class TopicStats(Struct):
    """A topic on one node, or on all of them."""

    node: str = ""
    hostname: str = ""
    topic_name: str = ""
    depth: int = 0
    memory_depth: int = 0
    backend_depth: int = 0
    message_count: int = 0
    delivery_msg_count: int = 0
    zone_local_msg_count: Count = UNSET
    region_local_msg_count: Count = UNSET
    global_msg_count: Count = UNSET
    nodes: list[TopicStats] | None = None
    channels: list[ChannelStats] | None = None
    paused: bool = False
    e2e_processing_latency: Latency | None = None


class NodeStats(Struct):
    """The part of an nsqd's /stats that is read."""

    topics: list[TopicStats] | None = None


class Place(Struct, frozen=True):
    """The place that stats come from."""

    node: str
    hostname: str = ""
    region: str = ""
    zone: str = ""


# --- one node ------------------------------------------------------------------------------------


def settled(stats: NodeStats, place: Place, topic: str, now_ns: int) -> list[TopicStats]:
    """A node's topics (only ``topic`` when it is named), complete with all that the API tells."""
    found = [each for each in stats.topics or () if not topic or each.topic_name == topic]
    for each in found:
        each.node, each.hostname, each.nodes = place.node, place.hostname, None
        each.memory_depth = each.depth - each.backend_depth
        each.delivery_msg_count = _delivered(each)
        each.e2e_processing_latency = _own(each.e2e_processing_latency)
        for channel in each.channels or ():
            _settle_channel(channel, each.topic_name, place, now_ns)
    return found


def _settle_channel(channel: ChannelStats, topic: str, place: Place, now_ns: int) -> None:
    channel.node, channel.hostname, channel.nodes = place.node, place.hostname, None
    channel.topic_name = topic
    channel.memory_depth = channel.depth - channel.backend_depth
    # Omitted when 0, which that of a topic is not (NSQ spec 5.3).
    channel.delivery_msg_count = _delivered(channel) or UNSET
    channel.e2e_processing_latency = _own(channel.e2e_processing_latency)
    for client in channel.clients or ():
        client.node = place.node
        # Nanoseconds, but whole seconds of them (NSQ spec 5.3).
        client.connected = (now_ns // SECOND - client.connect_ts) * SECOND
        client.node_topology_region = place.region or UNSET
        client.node_topology_zone = place.zone or UNSET
        client.topology_region = client.topology_region or UNSET
        client.topology_zone = client.topology_zone or UNSET


def _delivered(stats: TopicStats | ChannelStats) -> int:
    """Deliveries in the zone, in the region and beyond, summed; only nodes with zones tell."""
    stats.zone_local_msg_count = stats.zone_local_msg_count or UNSET
    stats.region_local_msg_count = stats.region_local_msg_count or UNSET
    stats.global_msg_count = stats.global_msg_count or UNSET
    counts = (stats.zone_local_msg_count, stats.region_local_msg_count, stats.global_msg_count)
    return sum(each for each in counts if each is not UNSET)


def _own(latency: Latency | None) -> Latency:
    latency = latency or Latency()
    # Only aggregates name them (NSQ spec 5.3).
    latency.topic = latency.channel = latency.host = ""
    latency.settle()
    return latency


# --- several nodes -------------------------------------------------------------------------------


def whole_topic(name: str, parts: Iterable[TopicStats]) -> TopicStats:
    """A topic over all its nodes. A channel that one node has is shown as it is there."""
    nodes = sorted(parts, key=_by_host)
    total = TopicStats(node=EVERYWHERE, topic_name=name, nodes=nodes)
    _sum_topic(total, nodes)
    total.channels = [
        parts[0] if len(parts) == 1 else whole_channel(channel, parts)
        for channel, parts in _by_channel(nodes).items()
    ]
    total.paused = any(each.paused for each in nodes)
    total.e2e_processing_latency = merged([each.e2e_processing_latency for each in nodes], name)
    return total


def whole_channel(name: str, parts: list[ChannelStats]) -> ChannelStats:
    """A channel over all its nodes, of which there must be one at least."""
    nodes = sorted(parts, key=_by_host)
    topic = nodes[0].topic_name
    total = ChannelStats(node=EVERYWHERE, topic_name=topic, channel_name=name, nodes=nodes)
    _sum_channel(total, nodes)
    total.clients = sorted(_clients(nodes), key=_by_topology) or None
    total.paused = any(each.paused for each in nodes)
    latencies = [each.e2e_processing_latency for each in nodes]
    total.e2e_processing_latency = merged(latencies, topic, name)
    return total


def channels_named(name: str, topics: Iterable[TopicStats]) -> list[ChannelStats]:
    """The channels of that name."""
    return [each for topic in topics for each in topic.channels or () if each.channel_name == name]


_SUMS: Final = ("depth", "memory_depth", "backend_depth", "message_count")
_OMITTED: Final = ("zone_local_msg_count", "region_local_msg_count", "global_msg_count")
_OF_CHANNELS: Final = (
    "in_flight_count",
    "deferred_count",
    "requeue_count",
    "timeout_count",
    "client_count",
)


def _sum_topic(total: TopicStats, parts: list[TopicStats]) -> None:
    for name in (*_SUMS, "delivery_msg_count"):
        setattr(total, name, _sum(name, parts))
    for name in _OMITTED:
        setattr(total, name, _sum(name, parts) or UNSET)


def _sum_channel(total: ChannelStats, parts: list[ChannelStats]) -> None:
    for name in (*_SUMS, *_OF_CHANNELS):
        setattr(total, name, _sum(name, parts))
    for name in ("delivery_msg_count", *_OMITTED):
        setattr(total, name, _sum(name, parts) or UNSET)


def _sum(name: str, parts: Sequence[TopicStats | ChannelStats]) -> int:
    values = (getattr(each, name) for each in parts)
    return sum(value for value in values if value is not UNSET)


def _by_channel(topics: list[TopicStats]) -> dict[str, list[ChannelStats]]:
    """The channels in the order of their names."""
    found: dict[str, list[ChannelStats]] = {}
    for topic in topics:
        for channel in topic.channels or ():
            found.setdefault(channel.channel_name, []).append(channel)
    return dict(sorted(found.items()))


def _clients(nodes: list[ChannelStats]) -> Iterator[ClientStats]:
    for node in nodes:
        yield from node.clients or ()


def _by_host(stats: TopicStats | ChannelStats) -> tuple[str, str]:
    return stats.hostname, stats.node


def _by_topology(client: ClientStats) -> tuple[str, int, str, str, str]:
    """Sort key: by node; there the consumers in the node's zone first, then those in its region."""
    own_region = client.topology_region == client.node_topology_region
    own_zone = own_region and client.topology_zone == client.node_topology_zone
    distance = 0 if own_zone else 1 if own_region else 2
    region = "" if client.topology_region is UNSET else client.topology_region
    zone = "" if client.topology_zone is UNSET else client.topology_zone
    return client.node, distance, region, zone, client.hostname
