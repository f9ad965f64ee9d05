"""A writer that stages parts at an nsqd and commits them."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from typing import Any

from penstock.nsq.stored import StoredRange
from penstock.storage.batch import iter_batches
from tests.programs.nsq.nsqd.conftest import Running

Told = tuple[int, dict[str, Any]]
"""A status and the JSON of an answer."""


def staged_body(*messages: bytes | tuple[bytes, int]) -> bytes:
    """A chunk: bodies, perhaps with delays in ms."""
    parts = [struct.pack(">I", len(messages))]
    for each in messages:
        body, delay = each if isinstance(each, tuple) else (each, 0)
        parts.append(struct.pack(">II", len(body), delay) + body)
    return b"".join(parts)


class Writer:
    """One writer at one node."""

    def __init__(
        self, running: Running, name: str = "w", topic: str = "t", scope: str = ""
    ) -> None:
        self.running = running
        self.name = name
        self.topic = topic
        self.scope = f"&scope={scope}" if scope else ""

    async def stage(
        self,
        batch: int,
        *messages: bytes | tuple[bytes, int],
        part: int = 0,
        attempt: int = 0,
        chunk: int = 0,
        topic: str = "",
        body: bytes | None = None,
    ) -> Told:
        place = f"part={part}&attempt={attempt}&chunk={chunk}{self.scope}"
        path = f"/stage?topic={topic or self.topic}&writer={self.name}&batch={batch}&{place}"
        return await self._post(path, staged_body(*messages) if body is None else body)

    async def commit(self, batch: int, *attempts: tuple[int, int, int], topic: str = "") -> Told:
        """Commit attempts at parts, each with its number of chunks; one chunk of part 0 if none."""
        return await self.commit_many(batch, {topic or self.topic: attempts or [(0, 0, 1)]})

    async def commit_many(
        self, batch: int, topics: Mapping[str, Sequence[tuple[int, int, int]]]
    ) -> Told:
        named = {
            topic: [{"part": p, "attempt": a, "chunks": c} for p, a, c in attempts]
            for topic, attempts in topics.items()
        }
        body = json.dumps({"topics": named}).encode()
        return await self._post(f"/stage/commit?writer={self.name}&batch={batch}", body)

    async def decide(
        self, batch: int, *attempts: tuple[int, int], chunks: int, node: str = "a:1"
    ) -> Told:
        """Decide on attempts at parts, which have so many chunks here."""
        nodes = [{"address": node, "chunks": chunks}]
        body = json.dumps({"nodes": nodes, "attempts": attempts}).encode()
        path = f"/stage/decide?writer={self.name}&batch={batch}&chunks={chunks}{self.scope}"
        return await self._post(path, body)

    async def decision(self) -> Any:
        """The writer's last decision."""
        path = f"/stage/decision?writer={self.name}{self.scope}"
        return (await self.running.json(path))["decision"]

    async def commit_decided(self, batch: int) -> Told:
        path = f"/stage/commit?writer={self.name}&batch={batch}&decided=true{self.scope}"
        return await self._post(path)

    async def abort(self, batch: int, *, decided: bool = False) -> Told:
        more = "&decided=true" if decided else ""
        return await self._post(f"/stage/abort?writer={self.name}&batch={batch}{more}")

    async def _post(self, path: str, body: bytes = b"") -> Told:
        status, answer = await self.running.post(path, body)
        return status, json.loads(answer)

    async def bodies(self, topic: str = "") -> list[bytes]:
        """All messages of the topic's log."""
        return await bodies_of(self.running, topic or self.topic)

    async def rows(self) -> list[dict[str, Any]]:
        """The rows of GET /stage."""
        rows: list[dict[str, Any]] = (await self.running.json("/stage"))["writers"]
        return rows


async def bodies_of(running: Running, topic: str) -> list[bytes]:
    """All messages of a topic's log."""
    bounds = (await running.json(f"/log/offsets?topic={topic}"))["queues"][0]
    offset, found = bounds["start"], []
    while offset < bounds["end"]:
        status, data = await running.get(f"/log/fetch?topic={topic}&offset={offset}")
        assert status == 200, data
        for batch in iter_batches(data):
            found += StoredRange(batch, batch.first_offset, batch.next_offset).bodies()
            offset = batch.next_offset
    return found
