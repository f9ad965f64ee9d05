"""The figures of one node at one moment: its /stats, Go's or ours, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from penstock.core.errors import PenstockError

CHANNEL = "channel"
ROCKETMQ = "rocketmq"
LOG = "log"


class StatsError(PenstockError):
    """An answer that is not an nsqd's /stats."""


@dataclass(frozen=True, slots=True)
class Client:
    """A connection that consumes; ``software`` is its user agent or language."""

    name: str
    address: str
    software: str
    ready: int = 0
    in_flight: int = 0
    messages: int = 0
    finished: int = 0
    requeued: int = 0


@dataclass(frozen=True, slots=True)
class Reader:
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
    members: tuple[Client, ...] = ()

    @property
    def key(self) -> str:
        """The key that tells it from other readers of the topic, such as ``channel/c``."""
        return f"{self.kind}/{self.name}"

    @property
    def lag(self) -> int:
        """Everything that is not finished."""
        return self.depth + self.in_flight + self.deferred


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic on one node."""

    name: str
    depth: int
    messages: int
    nbytes: int
    paused: bool
    readers: tuple[Reader, ...]

    @property
    def lag(self) -> int:
        """The messages left to the reader furthest behind; without readers, all that wait."""
        return self.depth + max((reader.lag for reader in self.readers), default=0)


@dataclass(frozen=True, slots=True)
class NodeFigures:
    """A node at one moment (monotonic ns); ``error`` says why there are no figures."""

    address: str
    at_ns: int
    topics: tuple[Topic, ...] = ()
    version: str = ""
    health: str = ""
    producers: int = 0
    error: str = ""


def parse_stats(address: str, at_ns: int, stats: Any) -> NodeFigures:
    """The figures of a parsed /stats?format=json, also as before NSQ 1.0. Raises StatsError."""
    try:
        stats = stats.get("data") or stats
        return NodeFigures(
            address,
            at_ns,
            tuple(_topic(topic) for topic in stats["topics"] or ()),
            str(stats.get("version", "")),
            str(stats.get("health", "")),
            len(stats.get("producers") or ()),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise StatsError("no nsqd answers there") from error


def _topic(topic: Mapping[str, Any]) -> Topic:
    readers = [_channel(channel) for channel in topic["channels"] or ()]
    readers += [_group(group) for group in topic.get("consumer_groups") or ()]
    readers += [_log_group(group) for group in topic.get("log_groups") or ()]
    return Topic(
        str(topic["topic_name"]),
        int(topic["depth"]),
        int(topic["message_count"]),
        int(topic.get("message_bytes", 0)),
        bool(topic["paused"]),
        tuple(readers),
    )


def _channel(channel: Mapping[str, Any]) -> Reader:
    depth, in_flight = int(channel["depth"]), int(channel["in_flight_count"])
    deferred = int(channel["deferred_count"])
    clients = channel.get("clients") or ()
    return Reader(
        str(channel["channel_name"]),
        CHANNEL,
        depth,
        int(channel["message_count"]) - depth - in_flight - deferred,
        in_flight,
        deferred,
        int(channel["requeue_count"]),
        int(channel["timeout_count"]),
        int(channel.get("dead_letter_count", 0)),
        int(channel.get("client_count", len(clients))),
        bool(channel["paused"]),
        members=tuple(_client(client) for client in clients),
    )


def _client(client: Mapping[str, Any]) -> Client:
    return Client(
        str(client.get("client_id") or client.get("name", "")),
        str(client["remote_address"]),
        str(client.get("user_agent", "")),
        int(client["ready_count"]),
        int(client["in_flight_count"]),
        int(client["message_count"]),
        int(client["finish_count"]),
        int(client["requeue_count"]),
    )


def _group(group: Mapping[str, Any]) -> Reader:
    members = tuple(
        Client(
            str(member["client_id"]),
            str(member["remote_address"]),
            f"{member['language']} {member['version']}",
        )
        for member in group.get("clients") or ()
    )
    return Reader(
        str(group["group_name"]),
        ROCKETMQ,
        int(group["lag"]),
        sum(group["committed"].values()),
        clients=int(group["client_count"]),
        rate=float(group["rate"]),
        members=members,
    )


def _log_group(group: Mapping[str, Any]) -> Reader:
    committed = sum(group["committed"].values())
    return Reader(str(group["group_name"]), LOG, int(group["lag"]), committed)
