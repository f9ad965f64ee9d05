"""A search or a replay as its request names it, and room for few of them at a time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from msgspec import Struct, field

from penstock.admin.messages.known_nodes import KnownNodes
from penstock.admin.messages.logs import Place, begin, logs_of, read_text
from penstock.admin.messages.search.conditions import Condition, condition_of
from penstock.cluster.fanout import Warnings
from penstock.net.http.server.v1_api import ApiError

SCAN: Final = "scan"
"""The kind of the text that says where a walk goes on, and where it ends."""
ALL: Final = "all"


class WalkBody(Struct):
    """The part of a request's body that selects messages.

    ``node``: of this one alone; ``kind``: ``text``, ``regex``, ``json`` or ``all``; ``from`` and
    ``until`` as for a page, or the text of an answer's ``next`` or ``range`` as ``from``.
    """

    topic: str = ""
    node: str = ""
    kind: str = ""
    what: str = ""
    from_: str = field(default="oldest", name="from")
    until: str = "newest"


def condition(body: WalkBody) -> Condition | None:
    """The condition of a body; None: all messages are meant. ApiError 400."""
    return None if body.kind == ALL else condition_of(body.kind, body.what)


async def places(nodes: KnownNodes, body: WalkBody, warnings: Warnings) -> list[Place]:
    """The offsets to be read on each node, of those that its log holds.

    ApiError 400, 404, 501; raises NoAnswerError.
    """
    if not body.topic:
        raise ApiError(400, "MISSING_ARG_TOPIC")
    known = read_text(SCAN, body.from_)
    logs = await logs_of(nodes, body.topic, body.node, warnings, known)
    if known is None:
        first = await begin(nodes.http, logs, body.from_, warnings)
        last = await begin(nodes.http, logs, body.until, warnings)
        return [Place(node, at, last[node]) for node, at in first.items() if node in last]
    warnings.add(
        f"{node} is not searched any further: its log cannot be asked for"
        for node in known
        if node not in logs.held
    )
    return [
        Place(node, logs.clamped(node, at), min(end, logs.held[node].end))
        for node, at, end in known.values()
        if node in logs.held
    ]


class RequestLimit:
    """Room for ``most`` requests at the same time; ApiError 503 with ``code`` for another."""

    def __init__(self, most: int, code: str) -> None:
        self._left = most
        self._code = code

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Take a place until the end of the block."""
        if not self._left:
            raise ApiError(503, self._code)
        self._left -= 1
        try:
            yield
        finally:
            self._left += 1
