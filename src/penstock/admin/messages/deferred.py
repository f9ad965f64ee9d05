"""/api/deferred: the deferred messages of a channel on a node; to cancel, or to deliver now."""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct, field

from penstock.admin.messages.choice import chosen_ids, read_body
from penstock.admin.messages.known_nodes import KnownNodes, answered
from penstock.admin.messages.peek import paging, shown
from penstock.admin.notifications import Action, Notifier
from penstock.admin.permissions import Access
from penstock.cluster.exchange import target
from penstock.cluster.fanout import Warnings
from penstock.core.gojson import dumps
from penstock.net.http.server.service import Request
from penstock.net.http.server.v1_api import ApiError, Query
from penstock.nsq.page import Page

_DONE: Final = {"cancel": "cancelled", "release": "released"}


class DeferredBody(Struct):
    """The body of a request: an action, and the messages that it is about."""

    action: str = ""
    topic: str = ""
    channel: str = ""
    node: str = ""
    ids: list[str] = field(default_factory=list)
    all: bool = False


class Settled(Struct):
    """The answer of a node, with one of the two numbers."""

    not_found: list[str]
    cancelled: int = 0
    released: int = 0


class Deferred:
    """The endpoints."""

    def __init__(self, nodes: KnownNodes, access: Access, notifier: Notifier) -> None:
        self._nodes = nodes
        self._access = access
        self._notifier = notifier

    async def page(self, request: Request) -> Any:
        """GET: those that come next first."""
        query, warnings = Query.parse(request.query), Warnings()
        topic, channel = query.required("topic"), query.required("channel")
        node = query.required("node")
        address = await self._nodes.address(node, warnings)
        asked = target("/channel/deferred", topic=topic, channel=channel, **paging(query))
        page = await answered(self._nodes.http.get(address, asked, Page))
        return shown(page, warnings, node=node, topic=topic, channel=channel)

    async def act(self, request: Request) -> Any:
        """POST: cancel or release some, or all; a notification is sent once a node has done it."""
        self._access.check_admin(request)
        body, warnings = read_body(request, DeferredBody), Warnings()
        done = _DONE.get(body.action)
        if done is None:
            raise ApiError(400, "INVALID_ACTION")
        ids = chosen_ids(body.ids, body.all)
        address = await self._nodes.address(body.node, warnings)
        asked = target(
            f"/channel/deferred/{body.action}",
            topic=body.topic,
            channel=body.channel,
            all="true" if body.all else None,
        )
        content = dumps(ids) if ids else b""
        settled = await answered(self._nodes.http.post_as(address, asked, content, Settled))
        action = Action(f"{body.action}_deferred", body.topic, body.channel, body.node)
        self._notifier.tell(action, request)
        return {
            done: getattr(settled, done),
            "not_found": settled.not_found,
            "message": warnings.message,
        }
