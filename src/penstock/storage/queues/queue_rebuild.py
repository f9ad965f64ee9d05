"""Messages that no chunk of a queue index has, put in their places again from the log.

Each batch of the log names its queue; which queue offsets its messages have is known

- from the chunk before them, where nothing between is lost;
- from a stored message that states its queue offset;
- from the next whole chunk, backwards.

Where none of that helps, a queue goes on behind its last chunk: that is a guess, and is named so.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Final, Protocol, TypeAlias

import numpy as np

from penstock.core.errors import StorageError
from penstock.core.ranges import RangeSet
from penstock.storage.batch import Batch
from penstock.storage.queues.queue_chunks import Chunk
from penstock.storage.recovery.damage import DamageRecord

# A byte for each offset of a window: 4 MiB, whatever the length of the log.
WINDOW_OFFSETS: Final = 1 << 22
_FIRST_LOG = attrgetter("first_log_offset")

Stated = Callable[[Batch], int | None]
"""The queue offset that the first message of a batch says it has; None when it says nothing."""
WriteChunk: TypeAlias = "Callable[[int, int, array[int]], Chunk]"


class IndexedLog(Protocol):
    """Interface of the log that an index belongs to."""

    id_base: int

    @property
    def damage(self) -> DamageRecord: ...

    @property
    def start_offset(self) -> int: ...

    @property
    def next_offset(self) -> int: ...

    def batches_at(self, offset: int) -> tuple[Sequence[Batch], int]: ...


@dataclass(slots=True)
class Run:
    """Messages of a queue, one behind the other; the first one's queue offset is None until
    something tells it.
    """

    first: int | None
    offsets: array[int] = field(default_factory=lambda: array("q"))


class Rebuild:
    """One walk over the messages that no chunk has. ``lost`` are log offsets nobody can read."""

    def __init__(
        self,
        log: IndexedLog,
        chunks: dict[int, list[Chunk]],
        lost: RangeSet,
        stated: Stated,
        write: WriteChunk,
        chunk_messages: int,
    ) -> None:
        self.tails: dict[int, Run] = {}
        """Messages behind the last chunk of each queue, once the walk has ended."""
        self.guessed: set[int] = set()
        self.found = 0
        """Messages that were taken."""
        self._log = log
        self._chunks = chunks
        self._lost = lost
        self._stated = stated
        self._write = write
        self._chunk_messages = chunk_messages

    def walk(self, low: int, high: int) -> None:
        """Take what is between these log offsets, up to the log's end. Raises StorageError."""
        for first, next_ in missing(self._chunks.values(), low, high):
            self._take_all(first, next_)
        for queue in list(self.tails):
            self._finish(queue)

    def _take_all(self, offset: int, end: int) -> None:
        while offset < end:
            batches, place = self._log.batches_at(offset)
            before = offset
            while place < len(batches) and batches[place].first_offset < end:
                batch = batches[place]
                first = max(batch.first_offset, offset)
                self._lost.add(offset, first)
                offset = min(batch.next_offset, end)
                self._take(batch, first, offset)
                place += 1
            if offset == before:
                self._lost.add(offset, end)
                return

    def _take(self, batch: Batch, first: int, next_: int) -> None:
        queue = batch.queue
        chunks = self._chunks.setdefault(queue, [])
        run = self.tails.get(queue)
        if run is not None and self._is_ended(run, chunks, first):
            self._write_run(queue, run)
            run = None
        if run is None:
            run = self.tails[queue] = Run(self._following(chunks, first))
        if run.first is None:
            stated = self._stated(batch)
            if stated is not None:
                stated += first - batch.first_offset - len(run.offsets)
                run.first = max(stated, _floor(chunks, first))
        run.offsets.extend(range(first, next_))
        self.found += next_ - first
        if len(run.offsets) >= self._chunk_messages and run.first is not None:
            with suppress(StorageError):  # on a full disk, say: what can wait is written later
                self._write_run(queue, run)

    def _is_ended(self, run: Run, chunks: list[Chunk], first: int) -> bool:
        """True if a chunk or a loss is between a run and the message at a log offset."""
        last = run.offsets[-1]
        place = bisect_left(chunks, first, key=_FIRST_LOG)
        if place and chunks[place - 1].first_log_offset > last:
            return True
        return run.first is not None and self._is_lost(last, first)

    def _is_lost(self, low: int, high: int) -> bool:
        found = self._lost.first_from(low)
        return found is not None and found[0] < high

    def _following(self, chunks: list[Chunk], first: int) -> int | None:
        """The queue offset behind what is before a log offset, if all that is between is known."""
        place = bisect_left(chunks, first, key=_FIRST_LOG)
        low = chunks[place - 1].last_log_offset + 1 if place else 0
        return None if self._is_lost(low, first) else _floor(chunks, first)

    def _write_run(self, queue: int, run: Run) -> None:
        """Make a chunk of a run. Raises StorageError; nothing changes then."""
        chunks = self._chunks[queue]
        place = bisect_left(chunks, run.offsets[0], key=_FIRST_LOG)
        # Backwards from the chunk behind it, but never over what the queue has before.
        if run.first is None:
            backwards = chunks[place].first_offset - len(run.offsets)
            run.first = max(_floor(chunks, run.offsets[0]), backwards)
        chunks.insert(place, self._write(queue, run.first, run.offsets))
        del self.tails[queue]

    def _finish(self, queue: int) -> None:
        run, chunks = self.tails[queue], self._chunks[queue]
        if chunks and chunks[-1].first_log_offset > run.offsets[-1]:
            self._write_run(queue, run)
        elif run.first is None:
            self.guessed.add(queue)
            run.first = _floor(chunks, run.offsets[0])


