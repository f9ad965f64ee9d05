"""GET /api/messages: what a topic's log or a channel holds, taking nothing.

Without a node it is the topic's log on all of them, merged by time.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import UNSET

from penstock.admin.messages.known_nodes import KnownNodes, answered
from penstock.admin.messages.logs import (
    Logs,
    Place,
    begin,
    logs_of,
    offset_at,
    read_text,
    text_of,
    time_ns,
)
from penstock.cluster.exchange import target
from penstock.cluster.fanout import Warnings, try_all
from penstock.cluster.http_client import HttpClient
from penstock.cluster.upstream_errors import NoAnswerError
from penstock.log_api.bounds import Bounds
from penstock.net.http.server.service import Request
from penstock.net.http.server.v1_api import ApiError, Query
from penstock.nsq.page import Message, Page

LIMIT_MAX: Final = 200
"""Messages of a page; each node is asked for as many."""
BEFORE: Final = "before"
AFTER: Final = "after"


class PageRequest(NamedTuple):
    """A page of a topic: from where, at most how many messages, and what of their bodies."""

    topic: str
    start: str
    limit: int
    preview: str | None


async def page_of_all(nodes: KnownNodes, request: PageRequest) -> dict[str, Any]:
    """The answer of the API. ApiError 400, 404, 501; raises NoAnswerError."""
    warnings = Warnings()
    places = read_text(BEFORE, request.start) or read_text(AFTER, request.start)
    logs = await logs_of(nodes, request.topic, "", warnings)
    if places is None:
        at = await begin(nodes.http, logs, request.start, warnings)
    else:
        at = {
            node: logs.clamped(node, place.at)
            for node, place in places.items()
            if node in logs.held
        }
    back = request.start == "newest" or request.start.startswith(f"{BEFORE}:")

    async def ask(node: str) -> NodePart:
        share = _Share(nodes.http, node, request, at[node], logs.held[node])
        return await (share.before() if back else share.after())

    told = await try_all(at, ask)
    if at and not told.answers:
        raise NoAnswerError("\n".join(told.errors))
    warnings.add(told.errors)
    page = merge([part for _, part in told.answers], request.limit, back=back)
    started = {node: at[node] for node in page.at}
    earlier, later = (page.at, started) if back else (started, page.at)
    return {
        "topic": request.topic,
        "nodes": list(logs.held),
        "messages": [{"node": node, **msgspec.to_builtins(each)} for node, each in page.messages],
        "earlier": _text(BEFORE, earlier, _has_before(logs, earlier)),
        "later": _text(AFTER, later, _has_after(logs, later)),
        "message": warnings.message,
    }


def _has_before(logs: Logs, at: Mapping[str, int]) -> bool:
    return any(offset > logs.held[node].start for node, offset in at.items())


def _has_after(logs: Logs, at: Mapping[str, int]) -> bool:
    return any(offset < logs.held[node].end for node, offset in at.items())


def _text(kind: str, at: Mapping[str, int], is_more: bool) -> str | None:
    """The text that leads there; None where nothing lies beyond on any node."""
    if not is_more:
        return None
    return text_of(kind, (Place(node, offset, offset) for node, offset in at.items()))


class _Share(NamedTuple):
    """A node's messages around an offset."""

    http: HttpClient
    node: str
    request: PageRequest
    at: int
    held: Bounds

    async def after(self) -> NodePart:
        """The messages from there on."""
        page = await self._peek(self.at, self.request.limit)
        end = page.messages[-1].offset + 1 if page.messages else self.at
        is_all = not isinstance(page.next, int)
        edge = page.next if isinstance(page.next, int) else max(end, self.held.end)
        return NodePart(self.node, self.at, page.messages, edge, is_all)

    async def before(self) -> NodePart:
        """The messages before it. A page that a node ends early has those furthest away: fewer are
        asked for then.
        """
        size = min(self.request.limit, self.at - self.held.start)
        found: list[Any] = []
        while size > 0:
            first = self.at - size
            page = await self._peek(first, size)
            if not isinstance(page.next, int) or page.next >= self.at or size == 1:
                found = [each for each in page.messages if each.offset < self.at]
                break
            size = max(1, min(page.next - first, size // 2))
        edge = self.at - size
        return NodePart(self.node, self.at, found, edge, edge <= self.held.start)

    async def _peek(self, first: int, limit: int) -> Page:
        asked = target(
            "/topic/peek",
            topic=self.request.topic,
            from_=first,
            limit=limit,
            preview=self.request.preview,
        )
        return await self.http.get(self.node, asked, Page)


class NodePart(NamedTuple):
    """A node's share of a page: messages that follow each other in its log, the oldest first.

    Reading goes on from ``at``; once all of them are taken, from ``edge``. ``is_all``: nothing lies
    beyond that.
    """

    node: str
    at: int
    messages: Sequence[Message]
    edge: int
    is_all: bool


class Merged(NamedTuple):
    """A page, the oldest message first, and the offset on each node from which reading goes on."""

    messages: list[tuple[str, Message]]
    at: dict[str, int]


def merge(parts: Sequence[NodePart], limit: int, *, back: bool) -> Merged:
    """The next ``limit`` messages of all parts by time or, with ``back``, the ones before.

    The page ends early where a node's messages run out and more lie beyond: they may be next.
    """
    sign = -1 if back else 1
    lists = [part.messages[::sign] for part in parts]
    at = {part.node: part.at if part.messages else part.edge for part in parts}
    taken: list[tuple[str, Message]] = []
    heap = [(sign * each[0].timestamp, order, 0) for order, each in enumerate(lists) if each]
    heapq.heapify(heap)
    is_open = any(not part.messages and not part.is_all for part in parts)
    while heap and len(taken) < limit and not is_open:
        _, order, place = heapq.heappop(heap)
        part, message = parts[order], lists[order][place]
        taken.append((part.node, message))
        at[part.node] = message.offset if back else message.offset + 1
        if place + 1 < len(lists[order]):
            heapq.heappush(heap, (sign * lists[order][place + 1].timestamp, order, place + 1))
        else:
            at[part.node], is_open = part.edge, not part.is_all
    return Merged(taken[::sign], at)


LIMIT: Final = "50"
"""Messages of a page, unless ``limit`` says otherwise; a node gives at most 1000."""
_NUMBER: Final = re.compile(r"[0-9]{1,9}")


class Peek:
    """The endpoint."""

    def __init__(self, nodes: KnownNodes) -> None:
        self._nodes = nodes

    async def handle(self, request: Request) -> Any:
        query, warnings = Query.parse(request.query), Warnings()
        topic, channel = query.required("topic"), query.get("channel")
        if channel is None and query.get("node") is None:
            return await page_of_all(self._nodes, _page_request(topic, query))
        node = query.required("node")
        address = await self._nodes.address(node, warnings)
        where = {"node": node, "topic": topic}
        if channel is not None:
            where["channel"] = channel
        place = await placed(self._nodes.http, address, topic, query)
        asked = target(
            "/topic/peek" if channel is None else "/channel/peek",
            topic=topic,
            channel=channel,
            **place,
        )
        page = await answered(self._nodes.http.get(address, asked, Page))
        return shown(page, warnings, **where)


def _page_request(topic: str, query: Query) -> PageRequest:
    """The page over all nodes that a query asks for; ApiError 400 INVALID_ARG_LIMIT."""
    limit = query.get("limit") or LIMIT
    if _NUMBER.fullmatch(limit) is None:
        raise ApiError(400, "INVALID_ARG_LIMIT")
    return PageRequest(
        topic,
        query.get("from") or "oldest",
        max(1, min(int(limit), LIMIT_MAX)),
        query.get("preview"),
    )


def shown(page: Page, warnings: Warnings, **where: str) -> dict[str, Any]:
    """The answer of the API: from where, the page, the warnings."""
    counted = {} if page.count is UNSET else {"count": page.count}
    return {
        **where,
        **counted,
        "messages": page.messages,
        "next": page.next,
        "message": warnings.message,
    }


async def placed(http: HttpClient, address: str, topic: str, query: Query) -> dict[str, str | None]:
    """The parameters of a page of a log, where ``from`` may be a time as well."""
    place = paging(query)
    if (time := time_ns(place["from_"] or "")) is not None:
        place["from_"] = str(await answered(offset_at(http, address, topic, time)))
    return place


def paging(query: Query) -> dict[str, str | None]:
    """The parameters of a page, for ``target``; the node says what is wrong with them."""
    return {
        "from_": query.get("from"),
        "limit": query.get("limit") or LIMIT,
        "preview": query.get("preview"),
    }
