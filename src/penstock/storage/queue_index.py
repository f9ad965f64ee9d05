"""Queues of a topic: which messages of the one log belong to which queue, and at what queue offset.

A topic is one log whatever its number of queues, so that publishes to all of them share one write
and one sync. Each batch belongs to one queue. ``OneQueue`` is the index of a topic that has never
had more: the queue offset is the log offset and nothing is kept. ``QueueIndex`` holds an array of
log offsets for each queue: the newest in memory, the older ones in chunks in files. All of it can
be made anew from the log; what a crash takes of it is read from there at the next start.

A chunk, little endian::

    0   4s   magic           b"PSQ1"
    4   u32  queue
    8   u64  checksum        xxh3_64 of bytes[16:]
    16  u64  first_offset    queue offset of its first message
    24  u64  covered         every message of the log below this offset is in some chunk
    32  u32  count
    36  u32  reserved        0
    40  u64 * count          log offsets
"""

from __future__ import annotations

import logging
import os
import struct
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Final, Protocol

from xxhash import xxh3_64_intdigest

from penstock.core.errors import StorageError
from penstock.storage.batch import Batch
from penstock.storage.disk import Disk, LogFile

logger = logging.getLogger(__name__)

CHUNK_MESSAGES: Final = 4096
"""So many messages of a queue are written as one chunk."""
LAG_MAX: Final = 65_536
"""No queue keeps a message in memory only that is so far behind the log's end: it bounds what the
next start reads again."""
FILE_BYTES: Final = 16 * 1024 * 1024
DIRECTORY: Final = "queues"

_MAGIC: Final = b"PSQ1"
_PREFIX = struct.Struct("<4sIQ")
_CHECKED = struct.Struct("<QQII")
_HEADER_BYTES: Final = _PREFIX.size + _CHECKED.size
_FIRST = attrgetter("first_offset")
_LAST_LOG = attrgetter("last_log_offset")


class IndexedLog(Protocol):
    """What an index needs of the log it is of."""

    @property
    def start_offset(self) -> int: ...

    @property
    def next_offset(self) -> int: ...

    def batches_at(self, offset: int) -> tuple[Sequence[Batch], int]: ...


class Queues(Protocol):
    """The queues of a topic. Queue offsets are dense and start at 0."""

    def bounds(self, queue: int) -> tuple[int, int]:
        """The first queue offset whose message is still kept, and the next one to be given."""
        ...

    def locate(self, queue: int, offset: int, count: int) -> Sequence[int]:
        """The log offsets of up to ``count`` messages from a queue offset on; when that is no
        longer known, from the first one that is.
        """
        ...

    def search(self, queue: int, log_offset: int) -> int:
        """The first queue offset whose message is at or behind a log offset."""
        ...

    def append(self, batch: Batch) -> int:
        """Take a batch that was appended to the log; the queue offset of its first message."""
        ...

    def trim(self) -> None:
        """Forget what the log has let go."""
        ...

    def flush(self) -> None:
        """Write down what is in memory only."""
        ...

    def close(self) -> None: ...


class OneQueue:
    """The index of a topic with one queue: its offsets are the log's."""

    def __init__(self, log: IndexedLog) -> None:
        self._log = log

    def bounds(self, queue: int) -> tuple[int, int]:
        return (self._log.start_offset, self._log.next_offset) if queue == 0 else (0, 0)

    def locate(self, queue: int, offset: int, count: int) -> Sequence[int]:
        if queue:
            return ()
        first = max(offset, self._log.start_offset)
        return range(first, min(first + count, self._log.next_offset))

    def search(self, queue: int, log_offset: int) -> int:
        low, high = self.bounds(queue)
        return min(max(low, log_offset), high)

    def append(self, batch: Batch) -> int:
        return batch.first_offset

    def trim(self) -> None:
        """There is nothing to forget."""

    def flush(self) -> None:
        """There is nothing to write."""

    def close(self) -> None:
        """There is nothing to close."""


@dataclass(slots=True)
class _Chunk:
    """Where ``count`` log offsets of a queue stand in a file."""

    first_offset: int
    count: int
    last_log_offset: int
    file: LogFile
    position: int

    @property
    def next_offset(self) -> int:
        return self.first_offset + self.count


@dataclass(slots=True)
class _Queue:
    """One queue: chunks in files, the newest offsets in ``tail``."""

    chunks: list[_Chunk] = field(default_factory=list)
    tail_first: int = 0
    tail: array[int] = field(default_factory=lambda: array("q"))
    cached: tuple[int, array[int]] = (0, array("q"))  # a chunk: its first offset, what it says
    least: tuple[int, int] = (-1, 0)  # a start of the log, and the first offset kept then

    @property
    def next_offset(self) -> int:
        return self.tail_first + len(self.tail)

    @property
    def last_log_offset(self) -> int:
        """Of the newest message; -1 when there is none."""
        if self.tail:
            return self.tail[-1]
        return self.chunks[-1].last_log_offset if self.chunks else -1