def _floor(chunks: list[Chunk], log_offset: int) -> int:
    """The first queue offset that is left for a message at a log offset."""
    place = bisect_left(chunks, log_offset, key=_FIRST_LOG)
    return chunks[place - 1].next_offset if place else 0


def batches_of(log: IndexedLog) -> Iterator[Batch]:
    """All that can be read. Raises StorageError."""
    offset = log.start_offset
    while offset < log.next_offset:
        batches, place = log.batches_at(offset)
        if place >= len(batches):
            return
        yield from batches[place:]
        offset = batches[-1].next_offset


def missing(queues: Iterable[Sequence[Chunk]], low: int, high: int) -> Iterator[tuple[int, int]]:
    """The ranges of log offsets that are in no chunk. Raises StorageError."""
    chunks = [chunk for queue in queues for chunk in queue]
    for start in range(low, high, WINDOW_OFFSETS):
        end = min(start + WINDOW_OFFSETS, high)
        is_missing = np.zeros(end - start + 2, np.int8)
        is_missing[1:-1] = 1
        for chunk in chunks:
            if chunk.first_log_offset < end and chunk.last_log_offset >= start:
                offsets = np.frombuffer(chunk.log_offsets(), np.int64)
                inside = offsets[(offsets >= start) & (offsets < end)]
                is_missing[inside - start + 1] = 0
        borders = (np.flatnonzero(np.diff(is_missing)) + start).tolist()
        yield from zip(borders[::2], borders[1::2], strict=True)


def count_between(queues: Iterable[Sequence[Chunk]], low: int, high: int) -> int:
    """Count the log offsets between these that are in some chunk. Raises StorageError."""
    count = 0
    for chunks in queues:
        for chunk in chunks:
            if low <= chunk.first_log_offset and chunk.last_log_offset < high:
                # A chunk that stands for lost messages has one log offset, many times.
                count += min(chunk.count, chunk.last_log_offset - chunk.first_log_offset + 1)
            elif chunk.first_log_offset < high and chunk.last_log_offset >= low:
                offsets = chunk.log_offsets()
                count += bisect_left(offsets, high) - bisect_left(offsets, low)
    return count
