"""An index of a log's messages by key: the hashes of keys, with the offsets that have them.

Theory of operation. Rows (32-bit hash, offset) are added in the order of offsets, kept in memory
and written in chunks to ``<first offset>.keys`` files beside the log's segments, 8 bytes a row.
Nothing is ever synced: whatever is missing or damaged is made again from the log, from
``covered`` on, below which every message is in the index. A search reads the files newest first and
compares whole chunks at once; it gives candidates, as different keys may have one hash.

A chunk, little endian; the first of a file starts where the file's name says, each other one where
the one before it ends::

    0   4s   magic        b"PSK1"
    4   u32  rows
    8   u64  checksum     xxh3_64 of bytes[16:], seeded with the log's id base
    16  u64  first        the offset that rows count from
    24  u64  end          messages below are covered
    32  i64  last_ns      when the message at end - 1 was stored
    40  u32 * rows        hashes
        u32 * rows        offsets, counted from first
"""

from __future__ import annotations

import logging
import os
import struct
from array import array
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
from xxhash import xxh3_64_intdigest

from penstock.core.errors import StorageError
from penstock.storage.files.disk import Disk
from penstock.storage.log import ReadableLog

logger = logging.getLogger(__name__)

CHUNK_ROWS: Final = 16 * 1024
CHUNK_MESSAGES: Final = 1 << 20
"""The number of messages without a key that a chunk without rows covers."""
FILE_BYTES: Final = 2 * 1024 * 1024
_SUFFIX: Final = ".keys"
_MAGIC: Final = b"PSK1"
_HEADER = struct.Struct("<4sIQQQq")
_CHECKED = struct.Struct("<QQq")
_CHECKED_FROM: Final = 16
_ROW_BYTES: Final = 8


class DamagedIndexError(StorageError):
    """A file of the index is not what was written; ``offset`` is the first it should cover."""

    def __init__(self, path: str, offset: int) -> None:
        super().__init__(f"{path} is damaged")
        self.offset = offset


class _Chunk(NamedTuple):
    first: int
    end: int
    last_ns: int
    start: int  # of its rows in the file
    rows: int

    @property
    def file_end(self) -> int:
        return self.start + self.rows * _ROW_BYTES


