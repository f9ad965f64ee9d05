"""The state of an index of queues as its files were found: whole, short of what a power cut took,
which the log still has, or damaged.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from itertools import pairwise
from operator import attrgetter
from typing import NamedTuple

from penstock.core.ranges import RangeSet
from penstock.storage.extent import missing as not_in
from penstock.storage.files.disk import LogFile
from penstock.storage.queues.queue_chunks import DAMAGED, DIRECTORY, Chunk, ReadChunks
from penstock.storage.queues.queue_rebuild import IndexedLog, count_between, missing
from penstock.storage.recovery.damage import Damage

_FIRST_LOG = attrgetter("first_log_offset")


class ChunkFile(NamedTuple):
    """A file of an index, and what is in it."""

    file: LogFile
    read: ReadChunks


class State(NamedTuple):
    """The chunks of each queue, in their order, and what they are worth.

    Every message below the log offset ``covered`` should be in one; it is so below
    ``first_unsure``. ``is_damaged`` says that something is gone that was on stable storage, which
    is reported; ``is_short`` that something else is. ``marked_file`` is the number of the file
    with the last mark.
    """

    chunks: dict[int, list[Chunk]]
    covered: int
    first_unsure: int
    is_damaged: bool
    is_short: bool
    marked_file: int


class _Synced(NamedTuple):
    """The place up to which the files are on stable storage, and the offset of the log below which
    every message is in a chunk there, or gone.
    """

    file: int
    position: int
    covered: int


def examine(log: IndexedLog, found: Sequence[ChunkFile]) -> State:
    """The state of the index with these files; damage is reported. Raises StorageError."""
    start = log.start_offset
    chunks = _in_order(found)
    covered = max((each.read.covered for each in found), default=0)
    mark = _last_mark(found, start)
    synced = _synced(found, mark, start, covered)
    is_damaged = _report(log, found, covered, synced)
    is_damaged |= _is_incomplete(log, chunks, covered, synced.covered)
    is_short = bool(_holes(chunks, start)) or _lacks(log, chunks, synced.covered, covered)
    # Damage may be anywhere; what a power cut took is behind the last mark.
    low = start if is_damaged else synced.covered if is_short else covered
    return State(chunks, covered, max(low, start), is_damaged, is_short, mark.file)


def _in_order(found: Sequence[ChunkFile]) -> dict[int, list[Chunk]]:
    """The chunks of each queue, but those that contradict one before them."""
    chunks: dict[int, list[Chunk]] = {}
    for chunk in sorted((c for each in found for c in each.read.chunks), key=_FIRST_LOG):
        of_queue = chunks.setdefault(chunk.queue, [])
        last = of_queue[-1] if of_queue else None
        if last is None or (
            last.last_log_offset < chunk.first_log_offset and last.next_offset <= chunk.first_offset
        ):
            of_queue.append(chunk)
    return chunks


def _last_mark(found: Sequence[ChunkFile], start: int) -> _Synced:
    marks = [
        _Synced(number, each.read.marked, max(start, each.read.safe))
        for number, each in enumerate(found)
        if each.read.safe is not None
    ]
    return marks[-1] if marks else _Synced(0, 0, start)


def _synced(found: Sequence[ChunkFile], mark: _Synced, start: int, covered: int) -> _Synced:
    # A log lets nothing go before what covers it is synced, with all before that.
    secured = [
        _Synced(number, each.read.secured, start)
        for number, each in enumerate(found)
        if start and each.read.secured
    ]
    file, position, safe = max([mark, *secured[:1]])
    return _Synced(file, position, max(start, min(safe, covered)))


def _report(log: IndexedLog, found: Sequence[ChunkFile], covered: int, synced: _Synced) -> bool:
    """Report bad places; whether there are any but torn writes, which the log still has."""
    is_damaged = False
    for number, (file, read) in enumerate(found):
        name = os.path.basename(file.path)
        for start, end, what in read.bad:
            data = file.read(start, end - start)
            is_synced = (number, start) < synced[:2]
            if what == DAMAGED and not is_synced and covered >= log.start_offset:
                log.damage.keep_torn(name, start, data, "a torn write")
                continue
            is_damaged = True
            log.damage.report(Damage(name, what, start, end - start), data)
    return is_damaged


def _is_incomplete(
    log: IndexedLog, chunks: Mapping[int, Sequence[Chunk]], covered: int, synced: int
) -> bool:
    """True if chunks are gone that were there, which is reported."""
    start = log.start_offset
    is_gone = covered < start or _lacks(log, chunks, start, synced)
    if is_gone:
        log.damage.report(Damage(DIRECTORY, "chunks are missing"))
    return is_gone or any(behind < synced for behind in _holes(chunks, start))


def _lacks(log: IndexedLog, chunks: Mapping[int, Sequence[Chunk]], low: int, high: int) -> bool:
    """True if a message between these log offsets is in no chunk, and not lost in the log."""
    if count_between(chunks.values(), low, high) >= high - low:
        return False
    lost = RangeSet()
    for gap in log.damage.lost_ranges():
        lost.add(*gap)
    return any(
        any(not_in(lost, first, next_)) for first, next_ in missing(chunks.values(), low, high)
    )


def _holes(chunks: Mapping[int, Sequence[Chunk]], start: int) -> list[int]:
    """The first log offset behind each hole between the chunks of a queue, from ``start`` on."""
    return [
        chunk.first_log_offset
        for of_queue in chunks.values()
        for before, chunk in pairwise(of_queue)
        if before.next_offset != chunk.first_offset and before.last_log_offset >= start
    ]
