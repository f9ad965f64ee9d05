"""The nodes that hold the topics: discovery, bounds of their logs, fetches and group commits.

Every request is tried again for ``timeout`` seconds, so that a restarting nsqd does not end a
query; after that the error names topic, node and offset.
"""

from __future__ import annotations

import http.client
import time
from collections.abc import Callable, Mapping
from typing import TypeVar

from penstock.core.clock import SystemClock
from penstock.spark import planning
from penstock.spark.errors import SourceError
from penstock.spark.log_http import LogClient, LogError
from penstock.spark.offsets import Bounds, Nested, Place
from penstock.spark.planning import Split
from penstock.spark.settings import Settings

_LOOKUP_EVERY_NS = 5_000_000_000
_RETRY_FIRST_S = 0.1
_RETRY_MAX_S = 1.0
_CLOCK = SystemClock()
_Answer = TypeVar("_Answer")

# Connections of this process. A Python worker of Spark serves many tasks, each one thread.
_clients: dict[str, LogClient] = {}


class _MissingTopicError(Exception):
    pass


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
            if not any(queues is not None for queues in found):
                raise SourceError(
                    f"topic {topic} does not exist on {_named(addresses or self._settings.lookupd)}"
                )
            for queues in found:
                bounds |= queues or {}
        return bounds

    def commit(self, offsets: Nested, group: str) -> None:
        """Move the group that holds retention to these offsets, on every node."""
        for topic, nodes in offsets.items():
            for node, queues in nodes.items():
                address = self._address_of.get(node, node)
                try:
                    _client(address, self._settings).commit(topic, group, queues)
                except (LogError, OSError, http.client.HTTPException) as error:
                    raise SourceError(f"topic {topic} on node {node}: {error}") from error

    def _nodes(self) -> Mapping[str, tuple[str, ...]]:
        if self._settings.nodes:
            return dict.fromkeys(self._settings.topics, self._settings.nodes)
        now = _CLOCK.monotonic_ns()
        if not self._addresses or now - self._looked_up_ns > _LOOKUP_EVERY_NS:
            self._addresses = {topic: self._lookup(topic) for topic in self._settings.topics}
            self._looked_up_ns = now
        return self._addresses

    def _lookup(self, topic: str) -> tuple[str, ...]:
        """The nodes of a topic, asked of every nsqlookupd; one that answers is enough."""
        nodes: set[str] = set()
        failures = []
        for lookupd in self._settings.lookupd:
            try:
                answer = _persist(
                    lambda lookupd=lookupd: _client(lookupd, self._settings).lookup(topic),  # type: ignore[misc]
                    f"nsqlookupd {lookupd} cannot be reached for topic {topic}",
                    self._settings.timeout_s,
                )
            except _MissingTopicError:
                continue
            except SourceError as error:
                failures.append(error)
                continue
            nodes |= {f"{each['broadcast_address']}:{each['http_port']}"
                      for each in answer["producers"]}  # fmt: skip
        if len(failures) == len(self._settings.lookupd):
            raise failures[0]
        return tuple(sorted(nodes))

    def _queues(self, topic: str, address: str) -> dict[Place, Bounds] | None:
        """The topic's queues on one node, or None when it does not have the topic."""
        try:
            answer = _persist(
                lambda: _client(address, self._settings).offsets(topic),
                f"node {address} cannot be reached for topic {topic}",
                self._settings.timeout_s,
            )
        except _MissingTopicError:
            return None
        node = answer["node"]
        self._address_of[node] = address
        return {
            Place(topic, node, queue["queue"]): Bounds(
                queue["start"], queue["end"], queue["bytes"], address
            )
            for queue in answer["queues"]
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
                place.topic, place.queue, offset, max_bytes
            ),
            f"{what} cannot be read from offset {offset}",
            settings.timeout_s,
        )
    except _MissingTopicError:
        raise SourceError(f"{what} has vanished; offset {offset} was to be read") from None
    except LogError as error:
        if error.status != 416:
            raise SourceError(f"{what}, offset {offset}: {error}") from error
        start, end = error.answer["start"], error.answer["end"]
        if offset < start:
            raise SourceError(planning.gone(place, offset, start)) from None
        raise SourceError(planning.beyond(place, offset, end)) from None


def _persist(ask: Callable[[], _Answer], failure: str, timeout_s: float) -> _Answer:
    """The answer, asked for again while the node does not respond or reports trouble (5xx)."""
    deadline_ns = _CLOCK.monotonic_ns() + int(timeout_s * 1e9)
    pause_s = _RETRY_FIRST_S
    while True:
        try:
            return ask()
        except LogError as error:
            if error.status == 404:
                raise _MissingTopicError from None
            if error.status < 500:
                raise
            last: Exception = error
        except (OSError, http.client.HTTPException) as error:
            last = error
        if _CLOCK.monotonic_ns() + int(pause_s * 1e9) > deadline_ns:
            raise SourceError(f"{failure}: {last or type(last).__name__}") from last
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, _RETRY_MAX_S)


def _client(address: str, settings: Settings) -> LogClient:
    client = _clients.get(address)
    if client is None:
        client = _clients[address] = LogClient(address, timeout=settings.timeout_s)
    return client


def _named(addresses: tuple[str, ...]) -> str:
    return ("node " if len(addresses) == 1 else "any of ") + ", ".join(addresses)
