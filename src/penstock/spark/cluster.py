"""The nodes that hold the topics: discovery, bounds of their logs, fetches and group commits.

Every request is tried again for ``timeout`` seconds, so that a restarting nsqd does not end a
query; after that the error names topic, node and offset.
"""

from __future__ import annotations

import json
import re
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from typing import TypeVar

from penstock.core.clock import SYSTEM_CLOCK
from penstock.core.reasons import reason
from penstock.nsq.client.errors import ClientError, LookupFailed
from penstock.nsq.client.log import (
    LogClient,
    LogError,
    NodeUnreachable,
    OffsetOutOfRange,
    TopicNotFound,
)
from penstock.nsq.client.lookup import lookup
from penstock.spark import planning
from penstock.spark.errors import SourceError
from penstock.spark.offsets import Bounds, Nested, Place
from penstock.spark.planning import Split
from penstock.spark.settings import Settings

_LOOKUP_EVERY_NS = 5_000_000_000
_RETRY_FIRST_S = 0.1
_RETRY_MAX_S = 1.0
_REMEDY = "; start it and run the same command to go on"
# What our clients put before the reason itself.
_LOOKUP = re.compile(r"^lookup of topic '[^']*' failed: ")
_Answer = TypeVar("_Answer")

# Connections of this process. A Python worker of Spark serves many tasks, each one thread.
_clients: dict[str, LogClient] = {}


class Cluster:
    """The nodes behind one source's options. Made lazily: it is never pickled."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._addresses: dict[str, tuple[str, ...]] = {}
        self._looked_up_ns = 0
        self._address_of: dict[str, str] = {}

    def bounds(self) -> dict[Place, Bounds]:
        """Every queue of every topic with its first offset and its end, as it is now.

        Raises SourceError when a topic is nowhere or a node does not answer.
        """
        bounds: dict[Place, Bounds] = {}
        for topic, addresses in self._nodes().items():
            found = [self._queues(topic, address) for address in addresses]
            if all(queues is None for queues in found) and not self._settings.every_topic:
                raise SourceError(self._nowhere(topic, addresses))
            for queues in found:
                bounds |= queues or {}
        return bounds

    def commit(self, offsets: Nested, group: str) -> None:
        """Move the group that holds retention to these offsets, on every node."""
        for topic, nodes in offsets.items():
            for node, queues in nodes.items():
                address = self._address_of.get(node, node)
                try:
                    _client(address, self._settings).commit(
                        topic, group, {int(queue): offset for queue, offset in queues.items()}
                    )
                except ClientError as error:
                    raise SourceError(f"topic {topic} on node {node}: {_reason(error)}") from error

    def _nowhere(self, topic: str, asked: tuple[str, ...]) -> str:
        """The sentence for a topic that no node has."""
        if asked:
            return f"topic {topic} does not exist on {_named('node', asked)}"
        return (
            f"no node with topic {topic} is known to {_named('nsqlookupd', self._settings.lookupd)}"
        )

    def _nodes(self) -> Mapping[str, tuple[str, ...]]:
        """The addresses to ask for each topic; looked up again every few seconds."""
        now = SYSTEM_CLOCK.monotonic_ns()
        if not self._addresses or now - self._looked_up_ns > _LOOKUP_EVERY_NS:
            topics = self._all_topics() if self._settings.every_topic else self._settings.topics
            self._addresses = {
                topic: self._settings.nodes or self._lookup(topic) for topic in topics
            }
            self._looked_up_ns = now
        return self._addresses

    def _all_topics(self) -> list[str]:
        """Every topic that is kept on disk."""
        topics: set[str] = set()
        for address in self._settings.nodes or self._settings.lookupd:
            ask = self._node_topics if self._settings.nodes else _lookupd_topics
            topics.update(
                _persist(
                    lambda ask=ask, address=address: ask(address),  # type: ignore[misc]
                    f"{address} cannot be asked for its topics",
                    self._settings.timeout_s,
                )
            )
        return sorted(topic for topic in topics if not topic.endswith("#ephemeral"))

    def _node_topics(self, address: str) -> list[str]:
        return _client(address, self._settings).topics()

    def _lookup(self, topic: str) -> tuple[str, ...]:
        """The HTTP addresses of the nodes that have a topic; one nsqlookupd's answer is enough."""
        nodes = _persist(
            lambda: lookup(self._settings.lookupd, topic, self._settings.timeout_s),
            f"no nsqlookupd answers for topic {topic}",
            self._settings.timeout_s,
        )
        return tuple(node.http_address for node in nodes)

    def _queues(self, topic: str, address: str) -> dict[Place, Bounds] | None:
        """The topic's queues on one node, or None when it does not have the topic."""
        try:
            answer = _persist(
                lambda: _client(address, self._settings).offsets(topic),
                f"node {address} cannot be reached for topic {topic}",
                self._settings.timeout_s,
            )
        except TopicNotFound:
            return None
        self._address_of[answer.node] = address
        return {
            Place(topic, answer.node, queue.queue): Bounds(
                queue.start, queue.end, queue.bytes, address
            )
            for queue in answer.queues
        }


