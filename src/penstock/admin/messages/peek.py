"""GET /api/messages: what a topic's log or a channel holds on a node, taking nothing."""

from __future__ import annotations

from typing import Any, Final

from penstock.admin.messages.nodes import Nodes, answered
from penstock.admin.messages.page import shown
from penstock.cluster.exchange import target
from penstock.cluster.fanout import Warnings
from penstock.net.http.server.service import Request
from penstock.nsq.http_api import Query
from penstock.nsq.page import Page

LIMIT: Final = "50"
"""Messages of a page, unless `limit` says otherwise; a node gives at most 1000."""


class Peek:
    """The endpoint."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes

    async def handle(self, request: Request) -> Any:
        query, warnings = Query.parse(request.query), Warnings()
        topic, channel = query.required("topic"), query.get("channel")
        node = query.required("node")
        address = await self._nodes.address(node, warnings)
        where = {"node": node, "topic": topic}
        if channel is not None:
            where["channel"] = channel
        asked = target("/topic/peek" if channel is None else "/channel/peek",
                       topic=topic, channel=channel, **paging(query))  # fmt: skip
        page = await answered(self._nodes.asker.get(address, asked, Page))
        return shown(page, warnings, **where)


def paging(query: Query) -> dict[str, str | None]:
    """The parameters of a page, for `target`; the node says what is wrong with them."""
    return {
        "from_": query.get("from"),
        "limit": query.get("limit") or LIMIT,
        "preview": query.get("preview"),
    }
