"""Dead letters that are still to be dealt with: topics that have some, pages and files of them."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Sequence
from typing import Any, Final

from penstock.admin.messages.known_nodes import KnownNodes, answered
from penstock.admin.messages.peek import placed, shown
from penstock.cluster.fanout import Warnings, try_all
from penstock.cluster.http_client import HttpClient
from penstock.cluster.producers import Producer
from penstock.cluster.upstream_errors import NoAnswerError, RefusedError
from penstock.net.http.server.service import Download, Request
from penstock.net.http.server.v1_api import ApiError, Query
from penstock.nsq.dead_letters.listing import DeadTopic, dead_letter_page, topics_of

EXPORTS_AT_ONCE: Final = 8
_PIECE_BYTES: Final = 64 * 1024
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._#%-]")
_TYPES: Final = {
    "json": ("application/x-ndjson", "jsonl"),
    "raw": ("application/octet-stream", "txt"),
}


class DeadLetters:
    """The endpoints that show dead letters."""

    def __init__(self, nodes: KnownNodes) -> None:
        self._nodes = nodes

    async def topics(self, request: Request) -> Any:
        """GET /api/deadletters: the topics over all nodes; those of Go have none."""
        warnings = Warnings()
        topics: dict[str, dict[str, Any]] = {}
        for producer, dead in await self._all(warnings):
            for each in dead:
                row = topics.setdefault(
                    each.topic,
                    {
                        "topic": each.topic,
                        "letters": 0,
                        "is_rocketmq": each.is_rocketmq,
                        "nodes": [],
                    },
                )
                row["letters"] += each.letters
                row["nodes"].append({"node": producer.http_address, "letters": each.letters})
        return {"topics": [topics[name] for name in sorted(topics)], "message": warnings.message}

    async def of_topic(self, topic: str, request: Request) -> Any:
        """GET /api/deadletters/:topic: a page of one node's letters."""
        query, warnings = Query.parse(request.query), Warnings()
        node = query.required("node")
        address = await self._nodes.address(node, warnings)
        place = await placed(self._nodes.http, address, topic, query)
        page = await answered(dead_letter_page(self._nodes.http, address, topic, **place))
        return shown(page, warnings, node=node, topic=topic)

    async def having(self, topic: str, node: str, warnings: Warnings) -> list[tuple[Producer, int]]:
        """The nodes that have this dead-letter topic, and how many letters: one, or (empty) all.

        ApiError 404 TOPIC_NOT_FOUND when no node has it, and for one node what it answers.
        """
        if node:
            producer = await self._nodes.named(node, warnings)
            told = [(producer, await answered(topics_of(self._nodes.http, producer.http_address)))]
        else:
            told = await self._all(warnings)
        found = [
            (producer, each.letters)
            for producer, dead in told
            for each in dead
            if each.topic == topic
        ]
        if not found and warnings.errors and not node:  # who could not be asked may have it
            raise NoAnswerError("\n".join(warnings.errors))
        if not found:
            raise ApiError(404, "TOPIC_NOT_FOUND")
        return found

    async def _all(self, warnings: Warnings) -> list[tuple[Producer, list[DeadTopic]]]:
        """The dead-letter topics of all nodes. Raises NoAnswerError."""
        producers = await self._nodes.all(warnings)
        found = await try_all(producers, self._topics_if_offered)
        if producers and not found.answers:
            raise NoAnswerError("failed to query any nsqd: " + "\n".join(found.errors))
        warnings.add(found.errors)
        return found.answers

    async def _topics_if_offered(self, producer: Producer) -> list[DeadTopic]:
        try:
            return await topics_of(self._nodes.http, producer.http_address)
        except RefusedError as error:
            if not error.is_unknown:
                raise
            return []


class Export:
    """GET /api/deadletters/:topic/export: a topic's letters as a file, streamed page by page."""

    def __init__(self, http: HttpClient, found: DeadLetters) -> None:
        self._http = http
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
        if self._under_way >= EXPORTS_AT_ONCE:
            raise ApiError(503, "TOO_MANY_EXPORTS")

    async def _pieces(
        self, topic: str, addresses: Sequence[str], form: str
    ) -> AsyncGenerator[bytes, None]:
        self._check_room()  # others may have begun since
        self._under_way += 1
        try:
            for address in addresses:
                async for piece in lines(self._http, address, topic, form):
                    yield piece
        finally:
            self._under_way -= 1


async def lines(
    http: HttpClient, address: str, topic: str, form: str
) -> AsyncGenerator[bytes, None]:
    """The letters that a node has now, as lines, some at a time. Raises UpstreamError."""
    from penstock.nsq.dead_letters.export import FORMS, stored_letters  # loads numpy

    line, piece = FORMS[form], bytearray()
    async for letter in stored_letters(http, address, topic):
        piece += line(address, topic, letter)
        if len(piece) >= _PIECE_BYTES:
            yield bytes(piece)
            piece.clear()
    if piece:
        yield bytes(piece)