class QueueIndex:
    """The index of a topic with several queues, in ``directory``."""

    def __init__(self, disk: Disk, directory: str, log: IndexedLog) -> None:
        """Reads what is there and completes it from the log. Raises StorageError."""
        self._disk = disk
        self._directory = directory
        self._log = log
        self._queues: dict[int, _Queue] = {}
        self._files: list[LogFile] = []
        self._lag_checked = 0
        self._indexed = 0  # the log offset behind the newest message that was taken
        self._failing = False
        disk.make_directory(directory)
        self._complete(max(self._open_files(), log.start_offset))

    # --- asking --------------------------------------------------------------------------------

    def bounds(self, queue: int) -> tuple[int, int]:
        found = self._queues.get(queue)
        if found is None:
            return 0, 0
        start, least = self._log.start_offset, found.least
        if least[0] != start:
            least = found.least = (start, self.search(queue, start))
        return least[1], found.tail_first + len(found.tail)

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

    def _offsets(self, queue: _Queue, chunk: _Chunk) -> array[int]:
        first, known = queue.cached
        if first != chunk.first_offset or not known:
            known = array("q", chunk.file.read(chunk.position, 8 * chunk.count))
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
        if batch.next_offset - self._lag_checked > LAG_MAX:
            self._lag_checked = batch.next_offset
            late = batch.next_offset - LAG_MAX
            self._write([n for n, q in self._queues.items() if q.tail and q.tail[0] < late])
        return first

    def flush(self) -> None:
        self._write([number for number, queue in self._queues.items() if queue.tail])

    def _write(self, numbers: list[int]) -> None:
        """Write the tails of these queues; when that fails they stay in memory until it works."""
        if not numbers:
            return
        tails = [q.tail[0] for n, q in self._queues.items() if q.tail and n not in numbers]
        covered = min(tails, default=self._indexed)
        try:
            for number in numbers[:-1]:
                self._write_tail(number, self._queues[number], 0)
            self._write_tail(numbers[-1], self._queues[numbers[-1]], covered)
            self._failing = False
        except StorageError as error:
            if not self._failing:
                logger.error("cannot write the index of queues, trying again later - %s", error)
            self._failing = True

    def _write_tail(self, number: int, queue: _Queue, covered: int) -> None:
        body = queue.tail.tobytes()
        checked = _CHECKED.pack(queue.tail_first, covered, len(queue.tail), 0) + body
        file = self._file()
        position = file.size + _HEADER_BYTES
        file.append(_PREFIX.pack(_MAGIC, number, xxh3_64_intdigest(checked)) + checked)
        queue.chunks.append(
            _Chunk(queue.tail_first, len(queue.tail), queue.tail[-1], file, position)
        )
        queue.tail_first = queue.next_offset
        queue.tail = array("q")

    def _file(self) -> LogFile:
        if not self._files or self._files[-1].size >= FILE_BYTES:
            last = self._files[-1].path if self._files else ""
            number = int(os.path.basename(last).split(".")[0]) + 1 if last else 0
            path = os.path.join(self._directory, f"{number:010d}.chunks")
            self._files.append(self._disk.open(path))
        return self._files[-1]

    # --- letting go ----------------------------------------------------------------------------

    def trim(self) -> None:
        start = self._log.start_offset
        for queue in self._queues.values():
            while queue.chunks and queue.chunks[0].last_log_offset < start:
                if len(queue.chunks) == 1 and not queue.tail:
                    break  # it tells where the queue's offsets go on
                queue.chunks.pop(0)
        used = {id(chunk.file) for queue in self._queues.values() for chunk in queue.chunks}
        for file in self._files[:-1]:
            if id(file) not in used:
                file.close()
                self._disk.remove(file.path)
        self._files = [f for f in self._files[:-1] if id(f) in used] + self._files[-1:]

    def close(self) -> None:
        self.flush()
        for file in self._files:
            file.close()

    # --- opening -------------------------------------------------------------------------------

    def _open_files(self) -> int:
        """Take the chunks up to the first that is damaged, or that says more than the log, which a
        power cut has made shorter; what comes behind is of no use. How far the log is covered.
        """
        covered = 0
        names = self._disk.list(self._directory)
        for place, name in enumerate(names):
            file = self._disk.open(os.path.join(self._directory, name))
            self._files.append(file)
            until, end = self._load(file)
            covered = max(covered, until)
            if end < file.size:
                logger.warning("%s: of no use from byte %d on, made anew from the log",
                               file.path, end)  # fmt: skip
                file.truncate(end)
                for later in names[place + 1 :]:
                    self._disk.remove(os.path.join(self._directory, later))
                break
        return covered

    def _load(self, file: LogFile) -> tuple[int, int]:
        """Take the chunks of a file; how far the log is covered, and where the good ones end."""
        covered = position = 0
        data = file.read(0, file.size)
        while position + _HEADER_BYTES <= len(data):
            magic, number, checksum = _PREFIX.unpack_from(data, position)
            start = position + _PREFIX.size
            first, until, count, _ = _CHECKED.unpack_from(data, start)
            end = position + _HEADER_BYTES + 8 * count
            if magic != _MAGIC or not count or end > len(data):
                break
            if xxh3_64_intdigest(data[start:end]) != checksum:
                break
            (last,) = struct.unpack_from("<q", data, end - 8)
            if last >= self._log.next_offset:
                break
            queue = self._queues.setdefault(number, _Queue())
            queue.chunks.append(_Chunk(first, count, last, file, position + _HEADER_BYTES))
            queue.tail_first = first + count
            covered = max(covered, until)
            position = end
        return covered, position

    def _complete(self, offset: int) -> None:
        """Index the messages of the log from ``offset`` on that no chunk has."""
        end = self._log.next_offset
        while offset < end:
            batches, place = self._log.batches_at(offset)
            if place >= len(batches):
                return
            for batch in batches[place:]:
                known = self._queues.get(batch.queue)
                if known is None or known.last_log_offset < batch.first_offset:
                    self.append(batch)
            offset = batches[-1].next_offset


def open_queues(disk: Disk, directory: str, log: IndexedLog, *, several: bool = False) -> Queues:
    """The queues of the log in ``directory``: one, unless it has or shall have several.

    Raises StorageError.
    """
    path = os.path.join(directory, DIRECTORY)
    if several or disk.list(path):
        return QueueIndex(disk, path, log)
    return OneQueue(log)
