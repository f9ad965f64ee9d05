"""POST /api/messages/publish: one message, to try a topic and its consumers out."""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct

from penstock.admin.messages.choice import read_body
from penstock.admin.messages.known_nodes import KnownNodes, answered
from penstock.admin.notifications import Action, Notifier
from penstock.admin.permissions import Access
from penstock.cluster.exchange import target
from penstock.cluster.fanout import Warnings
from penstock.core.names import is_valid_name
from penstock.net.http.server.service import Request
from penstock.net.http.server.v1_api import ApiError

BODY_MAX: Final = 64 * 1024
"""Bytes of a message that is published here."""


class PublishBody(Struct):
    """The body of a request: the text of the message; ``node``: empty for any that has the
    topic.
    """

    topic: str = ""
    node: str = ""
    text: str = ""


class Publish:
    """The endpoint."""

    def __init__(self, nodes: KnownNodes, access: Access, notifier: Notifier) -> None:
        self._nodes = nodes
        self._access = access
        self._notifier = notifier

    async def act(self, request: Request) -> Any:
        """Publish to a topic that is there: a mistyped name makes no new one."""
        self._access.check_admin(request)
        body, warnings = read_body(request, PublishBody), Warnings()
        if not is_valid_name(body.topic):
            raise ApiError(400, "INVALID_TOPIC")
        content = body.text.encode()
        if not content:
            raise ApiError(400, "MISSING_TEXT")
        if len(content) > BODY_MAX:
            raise ApiError(400, "TEXT_TOO_LONG")
        having = [each.http_address for each in await self._nodes.of_topic(body.topic, warnings)]
        if body.node and body.node not in having:
            raise ApiError(404, "NODE_NOT_FOUND")
        node = body.node or having[0]
        asked = target("/pub", topic=body.topic)
        await answered(self._nodes.http.post(node, asked, content))
        self._notifier.tell(Action("publish_message", body.topic, node=node), request)
        return {"topic": body.topic, "node": node, "message": warnings.message}
