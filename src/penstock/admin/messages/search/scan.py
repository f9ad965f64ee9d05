"""The logs of a topic on several nodes read as one, in the order of publishing.

Batches are fetched as they are stored and taken apart here, so that a search costs the nodes no
more than a reader of their logs does. Needs numpy; import it late.
"""

from __future__ import annotations

import heapq
from collections.abc import AsyncGenerator, Iterator, Sequence
from typing import Final, NamedTuple

from penstock.admin.messages.places import Place
from penstock.cluster.asker import Asker
from penstock.cluster.errors import UpstreamError
from penstock.cluster.fanout import try_all
from penstock.nsq.dead_letters.topic_log import LogReader
from penstock.nsq.stored import Stretch

PIECE_BYTES: Final = 256 * 1024
PIECE_MESSAGES: Final = 4096


class Run(NamedTuple):
    """Messages of one node that follow each other."""

    node: str
    stretch: Stretch

    @property
    def size(self) -> int:
        """The number of messages."""
        return self.stretch.next - self.stretch.first


class Scan:
    """A scan from ``places`` on up to their ends; ``failed`` says why a node was not read
    further.
    """

    def __init__(self, asker: Asker, topic: str, places: Sequence[Place]) -> None:
        self._logs = {each.node: LogReader(asker, each.node, topic) for each in places}
        self._places = {each.node: each for each in places}
        self.failed: dict[str, str] = {}

    async def pieces(self) -> AsyncGenerator[list[Run], None]:
        """The stretches in the order of time, about 256 KiB or 4,096 messages together."""
        told = await try_all(list(self._places), self._next)
        heap = [(stretch.batch.timestamp_ns, node, stretch)
                for node, stretch in told.answers if stretch is not None]  # fmt: skip
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

    async def _next(self, node: str) -> Stretch | None:
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
        stretch = Stretch(
            batch, max(place.at, batch.first_offset), min(place.end, batch.next_offset)
        )
        self._places[node] = place._replace(at=stretch.next)
        return stretch


def _size(stretch: Stretch) -> int:
    """About how many bytes its messages have."""
    batch = stretch.batch
    return len(batch.frames) * (stretch.next - stretch.first) // batch.count


def _cut(stretch: Stretch) -> Iterator[Stretch]:
    """Parts of a large batch that are no larger than a piece is to be."""
    parts = max(1, _size(stretch) // PIECE_BYTES)
    step = min(PIECE_MESSAGES, -(-(stretch.next - stretch.first) // parts))
    for first in range(stretch.first, stretch.next, step):
        yield stretch._replace(first=first, next=min(first + step, stretch.next))
