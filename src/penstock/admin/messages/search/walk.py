"""A bounded walk over a topic's logs: what matches is handed on, and where it stopped is known.

One request looks at a bounded number of messages and bytes for a bounded time, and the answer says
where the next one goes on. So a search of any length shows its progress, and ends as soon as nobody
asks any more. Needs numpy; import it late.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Final, NamedTuple

from penstock.admin.messages.places import Place
from penstock.admin.messages.search.conditions import Condition
from penstock.admin.messages.search.scan import Run, Scan
from penstock.cluster.asker import Asker
from penstock.nsq.stored import Stored

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

    def __init__(self, asker: Asker, topic: str, places: Sequence[Place]) -> None:
        self._scan = Scan(asker, topic, places)
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
