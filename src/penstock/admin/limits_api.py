"""/api/limits: limits, retention and attempts of a topic or a channel on all nodes that have it."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import Struct, field

from penstock.admin.messages.choice import read_body
from penstock.admin.messages.known_nodes import KnownNodes, refusal
from penstock.admin.notifications import Action, Notifier
from penstock.admin.permissions import Access
from penstock.admin.read_api import answering
from penstock.admin.router import AdminRouter
from penstock.cluster.cluster import Cluster
from penstock.cluster.exchange import target
from penstock.cluster.fanout import Warnings, try_all
from penstock.cluster.upstream_errors import NoAnswerError, RefusedError
from penstock.net.http.server.service import Request
from penstock.net.http.server.v1_api import ApiError, Query

TOPIC: Final = frozenset(
    ("max_depth", "max_bytes", "overflow", "retention_time", "retention_bytes")
)
CHANNEL: Final = frozenset(("max_attempts", "dead_letter_topic"))
NOT_OFFERED: Final = "has no settings of topics: it is a Go nsqd, or of an older version"
_MISSING: Final = ("TOPIC_NOT_FOUND", "CHANNEL_NOT_FOUND")


class LimitsBody(Struct):
    """The body of a request: what changes; null is as the node's flags say, 0 switches off."""

    topic: str = ""
    channel: str = ""
    change: dict[str, int | str | None] = field(default_factory=dict)


class LimitsApi:
    """The endpoints."""

    def __init__(self, cluster: Cluster, access: Access, notifier: Notifier) -> None:
        self._nodes = KnownNodes(cluster)
        self._access = access
        self._notifier = notifier

    def add_routes(self, router: AdminRouter) -> None:
        router.v1("GET", "/api/limits", answering(self._shown))
        router.v1("POST", "/api/limits", answering(self._change))

    async def _shown(self, request: Request) -> Any:
        query = Query.parse(request.query)
        topic, channel = query.required("topic"), query.get("channel") or ""
        warnings = Warnings()
        found = await self._on_nodes(_target(topic, channel), topic, warnings)
        nodes = [{"node": node, **settings} for node, settings in found.items()]
        return {"topic": topic, "channel": channel, "nodes": nodes, "message": warnings.message}

    async def _change(self, request: Request) -> Any:
        """Each node keeps what is not named, as its own API replaces all settings at once."""
        self._access.check_admin(request)
        body, warnings = read_body(request, LimitsBody), Warnings()
        if not body.change or not body.change.keys() <= (CHANNEL if body.channel else TOPIC):
            raise ApiError(400, "INVALID_BODY")
        asked = _target(body.topic, body.channel)
        before = await self._on_nodes(asked, body.topic, warnings)

        async def change(node: str) -> None:
            wanted = msgspec.json.encode({**before[node]["set"], **body.change})
            try:
                await self._nodes.http.post(node, asked, wanted)
            except RefusedError as error:
                if error.status == 400:  # the value is wrong, and so it is on every node
                    raise refusal(error) from error
                raise

        told = await try_all(before, change)
        if not told.answers:
            raise NoAnswerError("\n".join(told.errors))
        action = "configure_channel" if body.channel else "configure_topic"
        self._notifier.tell(Action(action, body.topic, body.channel), request)
        warnings.add(told.errors)
        return {"changed": [node for node, _ in told.answers], "message": warnings.message}

    async def _on_nodes(
        self, asked: str, topic: str, warnings: Warnings
    ) -> dict[str, dict[str, Any]]:
        """The settings of each node; ApiError 404 where none has the topic or the channel."""
        addresses = [each.http_address for each in await self._nodes.of_topic(topic, warnings)]

        async def ask(address: str) -> dict[str, Any] | str | None:
            try:
                return await self._nodes.http.get(address, asked, dict)
            except RefusedError as error:
                if error.code in _MISSING:
                    return None
                if error.is_unknown:
                    return NOT_OFFERED
                raise

        told = await try_all(addresses, ask)
        warnings.add(told.errors)
        warnings.add(f"{node} {why}" for node, why in told.answers if isinstance(why, str))
        found = {node: each for node, each in told.answers if isinstance(each, dict)}
        if not found and told.errors:
            raise NoAnswerError("\n".join(told.errors))
        if not found and all(isinstance(each, str) for _, each in told.answers):
            raise ApiError(501, "NOT_OFFERED")
        if not found:
            raise ApiError(404, "CHANNEL_NOT_FOUND")
        return found


def _target(topic: str, channel: str) -> str:
    if channel:
        return target("/channel/config", topic=topic, channel=channel)
    return target("/topic/config", topic=topic)