def fetch(split: Split, offset: int, max_bytes: int, settings: Settings) -> bytes:
    """Whole batches of the split's place, the first of which contains ``offset``.

    Raises SourceError that names topic, node and offset.
    """
    place = split.place
    what = f"topic {place.topic} (queue {place.queue}) on node {place.node}"
    try:
        return _persist(
            lambda: _client(split.address, settings).fetch(
                place.topic, offset, queue=place.queue, max_bytes=max_bytes
            ),
            f"{what} cannot be read from offset {offset}",
            settings.timeout_s,
        ).data
    except TopicNotFound:
        raise SourceError(f"{what} has vanished; offset {offset} was to be read") from None
    except LogError as error:
        raise SourceError(f"{what}, offset {offset}: {error}") from error
    except OffsetOutOfRange as error:
        if offset < error.start:
            raise SourceError(planning.gone(place, offset, error.start)) from None
        raise SourceError(planning.beyond(place, offset, error.end)) from None


def offset_at(place: Place, address: str, timestamp_ns: int, settings: Settings) -> int:
    """The offset of the first message of a place published at this time or later.

    Raises SourceError that names topic and node.
    """
    what = f"topic {place.topic} (queue {place.queue}) on node {place.node}"
    try:
        return _persist(
            lambda: _client(address, settings).offset_at(
                place.topic, timestamp_ns, queue=place.queue
            ),
            f"{what} cannot be asked for an offset by time",
            settings.timeout_s,
        )
    except ClientError as error:
        raise SourceError(f"{what}: {_reason(error)}") from error


def _persist(ask: Callable[[], _Answer], failure: str, timeout_s: float) -> _Answer:
    """The answer, asked for again while the node does not respond or reports trouble (5xx)."""
    deadline_ns = SYSTEM_CLOCK.monotonic_ns() + int(timeout_s * 1e9)
    pause_s = _RETRY_FIRST_S
    while True:
        try:
            return ask()
        except LogError as error:
            if error.status < 500:
                raise
            last: Exception = error
        except (NodeUnreachable, LookupFailed, OSError) as error:
            last = error
        if SYSTEM_CLOCK.monotonic_ns() + int(pause_s * 1e9) > deadline_ns:
            said = f"{failure}: {_reason(last)} (tried for {timeout_s:g} s; option timeout)"
            raise SourceError(said if isinstance(last, LogError) else said + _REMEDY) from last
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, _RETRY_MAX_S)


def _reason(error: Exception) -> str:
    """Why a request failed, for a person: ``connection refused``."""
    cause = error.__cause__ or error
    if isinstance(cause, urllib.error.URLError):
        cause = cause.reason if isinstance(cause.reason, Exception) else cause
    return _LOOKUP.sub("", reason(cause)) or type(cause).__name__


def _lookupd_topics(address: str) -> list[str]:
    with urllib.request.urlopen(f"http://{address}/topics", timeout=10) as answer:
        return [str(topic) for topic in json.load(answer)["topics"]]


def _client(address: str, settings: Settings) -> LogClient:
    client = _clients.get(address)
    if client is None:
        client = _clients[address] = LogClient(address, timeout=settings.timeout_s)
    return client


def close_connections() -> None:
    """Close this process's connections; later requests open new ones."""
    while _clients:
        _clients.popitem()[1].close()


def _named(kind: str, addresses: tuple[str, ...]) -> str:
    return (f"{kind} " if len(addresses) == 1 else "any of ") + ", ".join(addresses)
