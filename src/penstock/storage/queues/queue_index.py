"""Queues of a topic: which messages of the one log belong to which queue, and at what queue offset.

A topic is one log whatever its number of queues, so that publishes to all of them share one write
and one sync. Each batch belongs to one queue. The index holds an array of log offsets for each
queue: the newest in memory, the older ones in chunks in files. All of it can be made again from the
log; what a crash takes of it is read from there at the next start.

``covered`` says how far the chunks hold all of the log. Before the log lets go of messages, all
that is below its new start is in chunks and synced (``secure``), as nobody could make it again. A
mark behind what is synced says so. At the next start, anything missing before the mark is damage.
Anything missing behind it was lost in a power cut, and is made again from the log. Where the log
cannot say how far a queue had come, what consumers have committed is the least (``at_least``).
"""

from __future__ import annotations

import logging
import os
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Final

from penstock.core.errors import StorageError
from penstock.core.ranges import RangeSet
from penstock.storage.batch import Batch
from penstock.storage.files.disk import Disk, LogFile
from penstock.storage.files.temporary import remove_temporaries
from penstock.storage.queues.one_queue import OneQueue, Queues
from penstock.storage.queues.queue_chunks import (
    DIRECTORY,
    HEADER_BYTES,
    Chunk,
    encode_chunk,
    encode_mark,
    read_chunks,
)
from penstock.storage.queues.queue_examination import ChunkFile, examine
from penstock.storage.queues.queue_rebuild import (
    IndexedLog,
    Rebuild,
    Stated,
    batches_of,
)
from penstock.storage.recovery.damage import Damage

logger = logging.getLogger(__name__)

CHUNK_MESSAGES: Final = 4096
"""The number of messages of a queue that are written as one chunk."""
LAG_MAX: Final = 65_536
"""No queue keeps a message in memory only that is so far behind the log's end: it bounds what the
next start reads again."""
FILE_BYTES: Final = 16 * 1024 * 1024

_SUFFIX: Final = ".chunks"
_BEGUN: Final = ".begun"
_FIRST = attrgetter("first_offset")
_LAST_LOG = attrgetter("last_log_offset")


def _says_nothing(_batch: Batch) -> None:
    return None


@dataclass(slots=True)
class _Queue:
    """One queue: chunks in files, the newest offsets in ``tail``."""

    chunks: list[Chunk] = field(default_factory=list)
    tail_first: int = 0
    tail: array[int] = field(default_factory=lambda: array("q"))
    cached: tuple[int, array[int]] = (0, array("q"))  # a chunk: its first offset, what it says
    least: tuple[int, int] = (-1, 0)  # a start of the log, and the first offset kept then

    @property
    def next_offset(self) -> int:
        return self.tail_first + len(self.tail)

    @property
    def last_log_offset(self) -> int:
        """The log offset of the newest message; -1 without messages."""
        if self.tail:
            return self.tail[-1]
        return self.chunks[-1].last_log_offset if self.chunks else -1


def _chunks_path(directory: str, number: int) -> str:
    return os.path.join(directory, f"{number:010d}{_SUFFIX}")


