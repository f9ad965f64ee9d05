"""/api/rewind: a channel goes on from another place of the log, after a look at what that does."""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct, field

from penstock.admin.messages.choice import read_body
from penstock.admin.messages.known_nodes import KnownNodes
from penstock.admin.messages.logs import NO_LOG, NODES_MAX, time_ns
from penstock.admin.notifications import Action, Notifier
from penstock.admin.permissions import Access
from penstock.cluster.exchange import target
from penstock.cluster.fanout import Warnings, try_all
from penstock.cluster.upstream_errors import NoAnswerError, RefusedError
from penstock.net.http.server.service import Request
from penstock.net.http.server.v1_api import ApiError, Query

OLD: Final = "cannot preview a rewind: it is of an older version"
GONE: Final = "does not hold the offset {} any more: nothing was changed there, look again"
_MISSING: Final = ("TOPIC_NOT_FOUND", "CHANNEL_NOT_FOUND")


class Effect(Struct):
    """The answer of a node: the place, and the messages that are delivered, again, or never."""

    offset: int
    delivered: int
    again: int
    skipped: int


class RewindBody(Struct):
    """The body of a request: the offset on each node that a preview named."""

    topic: str = ""
    channel: str = ""
    offsets: dict[str, int] = field(default_factory=dict)


class Rewind:
    """The endpoints."""

    def __init__(self, nodes: KnownNodes, access: Access, notifier: Notifier) -> None:
        self._nodes = nodes
        self._access = access
        self._notifier = notifier

    async def preview(self, request: Request) -> Any:
        """GET: what would come of it on each node that has the channel; nothing changes."""
        query, warnings = Query.parse(request.query), Warnings()
        topic, channel = query.required("topic"), query.required("channel")
        asked = target(
            "/channel/seek", topic=topic, channel=channel, **_position(query.required("from"))
        )
        addresses = [each.http_address for each in await self._nodes.of_topic(topic, warnings)]

        async def ask(address: str) -> Effect | str | None:
            try:
                return await self._nodes.http.get(address, asked, Effect)
            except RefusedError as error:
                if error.code in _MISSING:
                    return None
                if error.is_unknown:
                    return NO_LOG
                # Older nodes have the path for POST alone.
                if error.status == 405:
                    return OLD
                raise

        told = await try_all(addresses, ask)
        if not told.answers:
            raise NoAnswerError("\n".join(told.errors))
        warnings.add(told.errors)
        warnings.add(f"{node} {why}" for node, why in told.answers if isinstance(why, str))
        effects = {node: each for node, each in told.answers if isinstance(each, Effect)}
        if not effects and not warnings.errors:
            raise ApiError(404, "CHANNEL_NOT_FOUND")
        return {
            "topic": topic,
            "channel": channel,
            "nodes": [
                {
                    "node": node,
                    "offset": each.offset,
                    "delivered": each.delivered,
                    "again": each.again,
                    "skipped": each.skipped,
                }
                for node, each in effects.items()
            ],
            "message": warnings.message,
        }

    async def act(self, request: Request) -> Any:
        """POST: each node goes on from the offset that is given for it, and no other."""
        self._access.check_admin(request)
        body, warnings = read_body(request, RewindBody), Warnings()
        if not body.offsets:
            raise ApiError(400, "MISSING_OFFSETS")
        if len(body.offsets) > NODES_MAX or min(body.offsets.values()) < 0:
            raise ApiError(400, "INVALID_OFFSETS")
        found = await self._nodes.of_topic(body.topic, warnings)
        # The names come from a browser: only nodes of the cluster are posted to.
        if not body.offsets.keys() <= {each.http_address for each in found}:
            raise ApiError(404, "NODE_NOT_FOUND")
        refused: list[str] = []

        async def move(node: str) -> bool:
            offset = body.offsets[node]
            asked = target("/channel/seek", topic=body.topic, channel=body.channel, offset=offset)
            try:
                await self._nodes.http.post(node, asked)
            except RefusedError as error:
                # The log has let go of the offset since the preview.
                if error.status != 416:
                    raise
                refused.append(f"{node} {GONE.format(offset)}")
                return False
            return True

        told = await try_all(body.offsets, move)
        moved = [node for node, is_moved in told.answers if is_moved]
        if moved:
            self._notifier.tell(Action("rewind_channel", body.topic, body.channel), request)
        elif told.errors:
            raise NoAnswerError("\n".join(told.errors))
        warnings.add([*refused, *told.errors])
        return {"moved": moved, "message": warnings.message}


def _position(text: str) -> dict[str, object]:
    """The place as a node is asked for it; ApiError 400 INVALID_ARG_FROM."""
    if text in ("oldest", "newest"):
        return {"from_": text.replace("newest", "latest")}
    time = time_ns(text)
    if time is None:
        raise ApiError(400, "INVALID_ARG_FROM")
    return {"timestamp_ns": time}
