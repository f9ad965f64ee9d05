"""POST /api/messages/search: the messages that match, of all nodes, by the time of publishing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from penstock.admin.messages.choice import read_body
from penstock.admin.messages.known_nodes import KnownNodes
from penstock.admin.messages.logs import text_of
from penstock.admin.messages.search.request import SCAN, RequestLimit, WalkBody, condition, places
from penstock.cluster.fanout import Warnings
from penstock.net.http.server.service import Request
from penstock.nsq.page import shown_body

if TYPE_CHECKING:
    from penstock.admin.messages.search.walk import Hit

LIMIT: Final = 50
LIMIT_MAX: Final = 200
PREVIEW: Final = 1024


class SearchBody(WalkBody):
    """``limit``: how many messages at most; 0: they are only counted."""

    limit: int = LIMIT


class Search:
    """The endpoint. One request looks for a second; its answer says where the next one goes on."""

    def __init__(self, nodes: KnownNodes, room: RequestLimit) -> None:
        self._nodes = nodes
        self._room = room

    async def handle(self, request: Request) -> Any:
        """Anybody may search who may look."""
        from penstock.admin.messages.search.walk import COUNTING, Budget, Walk  # loads numpy

        body, warnings = read_body(request, SearchBody), Warnings()
        takes = condition(body)
        found: list[dict[str, Any]] = []

        async def show(hits: Sequence[Hit]) -> None:
            if body.limit > 0:
                found.extend(map(_shown, hits))

        with self._room.taken():
            begun = await places(self._nodes, body, warnings)
            walk = Walk(self._nodes.http, body.topic, begun)
            most = min(body.limit, LIMIT_MAX) if body.limit > 0 else COUNTING
            await walk.run(takes, Budget(most), show)
        warnings.add(
            f"{why}; what is left on this node is not searched" for why in walk.failed.values()
        )
        left = [place for place in walk.places if place.node not in walk.failed]
        return {
            "topic": body.topic,
            "messages": found,
            "found": walk.found,
            "found_bytes": walk.found_bytes,
            "looked_at": walk.looked_at,
            "bytes": walk.nbytes,
            "left": sum(place.end - place.at for place in left),
            "range": text_of(SCAN, begun),
            "next": text_of(SCAN, left) if left else None,
            "message": warnings.message,
        }


def _shown(hit: Hit) -> dict[str, Any]:
    """A message as a page has it, but for the state that only its node knows."""
    node, message = hit
    return {
        "node": node,
        "offset": message.offset,
        "id": message.id,
        "timestamp": message.timestamp_ns,
        "size": len(message.body),
        **shown_body(message.body, PREVIEW),
    }
