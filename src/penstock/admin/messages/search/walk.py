"""A bounded walk over a topic's logs: what matches is handed on, and where it stopped is known.

One request looks at a bounded number of messages and bytes for a bounded time, and the answer says
where the next one goes on. So a search of any length shows its progress, and ends as soon as nobody
asks any more. Needs numpy; import it late.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from typing import Final, NamedTuple

from penstock.admin.messages.logs import Place
from penstock.admin.messages.search.conditions import Condition
from penstock.cluster.fanout import try_all
from penstock.cluster.http_client import HttpClient
from penstock.cluster.upstream_errors import UpstreamError
from penstock.nsq.log_reader import LogReader
from penstock.nsq.stored import Stored, StoredRange

PIECE_BYTES: Final = 256 * 1024
PIECE_MESSAGES: Final = 4096


class Run(NamedTuple):
    """Messages of one node that follow each other."""

    node: str
    stretch: StoredRange

    @property
    def size(self) -> int:
        """The number of messages."""
        return self.stretch.next - self.stretch.first


class Scan:
    """A scan from ``places`` on up to their ends; ``failed`` says why a node was not read
    further.
    """

    def __init__(self, http: HttpClient, topic: str, places: Sequence[Place]) -> None:
        self._logs = {each.node: LogReader(http, each.node, topic) for each in places}
        self._places = {each.node: each for each in places}
        self.failed: dict[str, str] = {}

    async def pieces(self) -> AsyncGenerator[list[Run], None]:
        """The stretches in the order of time, about 256 KiB or 4,096 messages together."""
        told = await try_all(list(self._places), self._next)
        heap = [
            (stretch.batch.timestamp_ns, node, stretch)
            for node, stretch in told.answers
            if stretch is not None
        ]
        # Each node has one stretch here at a time, so two stretches are never compared.
        heapq.heapify(heap)
        piece: list[Run] = []
        nbytes = messages = 0
        while heap:
            _, node, stretch = heapq.heappop(heap)
            for part in _cut(stretch):
                piece.append(Run(node, part))
                nbytes += _size(part)
                messages += part.next - part.first
                if nbytes >= PIECE_BYTES or messages >= PIECE_MESSAGES:
                    yield piece
                    piece, nbytes, messages = [], 0, 0
            following = await self._next(node)
            if following is not None:
                heapq.heappush(heap, (following.batch.timestamp_ns, node, following))
        if piece:
            yield piece

    async def _next(self, node: str) -> StoredRange | None:
        """The wanted part of a node's next batch; None at the end."""
        try:
            place = self._places[node]
            batch = await self._logs[node].batch(place.at) if place.at < place.end else None
        except UpstreamError as error:
            self.failed[node] = str(error)
            return None
        if batch is None or batch.first_offset >= place.end:
            self._places[node] = place._replace(at=place.end)
            return None
        stretch = StoredRange(
            batch, max(place.at, batch.first_offset), min(place.end, batch.next_offset)
        )
        self._places[node] = place._replace(at=stretch.next)
        return stretch


def _size(stretch: StoredRange) -> int:
    """About how many bytes its messages have."""
    batch = stretch.batch
    return len(batch.frames) * (stretch.next - stretch.first) // batch.count


def _cut(stretch: StoredRange) -> Iterator[StoredRange]:
    """Parts of a large batch that are not larger than a piece is to be."""
    parts = max(1, _size(stretch) // PIECE_BYTES)
    step = min(PIECE_MESSAGES, -(-(stretch.next - stretch.first) // parts))
    for first in range(stretch.first, stretch.next, step):
        yield stretch._replace(first=first, next=min(first + step, stretch.next))


COUNTING: Final = 1 << 62
"""The ``found`` of a walk that ends with the log."""


class Budget(NamedTuple):
    """The most that one request does: it ends with the piece in which one of them is reached."""

    found: int
    messages: int = 200_000
    nbytes: int = 64 << 20
    seconds: float = 1.0


class Hit(NamedTuple):
    """A message that matches, and its node."""

    node: str
    message: Stored


Handle = Callable[[Sequence[Hit]], Awaitable[None]]


class Walk:
    """One request's part of a walk. Its figures are right also after an exception."""

    def __init__(self, http: HttpClient, topic: str, places: Sequence[Place]) -> None:
        self._scan = Scan(http, topic, places)
        self._places = {each.node: each for each in places}
        self.looked_at = 0
        self.nbytes = 0
        self.found = self.found_bytes = 0

    async def run(self, condition: Condition | None, budget: Budget, handle: Handle) -> None:
        """Hand on what matches (None: everything), some at a time, in the order of time.

        Raises what ``handle`` does: the walk then stands before what that was given.
        """
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + budget.seconds
        async for piece in self._scan.pieces():
            bodies = [body for run in piece for body in run.stretch.bodies()]
            matching: Sequence[int] = range(len(bodies))
            if condition is not None:  # in a thread: an expression may take its time
                matching = await asyncio.to_thread(_matching, condition, bodies)
            done = len(bodies)
            if len(matching) >= budget.found - self.found:
                matching = matching[: budget.found - self.found]
                done = matching[-1] + 1
            if matching:
                await handle(list(_hits(piece, matching)))
            self.found += len(matching)
            self.found_bytes += sum(len(bodies[at]) for at in matching)
            self._advance(piece, done)
            self.nbytes += sum(map(len, bodies[:done]))
            is_over = self.found >= budget.found or loop.time() >= ends_at
            if is_over or self.looked_at >= budget.messages or self.nbytes >= budget.nbytes:
                return
        self._end()

    @property
    def places(self) -> list[Place]:
        """The places that are left, one a node."""
        return [place for place in self._places.values() if place.at < place.end]

    @property
    def failed(self) -> dict[str, str]:
        """The nodes that were not read to their end, and why."""
        return self._scan.failed

    def _advance(self, piece: Sequence[Run], count: int) -> None:
        self.looked_at += count
        for run in piece:
            if count <= 0:
                return
            at = run.stretch.first + min(count, run.size)
            self._places[run.node] = self._places[run.node]._replace(at=at)
            count -= run.size

    def _end(self) -> None:
        """All was read, but for what a damaged disk has lost and what failed."""
        for node, place in self._places.items():
            if node not in self.failed:
                self._places[node] = place._replace(at=place.end)


def _matching(condition: Condition, bodies: Sequence[bytes]) -> list[int]:
    return [at for at, body in enumerate(bodies) if condition(body)]


def _hits(piece: Sequence[Run], matching: Sequence[int]) -> Iterator[Hit]:
    """The messages at these places of a piece."""
    wanted, first = iter(matching), 0
    at = next(wanted, None)
    for run in piece:
        while at is not None and at < first + run.size:
            offset = run.stretch.first + at - first
            (message,) = run.stretch._replace(first=offset, next=offset + 1).messages()
            yield Hit(run.node, message)
            at = next(wanted, None)
        first += run.size
