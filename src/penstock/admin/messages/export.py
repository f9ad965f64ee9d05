"""GET /api/deadletters/:topic/export: a topic's letters as a file, streamed page by page."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Sequence
from typing import TYPE_CHECKING, Annotated, Final

from msgspec import Meta, Struct

from penstock.admin.cluster.asker import Asker, UpstreamError
from penstock.admin.cluster.fanout import Warnings
from penstock.admin.messages.letters import Letters, open_letters
from penstock.admin.messages.nodes import target
from penstock.net.http import Download, Request
from penstock.nsq.dead_letters.runs import Run, joined
from penstock.nsq.http_api import ApiError, Query

if TYPE_CHECKING:
    from penstock.admin.messages.log import LogReader
    from penstock.nsq.stored import Stored

AT_ONCE: Final = 8
_PAGE: Final = 1000
_PIECE_BYTES: Final = 64 * 1024
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._#%-]")
_TYPES: Final = {
    "json": ("application/x-ndjson", "jsonl"),
    "raw": ("application/octet-stream", "txt"),
}


class Queue(Struct):
    """The offsets that a node's log holds: from `start` up to, not including, `end`."""

    start: int
    end: int


class Offsets(Struct):
    """The answer of /log/offsets, as far as it is read."""

    queues: Annotated[list[Queue], Meta(min_length=1)]


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
    from penstock.admin.messages.log import LogReader
    from penstock.nsq.dead_letters.export import FORMS

    log, line = LogReader(asker, address, topic), FORMS[form]
    async for runs in _open_runs(asker, address, topic):
        piece = bytearray()
        async for letter in _read(log, runs):
            piece += line(address, topic, letter)
            if len(piece) >= _PIECE_BYTES:
                yield bytes(piece)
                piece.clear()
        if piece:
            yield bytes(piece)


async def _open_runs(asker: Asker, address: str, topic: str) -> AsyncGenerator[Sequence[Run], None]:
    """The offsets that are left, page by page; all that the log holds while there is no channel."""
    offsets = await asker.get(address, target("/log/offsets", topic=topic), Offsets)
    queue = offsets.queues[0]
    at: int | str | None = queue.start
    while isinstance(at, int) and at < queue.end:
        page = await open_letters(asker, address, topic, from_=at, limit=_PAGE, preview=0)
        if page is None:
            yield [Run(at, queue.end)]
            return
        yield joined(each.offset for each in page.messages if each.offset < queue.end)
        if isinstance(page.next, int) and page.next <= at:
            raise UpstreamError(f"{address}: the page after {at} is that of {page.next}")
        at = page.next


async def _read(log: LogReader, runs: Sequence[Run]) -> AsyncGenerator[Stored, None]:
    """The letters at these offsets; what a damaged disk has lost is left out."""
    from penstock.nsq.stored import Stretch

    for run in runs:
        at = run.first
        while at < run.next:
            batch = await log.batch(at)
            if batch is None:
                return
            first, at = max(at, batch.first_offset), min(run.next, batch.next_offset)
            if first < at:
                for letter in Stretch(batch, first, at).messages():
                    yield letter
