"""Pages of a topic's messages over all nodes: what each node's log holds, merged by time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec

from penstock.admin.messages.logs import Logs, begin, logs_of
from penstock.admin.messages.merging import Part, merge
from penstock.admin.messages.nodes import Nodes
from penstock.admin.messages.places import Place, read_text, text_of
from penstock.cluster.asker import Asker
from penstock.cluster.errors import NoAnswerError
from penstock.cluster.exchange import target
from penstock.cluster.fanout import Warnings, try_all
from penstock.nsq.log_bounds import Bounds
from penstock.nsq.page import Page

LIMIT_MAX: Final = 200
"""Messages of a page; each node is asked for as many."""
BEFORE: Final = "before"
AFTER: Final = "after"


class Wish(NamedTuple):
    """A page of a topic: from where, at most how many messages, and what of their bodies."""

    topic: str
    start: str
    limit: int
    preview: str | None


async def page_of_all(nodes: Nodes, wish: Wish) -> dict[str, Any]:
    """The answer of the API. ApiError 400, 404, 501; raises NoAnswerError."""
    warnings = Warnings()
    places = read_text(BEFORE, wish.start) or read_text(AFTER, wish.start)
    logs = await logs_of(nodes, wish.topic, "", warnings)
    if places is None:
        at = await begin(nodes.asker, logs, wish.start, warnings)
    else:
        at = {node: logs.clamped(node, place.at) for node, place in places.items()
              if node in logs.held}  # fmt: skip
    back = wish.start == "newest" or wish.start.startswith(f"{BEFORE}:")

    async def ask(node: str) -> Part:
        share = _Share(nodes.asker, node, wish, at[node], logs.held[node])
        return await (share.before() if back else share.after())

    told = await try_all(at, ask)
    if at and not told.answers:
        raise NoAnswerError("\n".join(told.errors))
    warnings.add(told.errors)
    page = merge([part for _, part in told.answers], wish.limit, back=back)
    started = {node: at[node] for node in page.at}
    earlier, later = (page.at, started) if back else (started, page.at)
    return {
        "topic": wish.topic,
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

    asker: Asker
    node: str
    wish: Wish
    at: int
    held: Bounds

    async def after(self) -> Part:
        """The messages from there on."""
        page = await self._peek(self.at, self.wish.limit)
        end = page.messages[-1].offset + 1 if page.messages else self.at
        is_all = not isinstance(page.next, int)
        edge = page.next if isinstance(page.next, int) else max(end, self.held.end)
        return Part(self.node, self.at, page.messages, edge, is_all)

    async def before(self) -> Part:
        """The messages before it. A page that a node ends early has those furthest away: fewer are
        asked for then.
        """
        size = min(self.wish.limit, self.at - self.held.start)
        found: list[Any] = []
        while size > 0:
            first = self.at - size
            page = await self._peek(first, size)
            if not isinstance(page.next, int) or page.next >= self.at or size == 1:
                found = [each for each in page.messages if each.offset < self.at]
                break
            size = max(1, min(page.next - first, size // 2))
        edge = self.at - size
        return Part(self.node, self.at, found, edge, edge <= self.held.start)

    async def _peek(self, first: int, limit: int) -> Page:
        asked = target("/topic/peek", topic=self.wish.topic, from_=first, limit=limit,
                       preview=self.wish.preview)  # fmt: skip
        return await self.asker.get(self.node, asked, Page)