class HashIndex:
    """The index of one log, in the log's directory. Nothing is read before ``open``."""

    __slots__ = (
        "_disk", "_first", "_hashes", "_last_ns", "_offsets", "_owner", "_size", "_starts",
        "covered", "directory",
    )  # fmt: skip

    def __init__(self, disk: Disk, directory: str, start: int, owner: int) -> None:
        """``owner`` is the log's id base."""
        self.directory = directory
        self.covered = start
        self._disk = disk
        self._owner = owner
        self._starts: list[int] = []  # the first offset of each file
        self._size = 0  # of the newest file
        self._first = start  # of the rows in memory
        self._last_ns = 0
        self._hashes = array("I")
        self._offsets = array("I")  # counted from _first

    @classmethod
    def open(cls, disk: Disk, directory: str, log: ReadableLog) -> HashIndex:
        """Open the part of the index on disk that is whole and belongs to what the log holds.

        Raises StorageError.
        """
        index = cls(disk, directory, log.start_offset, log.id_base)
        starts = sorted(
            int(name.removesuffix(_SUFFIX))
            for name in disk.list(directory)
            if name.endswith(_SUFFIX) and name.removesuffix(_SUFFIX).isdecimal()
        )
        index._starts = starts
        while starts:
            data = disk.read_file(index._path(starts[-1])) or b""
            chunks = list(_chunks(data, starts[-1], log.id_base))
            # Nothing is synced: a power cut may leave rows of messages that the log has lost.
            while chunks and not _belongs(chunks[-1], log):
                chunks.pop()
            if chunks:
                index._size = chunks[-1].file_end
                index.covered = index._first = chunks[-1].end
                index._last_ns = chunks[-1].last_ns
                break
            disk.remove(index._path(starts.pop()))
        index.trim(log.start_offset)
        return index

    @property
    def pending(self) -> int:
        """Rows in memory only."""
        return len(self._hashes)

    @property
    def last_ns(self) -> int:
        """The store time of the newest covered message; 0 when there is none."""
        return self._last_ns

    def _path(self, start: int) -> str:
        return os.path.join(self.directory, f"{start:020d}{_SUFFIX}")

    # --- adding --------------------------------------------------------------------------------

    def add(
        self, hashes: Sequence[int], numbers: Sequence[int], first: int, end: int, last_ns: int
    ) -> None:
        """Cover the messages up to ``end``, the newest of them stored at ``last_ns``.

        ``numbers`` are the offsets of the hashes, counted from ``first``. Raises StorageError when
        a chunk was full and could not be written; its rows are forgotten then, and ``covered`` has
        gone back.
        """
        assert self.covered <= first < end
        if end - self._first > CHUNK_MESSAGES:
            self.flush()
        base = first - self._first
        assert base < 1 << 31, "an index begins where its log does"
        self._hashes.extend(hashes)
        # Counted from the chunk's start 32 bits suffice: ``CHUNK_MESSAGES`` bounds them.
        self._offsets.frombytes((np.asarray(numbers, np.uint32) + np.uint32(base)).tobytes())
        self.covered = end
        self._last_ns = last_ns
        if len(self._hashes) >= CHUNK_ROWS:
            self.flush()

    def flush(self) -> None:
        """Write what is in memory. Raises StorageError; it is forgotten then, as in ``add``."""
        if self.covered == self._first:
            return
        rows = self._hashes.tobytes() + self._offsets.tobytes()
        first, end, count = self._first, self.covered, len(self._hashes)
        # Before the write: if that fails, `covered` says from where the log is to be read again.
        self._forget()
        checked = _CHECKED.pack(first, end, self._last_ns) + rows
        chunk = (
            struct.pack("<4sIQ", _MAGIC, count, xxh3_64_intdigest(checked, self._owner)) + checked
        )
        if not self._starts or self._size >= FILE_BYTES:
            self._starts.append(first)
            self._size = 0
        file = self._disk.open(self._path(self._starts[-1]))
        try:
            # Behind the last whole chunk may stand a torn one, or some that `open` refused: reading
            # ends there, so what is appended would never be found.
            if file.size != self._size:
                file.truncate(self._size)
            file.append(chunk)
            self._size += len(chunk)
            self._first = self.covered = end
        finally:
            file.close()

    def _forget(self) -> None:
        """Let go of the rows in memory; they can be had again from the log."""
        self._hashes, self._offsets = array("I"), array("I")
        self.covered = self._first

    # --- letting go ----------------------------------------------------------------------------

    def trim(self, start: int) -> None:
        """Delete the files that cover only messages below ``start``, where the log begins now.

        Raises StorageError.
        """
        # The log let go of messages that the index never had: it goes on where the log begins.
        if self.covered < start:
            self.rewind(0)
            self.covered = self._first = start
        while len(self._starts) > 1 and self._starts[1] <= start:
            self._disk.remove(self._path(self._starts[0]))
            del self._starts[0]

    def rewind(self, offset: int) -> None:
        """Forget the file that covers ``offset`` and all behind it: ``covered`` goes back there.

        Raises StorageError.
        """
        self._forget()
        while self._starts:
            start = self._starts.pop()
            self._disk.remove(self._path(start))
            self._first = self.covered = start
            if start <= offset:
                break
        if self._starts:
            data = self._disk.read_file(self._path(self._starts[-1])) or b""
            self._size = len(data)

    # --- searching -----------------------------------------------------------------------------

    def candidates(self, wanted: int, low: int, high: int) -> Iterator[list[int]]:
        """Offsets in ``[low, high)`` whose messages may have the key of this hash, newest first.

        Each step looks at one chunk and may give nothing; between steps the index may change. What
        is added after the first step is not found. Raises StorageError, DamagedIndexError among
        them.
        """
        # A snapshot: what is written or trimmed between two steps changes the lists.
        starts, end = list(self._starts), self._first
        if self._first < high and low < self.covered:
            hashes, offsets = np.array(self._hashes), np.array(self._offsets)
            yield _hits(hashes, offsets, wanted, self._first, low, high)
        while starts and low < end:
            start = starts.pop()
            if start < min(high, end):
                yield from self._in_file(start, end, wanted, low, high)
            end = start

    def _in_file(
        self, start: int, end: int, wanted: int, low: int, high: int
    ) -> Iterator[list[int]]:
        data = self._disk.read_file(self._path(start))
        if data is None:  # deleted meanwhile, or lost
            # ``trim`` removes a file with its start: one that is listed must be there.
            if start in self._starts:
                raise DamagedIndexError(self._path(start), start)
            return
        chunks = [chunk for chunk in _chunks(data, start, self._owner) if chunk.end <= end]
        if not chunks or chunks[-1].end != end:
            raise DamagedIndexError(self._path(start), start)
        for chunk in reversed(chunks):
            if chunk.end <= low or chunk.first >= high:
                continue
            hashes = np.frombuffer(data, np.uint32, chunk.rows, chunk.start)
            offsets = np.frombuffer(data, np.uint32, chunk.rows, chunk.start + 4 * chunk.rows)
            yield _hits(hashes, offsets, wanted, chunk.first, low, high)


def _hits(
    hashes: np.ndarray[tuple[int], np.dtype[np.uint32]],
    offsets: np.ndarray[tuple[int], np.dtype[np.uint32]],
    wanted: int,
    first: int,
    low: int,
    high: int,
) -> list[int]:
    found = offsets[hashes == wanted].astype(np.int64) + first
    kept: list[int] = found[(found >= low) & (found < high)].tolist()
    kept.reverse()
    return kept


def _chunks(data: bytes, first: int, owner: int) -> Iterator[_Chunk]:
    """The whole chunks of a file, up to the first that is damaged, of another log or not in its
    place; those of earlier versions do not say of which log they are.
    """
    place = 0
    while place + _HEADER.size <= len(data):
        magic, rows, checksum, chunk_first, end, last_ns = _HEADER.unpack_from(data, place)
        start = place + _HEADER.size
        place = start + rows * _ROW_BYTES
        if magic != _MAGIC or chunk_first != first or end <= first or place > len(data):
            return
        checked = memoryview(data)[start - _HEADER.size + _CHECKED_FROM : place]
        # Earlier versions did not seed it with the log's id base.
        if checksum not in (xxh3_64_intdigest(checked, owner), xxh3_64_intdigest(checked)):
            return
        yield _Chunk(first, end, last_ns, start, rows)
        first = end


def _belongs(chunk: _Chunk, log: ReadableLog) -> bool:
    """True if the log holds what the chunk was made from.

    A log that lost its newest messages in a power cut may have got others at their offsets.
    """
    last = chunk.end - 1
    if last >= log.next_offset:
        return False
    if last < log.start_offset:
        return True
    batches, place = log.batches_at(last)
    if place >= len(batches) or batches[place].first_offset > last:
        return True  # damaged there, so nothing can be found there either
    return batches[place].timestamp_ns == chunk.last_ns
