"""POST /api/messages/replay: messages of a topic's log are published again, to any topic.

They go to the node whose log they are read from, by multi-publishes. A request sends for some
seconds and says where the next one goes on; what is published while it runs is not read again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct, field

from penstock.admin.messages.choice import IDS_MAX, read_body
from penstock.admin.messages.known_nodes import KnownNodes
from penstock.admin.messages.logs import Place, text_of
from penstock.admin.messages.search.request import SCAN, RequestLimit, WalkBody, condition, places
from penstock.admin.notifications import Action, Notifier
from penstock.admin.permissions import Access
from penstock.cluster.exchange import target
from penstock.cluster.fanout import Warnings
from penstock.cluster.http_client import HttpClient
from penstock.cluster.upstream_errors import UpstreamError
from penstock.core.names import is_valid_name
from penstock.log_api.bounds import bounds_of
from penstock.net.http.server.service import Request
from penstock.net.http.server.v1_api import ApiError
from penstock.nsq.pieces import PIECE_MESSAGES, pieces
from penstock.nsq.protocol.encode import multi_body

if TYPE_CHECKING:
    from penstock.admin.messages.search.walk import Hit
    from penstock.nsq.stored import Stored

SECONDS: Final = 3.0
"""The seconds for which one request sends what matches."""
CHOSEN_SECONDS: Final = 20.0
"""The seconds for which one request sends what was chosen."""


class Chosen(Struct):
    """A message that was chosen; its id tells if the log is still the same."""

    node: str
    offset: int
    id: str


class ReplayBody(WalkBody):
    """``to``: the topic to publish to; ``chosen``: these messages, else all that match."""

    to: str = ""
    chosen: list[Chosen] = field(default_factory=list)


class Replay:
    """The endpoint."""

    def __init__(
        self, nodes: KnownNodes, room: RequestLimit, access: Access, notifier: Notifier
    ) -> None:
        self._nodes = nodes
        self._room = room
        self._access = access
        self._notifier = notifier

    async def act(self, request: Request) -> Any:
        """Send, and answer how many; what a node refuses is a warning, and ``stopped`` is true."""
        self._access.check_admin(request)
        body, warnings = read_body(request, ReplayBody), Warnings()
        if not is_valid_name(body.to):
            raise ApiError(400, "INVALID_TO")
        sender = _Sender(self._nodes.http, body.to)
        with self._room.taken():
            try:
                if body.chosen:
                    told = await self._send_chosen(body, sender, warnings)
                else:
                    told = await self._send_matching(body, sender, warnings)
            finally:
                if sender.sent:
                    self._notifier.tell(Action("replay_messages", body.to), request)
        counts = {"sent": sender.sent, "empty": sender.empty}
        return {"to": body.to, **counts, **told, "message": warnings.message}

    async def _send_matching(
        self, body: ReplayBody, sender: _Sender, warnings: Warnings
    ) -> dict[str, Any]:
        from penstock.admin.messages.search.walk import COUNTING, Budget, Walk  # loads numpy

        takes, refused = condition(body), list[str]()
        walk = Walk(self._nodes.http, body.topic, await places(self._nodes, body, warnings))
        try:
            await walk.run(takes, Budget(COUNTING, seconds=SECONDS), sender.send)
        except UpstreamError as error:
            refused.append(f"{body.to} did not take all: {error}")
        refused += walk.failed.values()
        warnings.add(refused)
        left = list(filter(None, map(sender.behind, walk.places)))
        return {
            "stopped": bool(refused),
            "looked_at": walk.looked_at,
            "left": sum(place.end - place.at for place in left),
            "next": text_of(SCAN, left) if left else None,
        }

    async def _send_chosen(
        self, body: ReplayBody, sender: _Sender, warnings: Warnings
    ) -> dict[str, Any]:
        from penstock.admin.messages.search.walk import Hit  # loads numpy

        if len(body.chosen) > IDS_MAX:
            raise ApiError(400, "TOO_MANY_IDS")
        left = {each.id: each for each in body.chosen}
        by_node: dict[str, list[Chosen]] = {}
        for each in left.values():
            by_node.setdefault(each.node, []).append(each)
        addresses = {node: await self._nodes.address(node, warnings) for node in by_node}
        missing: list[str] = []
        now = asyncio.get_running_loop().time
        ends_at = now() + CHOSEN_SECONDS
        for node, chosen in by_node.items():
            try:
                found = _looked_up(self._nodes.http, addresses[node], body.topic, chosen)
                async for identifier, message in found:
                    if now() >= ends_at:
                        break
                    if message is None:
                        missing.append(identifier)
                    else:
                        await sender.send([Hit(node, message)])
                    del left[identifier]
            except UpstreamError as error:
                warnings.add([str(error)])
        return {
            "stopped": bool(left),
            "left": len(left),
            "unsent": list(left),
            "not_found": missing,
        }


class _Sender:
    """A publisher to one topic. NSQ has no empty messages, so these are counted and left out."""

    def __init__(self, http: HttpClient, topic: str) -> None:
        self._http = http
        self._target = target("/mpub", topic=topic, binary="true")
        self._sent_to: dict[str, int] = {}
        self.sent = 0
        self.empty = 0

    async def send(self, hits: Sequence[Hit]) -> None:
        """Send each message to its node, in order. Raises UpstreamError."""
        for node in dict.fromkeys(hit.node for hit in hits):
            messages = [hit.message for hit in hits if hit.node == node]
            for piece in pieces(messages, PIECE_MESSAGES):
                bodies = [message.body for message in piece if message.body]
                if bodies:
                    await self._http.post(node, self._target, multi_body(bodies))
                self.sent += len(bodies)
                self.empty += len(piece) - len(bodies)
                self._sent_to[node] = piece[-1].offset + 1

    def behind(self, place: Place) -> Place | None:
        """A place without what was sent already; None if nothing is left of it."""
        place = place._replace(at=max(place.at, self._sent_to.get(place.node, 0)))
        return place if place.at < place.end else None


async def _looked_up(
    http: HttpClient, address: str, topic: str, chosen: Sequence[Chosen]
) -> AsyncGenerator[tuple[str, Stored | None], None]:
    """Messages of a node's log, in its order; None for what it does not hold any more."""
    from penstock.nsq.log_reader import LogReader
    from penstock.nsq.stored import StoredRange

    log, held = LogReader(http, address, topic), await bounds_of(http, address, topic)
    for each in sorted(chosen, key=lambda one: one.offset):
        is_held = held.start <= each.offset < held.end
        batch = await log.batch(each.offset) if is_held else None
        if batch is None or not batch.first_offset <= each.offset < batch.next_offset:
            yield each.id, None
            continue
        (message,) = StoredRange(batch, each.offset, each.offset + 1).messages()
        yield each.id, message if message.id == each.id else None