class QueueIndex:
    """The index of a topic with several queues, in ``directory``."""

    def __init__(
        self,
        disk: Disk,
        directory: str,
        log: IndexedLog,
        stated: Stated = _says_nothing,
        firsts: Mapping[int, int] | None = None,
    ) -> None:
        """Read what is there and complete it from the log. Raises StorageError.

        ``stated`` gives the queue offset that a stored message says it has. ``firsts`` is where
        the queues of a new index begin, by what somebody else knows of messages that are gone.
        """
        self._disk = disk
        self._directory = directory
        self._log = log
        self._stated = stated
        self._id_base = log.id_base
        self._queues: dict[int, _Queue] = {}
        self._files: list[LogFile] = []
        self._unsynced: list[LogFile] = []
        self._lag_checked = 0
        self._indexed = log.next_offset  # the log offset behind the newest message that was taken
        self._covered = 0  # every message below is in a chunk
        self._secured = log.start_offset  # every one below it is in a chunk that is synced
        self._guessed: set[int] = set()  # queues whose place nothing tells
        self._failing = False
        self._sync_failed = False
        is_new = os.path.basename(directory) not in disk.list(os.path.dirname(directory))
        if is_new and firsts is not None:
            self._begin(firsts)
        elif is_new and not any(batch.queue for batch in batches_of(log)):
            self._begin({0: log.start_offset})
        disk.make_directory(directory)
        remove_temporaries(disk, directory)  # of a kill while a file was written again
        self._open()

    # --- asking --------------------------------------------------------------------------------

    def bounds(self, queue: int) -> tuple[int, int]:
        found = self._queues.get(queue)
        if found is None:
            return 0, 0
        start, least = self._log.start_offset, found.least
        if least[0] != start:
            # Kept until the log's start moves: each pull asks, and the search may read a chunk.
            least = found.least = (start, self.search(queue, start))
        return least[1], found.tail_first + len(found.tail)

    def end(self, queue: int) -> int:
        found = self._queues.get(queue)
        return 0 if found is None else found.tail_first + len(found.tail)

    @property
    def firsts(self) -> dict[int, int] | None:
        return {queue: self.bounds(queue)[0] for queue in self._queues}

    def locate(self, queue: int, offset: int, count: int) -> Sequence[int]:
        found = self._queues.get(queue)
        if found is None or offset < 0:
            return ()
        first, known = found.cached
        start = offset - first
        if 0 <= start < len(known):
            return known[start : start + count]
        if offset >= found.tail_first or not found.chunks:
            start = max(0, offset - found.tail_first)
            return found.tail[start : start + count]
        chunk = found.chunks[max(0, bisect_right(found.chunks, offset, key=_FIRST) - 1)]
        start = max(0, offset - chunk.first_offset)
        return self._offsets(found, chunk)[start : start + count]

    def search(self, queue: int, log_offset: int) -> int:
        found = self._queues.get(queue)
        if found is None:
            return 0
        if not found.tail or log_offset <= found.tail[0]:
            place = bisect_left(found.chunks, log_offset, key=_LAST_LOG)
            if place < len(found.chunks):
                chunk = found.chunks[place]
                return chunk.first_offset + bisect_left(self._offsets(found, chunk), log_offset)
        return found.tail_first + bisect_left(found.tail, log_offset)

    def _offsets(self, queue: _Queue, chunk: Chunk) -> array[int]:
        first, known = queue.cached
        if first != chunk.first_offset or not known:
            known = chunk.log_offsets()
            queue.cached = chunk.first_offset, known
        return known

    # --- growing -------------------------------------------------------------------------------

    def append(self, batch: Batch) -> int:
        queue = self._queues.get(batch.queue)
        if queue is None:
            queue = self._queues[batch.queue] = _Queue()
        first = queue.next_offset
        self._indexed = batch.next_offset
        if batch.count == 1:
            queue.tail.append(batch.first_offset)
        else:
            queue.tail.extend(range(batch.first_offset, batch.next_offset))
        if len(queue.tail) >= CHUNK_MESSAGES:
            self._write([batch.queue])
        # Not at every append: a topic may have 1,024 queues to look through.
        if batch.next_offset - self._lag_checked > LAG_MAX:
            self._lag_checked = batch.next_offset
            late = batch.next_offset - LAG_MAX
            self._write([n for n, q in self._queues.items() if q.tail and q.tail[0] < late])
        return first

    def pass_over(self, queue: int, offset: int, lost: int) -> None:
        found = self._queues.setdefault(queue, _Queue())
        found.tail.extend([lost] * (offset - found.next_offset))

    def flush(self) -> None:
        self._write([number for number, queue in self._queues.items() if queue.tail])

    def _write(self, numbers: list[int]) -> None:
        """Write the tails of these queues; when that fails they stay in memory until it works."""
        if not numbers:
            return
        tails = [q.tail[0] for n, q in self._queues.items() if q.tail and n not in numbers]
        # Every message below the oldest that is only in memory is in some chunk.
        covered = min(tails, default=self._indexed)
        try:
            for number in numbers:
                last = number == numbers[-1]
                self._write_tail(number, self._queues[number], covered if last else 0)
            # Only when all of them are written: the last chunk alone says so on disk.
            self._covered = max(self._covered, covered)
            self._failing = False
        except StorageError as error:
            if not self._failing:
                logger.error("cannot write the index of queues, trying again later - %s", error)
            self._failing = True

    def _write_tail(self, number: int, queue: _Queue, covered: int) -> None:
        queue.chunks.append(self._write_chunk(number, queue.tail_first, queue.tail, covered))
        queue.tail_first = queue.next_offset
        queue.tail = array("q")
        self._guessed.discard(number)

    def _write_chunk(self, number: int, first: int, offsets: array[int], covered: int = 0) -> Chunk:
        file = self._file()
        position = file.size + HEADER_BYTES
        file.append(encode_chunk(number, first, covered, offsets, self._id_base))
        if file not in self._unsynced:
            self._unsynced.append(file)
        return Chunk(number, first, len(offsets), offsets[0], offsets[-1], file, position)

    def _file(self) -> LogFile:
        if not self._files or self._files[-1].size >= FILE_BYTES:
            last = self._files[-1] if self._files else None
            number = int(os.path.basename(last.path).split(".")[0]) + 1 if last else 0
            if last is not None and last not in self._unsynced:
                self._unsynced.append(last)  # the mark at its end is not synced
            self._files.append(self._disk.open(_chunks_path(self._directory, number)))
        return self._files[-1]

    # --- letting go ----------------------------------------------------------------------------

    def secure(self, start: int) -> None:
        late = [n for n, queue in self._queues.items() if queue.tail and queue.tail[0] < start]
        if self._covered < start:  # what is written now says that it is covered
            late = late or [n for n, queue in self._queues.items() if queue.tail][:1]
        self._write(late)
        if self._covered < start and not any(queue.tail for queue in self._queues.values()):
            self._sync()
            # What is between is lost, so only a mark can say so: it is written, or tried again.
            self._file().append(encode_mark(start, self._id_base))
            self._covered = start
            self._unsynced = self._files[-1:]
        self._sync()
        self._secured = min(start, self._covered)

    def _sync(self) -> None:
        """Sync what was written, and put a mark behind it. Raises StorageError."""
        if self._unsynced:
            self._sync_and_mark()

    def _sync_and_mark(self) -> None:
        """Sync, and say up to where in a new mark. Raises StorageError."""
        # Set before anything is tried: whatever raises below leaves it set.
        has_failed, self._sync_failed = self._sync_failed, True
        for file in self._unsynced:
            if has_failed:
                file.rewrite(0)  # the system takes it for written
            file.sync()
        self._disk.sync_directory(self._directory)
        self._sync_failed = False
        self._unsynced = []
        with suppress(StorageError):  # without it, damage before it may look like a power cut's
            self._file().append(encode_mark(self._covered, self._id_base))

    def trim(self) -> None:
        start = self._log.start_offset
        if self._secured < start:  # the disk was full and has room again
            self.secure(start)
        for queue in self._queues.values():
            while queue.chunks and queue.chunks[0].last_log_offset < start:
                if len(queue.chunks) == 1:
                    break  # it tells where the queue's offsets go on; a kill takes the tail
                queue.chunks.pop(0)
        used = {id(chunk.file) for queue in self._queues.values() for chunk in queue.chunks}
        unused = [file for file in self._files[:-1] if id(file) not in used]
        if unused:
            # After a power cut old chunks tell where a queue goes on, if newer ones are not synced;
            # and where it brings back what the log let go, its chunks are to be there too.
            self._sync()
            self._disk.sync_directory(os.path.dirname(self._directory))
        for file in unused:
            self._disk.remove(file.path)
            file.close()
            self._files.remove(file)

    def close(self) -> None:
        self.flush()
        try:
            self._sync()
        except StorageError as error:
            logger.error(
                "cannot sync the index of queues, which the log can make again - %s", error
            )
        self.abandon()

    def abandon(self) -> None:
        for file in self._files:
            file.close()

    # --- opening -------------------------------------------------------------------------------

    def _begin(self, firsts: Mapping[int, int]) -> None:
        """Let queues go on behind what the log let go: the last message that is gone stands for
        all of them. Nobody could make that again, so all of it is there with the directory.

        Raises StorageError, and then there is no index.
        """
        start = self._log.start_offset
        gone = array("q", [start - 1])
        pieces = [
            encode_chunk(queue, first - 1, start, gone, self._id_base)
            for queue, first in firsts.items()
            if first and start
        ]
        begun = self._directory + _BEGUN
        self._disk.remove_tree(begun)
        self._disk.make_directory(begun)
        if pieces:
            mark = encode_mark(start, self._id_base)
            self._disk.replace_file(_chunks_path(begun, 0), *pieces, mark)
        # The folder's name appears with all in it: a start finds all of it or nothing.
        self._disk.rename(begun, self._directory)
        self._disk.sync_directory(os.path.dirname(self._directory))

    def _open(self) -> None:
        """Take the whole chunks, and what they lack from the log. Raises StorageError."""
        start, end = self._log.start_offset, self._log.next_offset
        found = self._read_files()
        state = examine(self._log, found)
        # The file of the last mark as well: the mark itself may not be synced.
        self._unsynced = [each.file for each in found[state.marked_file :]]
        chunks = state.chunks
        lost = RangeSet()
        if state.is_damaged:
            lost.add(0, start)
        rebuild = Rebuild(self._log, chunks, lost, self._stated, self._write_chunk, CHUNK_MESSAGES)
        rebuild.walk(state.first_unsure, end)
        self._indexed = end
        for number, of_queue in chunks.items():
            tail = rebuild.tails.get(number)
            self._queues[number] = queue = _Queue(of_queue)
            queue.tail_first = of_queue[-1].next_offset if of_queue else 0
            if tail is not None:
                queue.tail_first, queue.tail = tail.first or 0, tail.offsets
            self._fill_holes(number, queue, lost)
        self._covered = min(state.covered, self._whole)
        is_mended = state.is_damaged or state.is_short
        if is_mended:
            self._settle(rebuild.guessed)
        whole = self._whole
        for each in found:
            if each.read.bad or each.read.is_stale:
                self._rewrite(each.file, whole, each.read.safe)
                is_mended = True
        if is_mended:
            self._sync_and_mark()

    @property
    def _whole(self) -> int:
        """The log offset below which every message is in a chunk."""
        return min([q.tail[0] for q in self._queues.values() if q.tail], default=self._indexed)

    def _read_files(self) -> list[ChunkFile]:
        found, log = [], self._log
        for name in self._disk.list(self._directory):
            file = self._disk.open(os.path.join(self._directory, name))
            self._files.append(file)
            read = read_chunks(file, self._id_base, log.start_offset, log.next_offset)
            found.append(ChunkFile(file, read))
        return found

    def _fill_holes(self, number: int, queue: _Queue, lost: RangeSet) -> None:
        """Let lost messages stand where neither chunks nor log have those of this queue, so that
        readers step over them.
        """
        places = [(c.first_offset, c.first_log_offset) for c in queue.chunks[1:]]
        places += [(queue.tail_first, log_offset) for log_offset in queue.tail[:1]]
        for before, (first, log_offset) in zip(list(queue.chunks), places, strict=False):
            gone = lost.first_from(before.last_log_offset + 1)
            hole = first - before.next_offset
            is_seen = before.last_log_offset >= self._log.start_offset
            filler = max(gone[0], before.last_log_offset + 1) if gone else log_offset
            if hole > 0 and is_seen and filler < log_offset:
                offsets = array("q", [filler]) * hole
                chunk = self._write_chunk(number, before.next_offset, offsets)
                queue.chunks.insert(queue.chunks.index(before) + 1, chunk)

    def _settle(self, guessed: set[int]) -> None:
        """Write down what was made again, but for guesses, which ``at_least`` may raise."""
        for number in guessed:
            what = f"nothing tells how many messages queue {number} has had; it goes on at offset "
            what += str(self._queues[number].tail_first)
            self._log.damage.report(Damage(DIRECTORY, what))
        self._write([n for n, q in self._queues.items() if q.tail and n not in guessed])
        self._guessed = guessed

    def _rewrite(self, file: LogFile, covered: int, safe: int | None) -> None:
        """Put a file of its good chunks in the place of one with others, and the mark for what is
        ``safe`` behind them. Raises StorageError.
        """
        chunks = [c for queue in self._queues.values() for c in queue.chunks if c.file is file]
        pieces = [
            encode_chunk(c.queue, c.first_offset, covered, c.log_offsets(), self._id_base)
            for c in chunks
        ]
        mark = b"" if safe is None else encode_mark(safe, self._id_base)
        self._disk.replace_file(file.path, b"".join([*pieces, mark]))
        file.close()
        new = self._files[self._files.index(file)] = self._disk.open(file.path)
        position = 0
        for chunk, piece in zip(chunks, pieces, strict=True):
            chunk.file, chunk.position = new, position + HEADER_BYTES
            position += len(piece)
        self._unsynced = [each for each in self._unsynced if each is not file]

    def at_least(self, queue: int, offset: int) -> None:
        start = self._log.start_offset
        if not self._is_doubtful or not start:
            return
        found = self._queues.setdefault(queue, _Queue())
        short = offset - found.next_offset
        if short <= 0:
            return
        if queue in self._guessed:
            found.tail_first += short
        elif found.last_log_offset < start:
            found.tail_first, found.tail = offset - 1, array("q", [start - 1])
        else:
            return
        what = f"nothing tells how many messages queue {queue} has had; by what consumers have "
        what += f"committed it goes on at offset {offset}"
        self._log.damage.report(Damage(DIRECTORY, what))
        self._write([queue])

    @property
    def _is_doubtful(self) -> bool:
        """True if there is damage that no operator has accepted."""
        return any(
            damage.file == DIRECTORY or damage.file.endswith(_SUFFIX)
            for damage in self._log.damage.pending
        )


def open_queues(
    disk: Disk,
    directory: str,
    log: IndexedLog,
    *,
    several: bool = False,
    stated: Stated = _says_nothing,
    firsts: Mapping[int, int] | None = None,
) -> Queues:
    """The queues of the log in ``directory``: one, unless it has or shall have several.

    Raises StorageError.
    """
    path = os.path.join(directory, DIRECTORY)
    if several or disk.list(path):
        return QueueIndex(disk, path, log, stated, firsts)
    return OneQueue(log)
