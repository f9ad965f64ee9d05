"""The logs of a topic on the nodes that keep one, and places in them.

Each node counts the offsets of its log by itself, so a place in all of them is an offset a node:
``after:127.0.0.1:4151@17-17,…``.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple

from msgspec import Struct

from penstock.admin.messages.known_nodes import KnownNodes, answered
from penstock.cluster.exchange import target
from penstock.cluster.fanout import Warnings, try_all
from penstock.cluster.http_client import HttpClient
from penstock.cluster.upstream_errors import NoAnswerError, RefusedError
from penstock.core.units import MILLISECOND
from penstock.log_api.bounds import Bounds, bounds_of
from penstock.net.http.server.v1_api import ApiError

NO_LOG: Final = "keeps no log to look into: it is a Go nsqd, or of an older version"
_TIME: Final = re.compile(r"time:([0-9]{1,13})")
_TIME_MAX: Final = (1 << 63) - 1
_OFFSET: Final = re.compile(r"[0-9]{1,19}")
NODES_MAX: Final = 256
"""Nodes that one request asks."""
_PLACE: Final = re.compile(r"([^@,]{1,300})@([0-9]{1,19})-([0-9]{1,19})")


class Place(NamedTuple):
    """The offsets that are still to be read on a node: ``at`` up to, not including, ``end``."""

    node: str
    at: int
    end: int


def text_of(kind: str, places: Iterable[Place]) -> str:
    """The text that leads there again: ``scan:127.0.0.1:4151@17-90,…``."""
    return f"{kind}:" + ",".join(f"{node}@{at}-{end}" for node, at, end in places)


def read_text(kind: str, text: str) -> dict[str, Place] | None:
    """Places by node; None if the text is of another kind. ApiError 400 INVALID_ARG_FROM."""
    if not text.startswith(f"{kind}:"):
        return None
    parts = text.removeprefix(f"{kind}:").split(",")
    found = [_PLACE.fullmatch(part) for part in parts[: NODES_MAX + 1]]
    if len(found) > NODES_MAX or None in found:
        raise ApiError(400, "INVALID_ARG_FROM")
    places = (Place(each[1], int(each[2]), int(each[3])) for each in found if each)
    return {place.node: place for place in places}


class _At(Struct):
    """The answer of /log/offset_at."""

    offset: int


class Logs(NamedTuple):
    """The logs of a topic that can be read now, by node."""

    topic: str
    held: Mapping[str, Bounds]

    def clamped(self, node: str, offset: int) -> int:
        """The nearest offset that the node's log holds, or its end."""
        held = self.held[node]
        return max(held.start, min(offset, held.end))


async def logs_of(
    nodes: KnownNodes,
    topic: str,
    node: str,
    warnings: Warnings,
    among: Collection[str] | None = None,
) -> Logs:
    """The topic's logs on one node, or (empty) on all that have it and are ``among`` these.

    ApiError 404 where none has the topic, 501 NOT_OFFERED where none keeps a log, 400
    TOO_MANY_NODES. Nodes that cannot be asked, or that keep none, are warnings beside the others.
    """
    if node:
        address = await nodes.address(node, warnings)
        return Logs(topic, {node: await answered(bounds_of(nodes.http, address, topic))})
    found = [each.http_address for each in await nodes.of_topic(topic, warnings)]
    addresses = [each for each in found if among is None or each in among]
    if not addresses:
        raise ApiError(404, "NODE_NOT_FOUND")
    if len(addresses) > NODES_MAX:
        raise ApiError(400, "TOO_MANY_NODES")

    async def ask(address: str) -> Bounds | None:
        try:
            return await bounds_of(nodes.http, address, topic)
        except RefusedError as error:
            if not error.is_unknown:
                raise
            return None

    told = await try_all(addresses, ask)
    having = {address: bounds for address, bounds in told.answers if bounds is not None}
    if not having and told.errors:
        raise NoAnswerError("\n".join(told.errors))
    if not having:
        raise ApiError(501, "NOT_OFFERED")
    warnings.add(told.errors)
    warnings.add(f"{address} {NO_LOG}" for address, bounds in told.answers if bounds is None)
    return Logs(topic, having)


async def begin(http: HttpClient, logs: Logs, text: str, warnings: Warnings) -> dict[str, int]:
    """The offset on each node that ``oldest``, ``newest``, an offset or a time means.

    ApiError 400 INVALID_ARG_FROM. A node that does not tell its offset at a time is left out, with
    a warning.
    """
    if text == "oldest":
        return {node: held.start for node, held in logs.held.items()}
    if text == "newest":
        return {node: held.end for node, held in logs.held.items()}
    if (time := time_ns(text)) is not None:
        return await _at_time(http, logs, time, warnings)
    if _OFFSET.fullmatch(text) is None or len(logs.held) > 1:
        raise ApiError(400, "INVALID_ARG_FROM")
    return {node: logs.clamped(node, int(text)) for node in logs.held}


async def _at_time(
    http: HttpClient, logs: Logs, timestamp_ns: int, warnings: Warnings
) -> dict[str, int]:
    async def ask(node: str) -> int:
        return await offset_at(http, node, logs.topic, timestamp_ns)

    told = await try_all(logs.held, ask)
    if not told.answers:
        raise NoAnswerError("\n".join(told.errors))
    warnings.add(told.errors)
    return {node: logs.clamped(node, offset) for node, offset in told.answers}


async def offset_at(http: HttpClient, address: str, topic: str, timestamp_ns: int) -> int:
    """The first offset that was published at or after a time. Raises UpstreamError."""
    asked = target("/log/offset_at", topic=topic, timestamp_ns=timestamp_ns)
    return (await http.get(address, asked, _At)).offset


def time_ns(text: str) -> int | None:
    """The time that ``time:1700000000000`` (ms since 1970) means; None for another text."""
    found = _TIME.fullmatch(text)
    return min(int(found[1]) * MILLISECOND, _TIME_MAX) if found else None
