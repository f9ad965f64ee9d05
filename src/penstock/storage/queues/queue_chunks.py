"""The chunks of a queue index: log offsets of one queue, that can be recognised by themselves.

A chunk, little endian::

    0   4s   magic           b"PSQ1"
    4   u32  queue
    8   u64  checksum        xxh3_64 of bytes[16:]
    16  u64  first_offset    queue offset of its first message
    24  u64  covered         every message of the log below this offset is in some chunk
    32  u32  count
    36  u32  owner           mark of its log and queue; 0 in chunks of earlier versions
    40  u64 * count          log offsets

A chunk says where it belongs, so their order in the files does not matter, and behind damaged
bytes reading goes on at the next whole one.

A mark is a chunk whose only log offset is one that no log has (``MARK``), for which versions that
know of no marks leave it out. All that the files have before it is on stable storage. A power cut
may take anything behind the last mark, in any order.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_left
from dataclasses import dataclass, field
from typing import Final

from xxhash import xxh3_64_intdigest

from penstock.storage.files.disk import LogFile

_MAGIC: Final = b"PSQ1"
_PREFIX = struct.Struct("<4sIQ")
_CHECKED = struct.Struct("<QQII")
HEADER_BYTES: Final = _PREFIX.size + _CHECKED.size
DIRECTORY: Final = "queues"
"""The folder of the files, in that of the topic's log."""
MARK: Final = (1 << 63) - 1
DAMAGED: Final = "damaged"
STRANGE: Final = "of another queue"


@dataclass(slots=True)
class Chunk:
    """The place of ``count`` log offsets of a queue in a file."""

    queue: int
    first_offset: int
    count: int
    first_log_offset: int
    last_log_offset: int
    file: LogFile
    position: int

    @property
    def next_offset(self) -> int:
        return self.first_offset + self.count

    def log_offsets(self) -> array[int]:
        """All of them. Raises StorageError."""
        return array("q", self.file.read(self.position, 8 * self.count))

    def cut(self, log_end: int) -> None:
        """Leave out the messages from a log offset on. Raises StorageError."""
        offsets = self.log_offsets()
        self.count = bisect_left(offsets, log_end)
        if self.count:
            self.last_log_offset = offsets[self.count - 1]


@dataclass(slots=True)
class ReadChunks:
    """Content of a file: whole chunks, bad places with what is wrong there, and ``covered``.

    ``marked`` is the end of the last mark and ``safe`` what that covers, None without one;
    ``secured`` the end of the first chunk that covers all below the log's start. ``is_stale`` is
    True if the file says more than the log has, which a power cut made shorter. Messages that are
    not there are left out; the others of their chunk may be such as nobody else knows of.
    """

    chunks: list[Chunk] = field(default_factory=list)
    bad: list[tuple[int, int, str]] = field(default_factory=list)
    covered: int = 0
    marked: int = 0
    safe: int | None = None
    secured: int | None = None
    is_stale: bool = False

    def take(self, chunk: Chunk, covered: int, log_start: int, log_end: int) -> None:
        """Take a chunk, or a mark, of the log between these offsets."""
        end = chunk.position + 8 * chunk.count
        self.is_stale |= covered > log_end
        covered = min(covered, log_end)
        self.covered = max(self.covered, covered)
        if chunk.first_log_offset == MARK:
            self.marked, self.safe = end, covered
            return
        if covered >= log_start and self.secured is None:
            self.secured = end
        if chunk.last_log_offset >= log_end:
            self.is_stale = True
            chunk.cut(log_end)
        if chunk.count:
            self.chunks.append(chunk)


def _owner(id_base: int, queue: int) -> int:
    """The mark of a queue of the log with this id base, never 0."""
    return xxh3_64_intdigest(struct.pack("<QI", id_base, queue)) & 0xFFFF_FFFF or 1


def encode_chunk(
    queue: int, first_offset: int, covered: int, offsets: array[int], id_base: int
) -> bytes:
    """The bytes of a chunk of the log with this id base."""
    owner = _owner(id_base, queue)
    checked = _CHECKED.pack(first_offset, covered, len(offsets), owner) + offsets.tobytes()
    return _PREFIX.pack(_MAGIC, queue, xxh3_64_intdigest(checked)) + checked


def encode_mark(covered: int, id_base: int) -> bytes:
    """The bytes of a mark in an index of the log with this id base."""
    return encode_chunk(0, 0, covered, array("q", [MARK]), id_base)


def read_chunks(file: LogFile, id_base: int, log_start: int, log_end: int) -> ReadChunks:
    """The whole chunks of the log with this id base, from ``log_start`` to ``log_end``."""
    data = file.read(0, file.size)
    found = ReadChunks()
    position = 0
    while position < len(data):
        end = _whole_end(data, position)
        if not end:
            end = _next_whole(data, position + 1)
            found.bad.append((position, end, DAMAGED))
            position = end
            continue
        number = _PREFIX.unpack_from(data, position)[1]
        first, covered, count, owner = _CHECKED.unpack_from(data, position + _PREFIX.size)
        start = position + HEADER_BYTES
        (low,), (high,) = (struct.unpack_from("<q", data, at) for at in (start, end - 8))
        if owner not in (0, _owner(id_base, number)):
            found.bad.append((position, end, STRANGE))
        else:
            chunk = Chunk(number, first, count, low, high, file, start)
            found.take(chunk, covered, log_start, log_end)
        position = end
    return found


def _whole_end(data: bytes, position: int) -> int:
    """The end of the whole chunk at a position; 0 when there is none."""
    start = position + HEADER_BYTES
    if start > len(data) or not data.startswith(_MAGIC, position):
        return 0
    checksum = _PREFIX.unpack_from(data, position)[2]
    count = _CHECKED.unpack_from(data, position + _PREFIX.size)[2]
    end = start + 8 * count
    if not count or end > len(data):
        return 0
    checked = memoryview(data)[position + _PREFIX.size : end]
    return end if xxh3_64_intdigest(checked) == checksum else 0


def _next_whole(data: bytes, position: int) -> int:
    while (position := data.find(_MAGIC, position)) >= 0:
        if _whole_end(data, position):
            return position
        position += 1
    return len(data)
