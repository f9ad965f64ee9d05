"""GET /api/messages: what a topic's log or a channel holds, taking nothing.

Without a node it is the topic's log on all of them, merged by time.
"""

from __future__ import annotations

import re
from typing import Any, Final

from penstock.admin.messages.all_nodes import LIMIT_MAX, Wish, page_of_all
from penstock.admin.messages.logs import offset_at, time_ns
from penstock.admin.messages.nodes import Nodes, answered
from penstock.admin.messages.page import shown
from penstock.cluster.asker import Asker
from penstock.cluster.exchange import target
from penstock.cluster.fanout import Warnings
from penstock.net.http.server.api import ApiError, Query
from penstock.net.http.server.service import Request
from penstock.nsq.page import Page

LIMIT: Final = "50"
"""Messages of a page, unless ``limit`` says otherwise; a node gives at most 1000."""
_NUMBER: Final = re.compile(r"[0-9]{1,9}")


class Peek:
    """The endpoint."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes

    async def handle(self, request: Request) -> Any:
        query, warnings = Query.parse(request.query), Warnings()
        topic, channel = query.required("topic"), query.get("channel")
        if channel is None and query.get("node") is None:
            return await page_of_all(self._nodes, _wish(topic, query))
        node = query.required("node")
        address = await self._nodes.address(node, warnings)
        where = {"node": node, "topic": topic}
        if channel is not None:
            where["channel"] = channel
        place = await placed(self._nodes.asker, address, topic, query)
        asked = target("/topic/peek" if channel is None else "/channel/peek",
                       topic=topic, channel=channel, **place)  # fmt: skip
        page = await answered(self._nodes.asker.get(address, asked, Page))
        return shown(page, warnings, **where)


def _wish(topic: str, query: Query) -> Wish:
    """The page over all nodes that a query asks for; ApiError 400 INVALID_ARG_LIMIT."""
    limit = query.get("limit") or LIMIT
    if _NUMBER.fullmatch(limit) is None:
        raise ApiError(400, "INVALID_ARG_LIMIT")
    return Wish(topic, query.get("from") or "oldest", max(1, min(int(limit), LIMIT_MAX)),
                query.get("preview"))  # fmt: skip


async def placed(asker: Asker, address: str, topic: str, query: Query) -> dict[str, str | None]:
    """The parameters of a page of a log, where ``from`` may be a time as well."""
    place = paging(query)
    if (time := time_ns(place["from_"] or "")) is not None:
        place["from_"] = str(await answered(offset_at(asker, address, topic, time)))
    return place


def paging(query: Query) -> dict[str, str | None]:
    """The parameters of a page, for ``target``; the node says what is wrong with them."""
    return {
        "from_": query.get("from"),
        "limit": query.get("limit") or LIMIT,
        "preview": query.get("preview"),
    }
