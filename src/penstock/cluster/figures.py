"""The figures of one node at one moment: its /stats, Go's or ours, as values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from msgspec import Raw, Struct

from penstock.cluster import groups
from penstock.cluster.groups import LOG, ROCKETMQ, ReportedGroup
from penstock.cluster.stats import ChannelStats, ClientStats

CHANNEL: Final = "channel"
TARGET: Final = "/stats?format=json&include_mem=false"


@dataclass(frozen=True, slots=True)
class ReaderFigures:
    """A reader of a topic: an NSQ channel, a RocketMQ group or a group of the log, by ``kind``.

    ``depth`` is what it still has to read, ``done`` a count that grows with what it has finished.
    ``rate`` (messages a second) is given where the node measures it itself.
    """

    name: str
    kind: str
    depth: int
    done: int
    in_flight: int = 0
    deferred: int = 0
    requeued: int = 0
    timed_out: int = 0
    dead: int = 0
    clients: int = 0
    paused: bool = False
    rate: float | None = None
    members: tuple[ClientStats, ...] = ()

    @property
    def key(self) -> str:
        """The key that tells it from other readers of the topic, such as ``channel/c``."""
        return f"{self.kind}/{self.name}"

    @property
    def lag(self) -> int:
        """Everything that is not finished."""
        return self.depth + self.in_flight + self.deferred


@dataclass(frozen=True, slots=True)
class TopicFigures:
    """A topic on one node."""

    name: str
    depth: int
    messages: int
    nbytes: int
    paused: bool
    readers: tuple[ReaderFigures, ...]

    @property
    def lag(self) -> int:
        """The messages left to the reader furthest behind; without readers, all that wait."""
        return self.depth + max((reader.lag for reader in self.readers), default=0)


@dataclass(frozen=True, slots=True)
class NodeFigures:
    """A node at one moment (monotonic ns); ``error`` says why there are no figures."""

    address: str
    at_ns: int
    topics: tuple[TopicFigures, ...] = ()
    version: str = ""
    health: str = ""
    producers: int = 0
    error: str = ""


# --- as /stats has them --------------------------------------------------------------------------


class ReportedChannel(ChannelStats):
    """A channel; Go's nsqd has no dead letters, and before NSQ 1.2 counted no clients."""

    dead_letter_count: int = 0


class ReportedTopic(groups.ReportedGroups, kw_only=True):
    """A topic; only our nsqd knows groups."""

    topic_name: str
    channels: list[ReportedChannel] | None = None
    depth: int = 0
    message_count: int = 0
    message_bytes: int = 0
    paused: bool = False


class ReportedNode(Struct):
    """The answer of an nsqd at ``TARGET``."""

    topics: list[ReportedTopic] | None
    version: str = ""
    health: str = ""
    producers: list[Raw] | None = None


def figures_of(address: str, at_ns: int, stats: ReportedNode) -> NodeFigures:
    """The figures of a node that has told them at this moment (monotonic ns)."""
    return NodeFigures(
        address,
        at_ns,
        tuple(map(_topic, stats.topics or ())),
        stats.version,
        stats.health,
        len(stats.producers or ()),
    )


def _topic(topic: ReportedTopic) -> TopicFigures:
    readers = [_channel(channel) for channel in topic.channels or ()]
    readers += [_group(group, ROCKETMQ) for group in topic.consumer_groups or ()]
    readers += [_group(group, LOG) for group in topic.log_groups or ()]
    return TopicFigures(
        topic.topic_name,
        topic.depth,
        topic.message_count,
        topic.message_bytes,
        topic.paused,
        tuple(readers),
    )


def _channel(channel: ReportedChannel) -> ReaderFigures:
    clients = tuple(channel.clients or ())
    # Go's /stats does not count what is finished: it is what came and waits nowhere.
    waiting = channel.depth + channel.in_flight_count + channel.deferred_count
    return ReaderFigures(
        channel.channel_name,
        CHANNEL,
        channel.depth,
        channel.message_count - waiting,
        channel.in_flight_count,
        channel.deferred_count,
        channel.requeue_count,
        channel.timeout_count,
        channel.dead_letter_count,
        channel.client_count or len(clients),
        channel.paused,
        members=clients,
    )


def _group(group: ReportedGroup, kind: str) -> ReaderFigures:
    return ReaderFigures(
        group.group_name,
        kind,
        group.lag,
        sum((group.committed or {}).values()),
        clients=group.client_count or 0,
        rate=group.rate if kind == ROCKETMQ else None,
        members=tuple(group.clients or ()),
    )
