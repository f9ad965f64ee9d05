"""GET /api/deadletters/:topic/export: a topic's letters as a file, streamed page by page."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Sequence
from typing import Final

from penstock.admin.messages.letters import Letters
from penstock.cluster.asker import Asker
from penstock.cluster.fanout import Warnings
from penstock.net.http.server.api import ApiError, Query
from penstock.net.http.server.service import Download, Request

AT_ONCE: Final = 8
_PIECE_BYTES: Final = 64 * 1024
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._#%-]")
_TYPES: Final = {
    "json": ("application/x-ndjson", "jsonl"),
    "raw": ("application/octet-stream", "txt"),
}


class Export:
    """The endpoint."""

    def __init__(self, asker: Asker, found: Letters) -> None:
        self._asker = asker
        self._letters = found
        self._under_way = 0

    async def download(self, topic: str, request: Request) -> Download:
        """The letters of one node, or of all; all of them must be there to be asked."""
        query, warnings = Query.parse(request.query), Warnings()
        form = query.get("form") or "json"
        if form not in _TYPES:
            raise ApiError(400, "INVALID_ARG_FORM")
        self._check_room()
        having = await self._letters.having(topic, query.get("node") or "", warnings)
        if warnings.errors:  # a file does not say what is missing in it
            raise ApiError(502, "UPSTREAM_ERROR: " + "\n".join(warnings.errors))
        kind, ending = _TYPES[form]
        name = f"{_UNSAFE.sub('_', topic)}.{ending}"
        headers = (
            ("Content-Disposition", f'attachment; filename="{name}"'),
            ("Cache-Control", "no-store"),
            ("X-Content-Type-Options", "nosniff"),
        )
        addresses = [node.http_address for node, _ in having]
        pieces = self._pieces(topic, addresses, form)
        return Download(kind, pieces, headers, is_chunked=not request.head.is_http10)

    def _check_room(self) -> None:
        if self._under_way >= AT_ONCE:
            raise ApiError(503, "TOO_MANY_EXPORTS")

    async def _pieces(
        self, topic: str, addresses: Sequence[str], form: str
    ) -> AsyncGenerator[bytes, None]:
        self._check_room()  # others may have begun since
        self._under_way += 1
        try:
            for address in addresses:
                async for piece in lines(self._asker, address, topic, form):
                    yield piece
        finally:
            self._under_way -= 1


async def lines(asker: Asker, address: str, topic: str, form: str) -> AsyncGenerator[bytes, None]:
    """The letters that a node has now, as lines, some at a time. Raises UpstreamError."""
    from penstock.nsq.dead_letters.export import FORMS
    from penstock.nsq.dead_letters.topic_log import stored_letters

    line, piece = FORMS[form], bytearray()
    async for letter in stored_letters(asker, address, topic):
        piece += line(address, topic, letter)
        if len(piece) >= _PIECE_BYTES:
            yield bytes(piece)
            piece.clear()
    if piece:
        yield bytes(piece)
