"""One file of the log: a run of batches, named by the offset it starts with.

The newest segment of a queue is appended to; the others are finished: they have an index file
beside them, and are deleted as a whole when nobody needs them any more.
"""

from __future__ import annotations

import logging
import os
from bisect import bisect_right
from collections.abc import Sequence
from itertools import count
from typing import Final

from penstock.storage.batch import Batch, Buffer, CorruptBatchError
from penstock.storage.cache import Block, BlockCache
from penstock.storage.files.disk import Disk, LogFile
from penstock.storage.index import BlockIndex
from penstock.storage.outline import Outline
from penstock.storage.recovery.damage import Damage, DamageRecord
from penstock.storage.recovery.scan import Scan, scan
from penstock.storage.recovery.torn_commit import CommitStart

logger = logging.getLogger(__name__)

# A message that ends in as many zeros costs only another reading of its block.
GLANCE_BYTES: Final = 512
STEPPED_OVER: Final = "damaged, stepped over"
# Keys of the cache: a topic that is deleted and made again has segments of the same names.
_serials = count(1)


def segment_name(first_offset: int) -> str:
    """File name of the segment that starts with this offset."""
    return f"{first_offset:020d}.log"


def index_path(path: str) -> str:
    """The path of the index of the segment with this path."""
    return path.removesuffix(".log") + ".index"


def parse_segment_name(name: str) -> int | None:
    """First offset of the segment with this file name; None when it is not a segment's."""
    stem, dot, suffix = name.partition(".")
    return int(stem) if dot and suffix == "log" and len(stem) == 20 and stem.isdecimal() else None


class Segment:
    """A segment file with its index.

    ``next_offset`` is one behind the last message, ``last_timestamp_ns`` the latest of all;
    ``size`` is in bytes.
    """

    __slots__ = (
        "damage",
        "file",
        "first_offset",
        "id_base",
        "index",
        "last_timestamp_ns",
        "next_offset",
        "serial",
    )

    def __init__(self, file: LogFile, first_offset: int, id_base: int) -> None:
        self.file = file
        self.first_offset = first_offset
        self.next_offset = first_offset
        self.id_base = id_base
        self.index = BlockIndex()
        self.last_timestamp_ns = 0
        self.damage = DamageRecord()
        self.serial = next(_serials)

    @property
    def size(self) -> int:
        return self.file.size

    @property
    def index_path(self) -> str:
        return index_path(self.file.path)

    def append(self, batches: Sequence[Batch]) -> None:
        """Write batches with one call. Raises DiskFullError or StorageError; nothing changes
        then.
        """
        position = self.file.size
        if len(batches) == 1:
            self.file.append(batches[0].raw)
        else:
            # One call for all: a failed write leaves none of them, not a part of a commit.
            self.file.append(b"".join([batch.raw for batch in batches]))
        for batch in batches:
            self.note(batch, position)
            position += len(batch.raw)

    def take(self, batches: Sequence[Batch]) -> None:
        """Take in batches that stand behind the file's end; their heads are enough."""
        position = self.file.size
        self.file.grow(position + sum([batch.nbytes for batch in batches]))
        for batch in batches:
            self.note(batch, position)
            position += batch.nbytes

    def note(self, batch: Batch, position: int) -> None:
        """Take a batch that stands at a file position into the index."""
        # Never back, though the system's time may be set: a search by time relies on its order.
        self.last_timestamp_ns = max(self.last_timestamp_ns, batch.timestamp_ns)
        self.index.note(batch.first_offset, position, self.last_timestamp_ns)
        self.next_offset = batch.next_offset

    def place(self, position: int, next_offset: int) -> CommitStart:
        """The place at a file position where the batch at that offset begins."""
        return CommitStart(position, next_offset, self.last_timestamp_ns, len(self.index))

    def cut(self, place: CommitStart) -> None:
        """Forget all from a place on, in the file as well. Raises StorageError."""
        self.file.truncate(place.position)
        self.next_offset, self.last_timestamp_ns = place.next_offset, place.last_timestamp_ns
        while len(self.index) > place.blocks:
            self.index.pop()

    def span(self, number: int) -> tuple[int, int]:
        """File positions where block ``number`` starts and ends."""
        positions = self.index.positions
        end = positions[number + 1] if number + 1 < len(positions) else self.file.size
        return positions[number], end

    def bytes_from(self, offset: int) -> int:
        """About how many bytes of the file lie behind the messages before ``offset``."""
        if offset >= self.next_offset:
            return 0
        if not len(self.index):  # no batch of it can be read
            return self.file.size
        number = self.index.block_of(offset)
        start, end = self.span(number)
        first = self.index.offsets[number]
        done = max(0, offset - first) * (end - start) // max(1, self._end_of(number) - first)
        return self.file.size - start - done

    def block(self, number: int, cache: BlockCache) -> Block:
        """A block, checked; damaged batches are left out, and the log says so."""
        start, end = self.span(number)
        # With its end, as the last block grows while its segment is appended to.
        key = (self.serial, number, end)
        block = cache.get(key)
        if not isinstance(block, Block):
            raw = self.file.read(start, end - start)
            found = scan(raw, self.index.offsets[number], self.id_base)
            following = self._end_of(number)
            # Its batches have whole checksums: only their offsets show it.
            found.refuse_from(following)  # another segment's file is in this one's place
            if found.damage or len(raw) < end - start:
                self._report(found, number, raw, following)
            block = Block(found.batches, raw)
            cache.put(key, block)
        return block

    def _end_of(self, number: int) -> int:
        """The offset behind block ``number``."""
        offsets = self.index.offsets
        return offsets[number + 1] if number + 1 < len(offsets) else self.next_offset

    def _report(self, found: Scan, number: int, raw: bytes, following: int) -> None:
        """Report the parts of a block that cannot be read."""
        (start, end), offsets = self.span(number), self.index.offsets
        name = os.path.basename(self.file.path)
        for bad, first, next_ in found.gaps(offsets[number], following):
            damage = Damage(
                name, STEPPED_OVER, start + bad.start, bad.end - bad.start, first, next_
            )
            self.damage.report(damage, raw[bad.start : bad.end], is_loss=first < next_)
        if len(raw) < end - start and not found.torn:
            first = found.batches[-1].next_offset if found.batches else offsets[number]
            self.damage.report(Damage(name, "cut short", first=first, next=following))

    def forget_zeros(self, end: int) -> int:
        """Drop the last blocks of the index while they end in zeros; returns the new end.

        ``end`` is the file position at which the index ends so far. A disk that loses the end of a
        file leaves zeros there.
        """
        while len(self.index):
            start = max(0, end - GLANCE_BYTES)
            if self.file.read(start, end - start).strip(b"\0"):
                break
            self.next_offset, end = self.index.pop()
        return end

    def batch(self, offset: int, cache: BlockCache) -> Batch | None:
        """The batch that holds ``offset``; None when that message is gone or damaged.

        Of a block that is not in the cache, only this batch is checked.
        """
        number = bisect_right(self.index.offsets, offset) - 1
        if number < 0:
            return None
        start, end = self.span(number)
        known = cache.get(key := (self.serial, number, end))
        if known is None:
            known = Outline(self.file.read(start, end - start), self.index.offsets[number])
            cache.put(key, known)
        if isinstance(known, Outline):
            place, end = known.span(offset)
            raw: Buffer | None = known.raw
            if raw is None:
                raw, place = self.file.read(start + place, end - place), 0
            try:
                batch = Batch.parse(raw, place)
            # Not reported here: the whole block, which is read below, says what is damaged.
            except CorruptBatchError:
                pass
            else:
                is_ours = batch.first_id == self.id_base + batch.first_offset
                if is_ours and batch.first_offset <= offset < batch.next_offset:
                    return batch
        return self.block(number, cache).batch(offset)

    def encode_index(self) -> bytes:
        """The content of the index file for the segment as it is now."""
        return self.index.encode(
            self.file.size, self.next_offset, self.last_timestamp_ns, self.first_id
        )

    @property
    def first_id(self) -> int:
        """The id of its first message; no other segment of any queue has it."""
        return self.id_base + self.first_offset

    def delete(self, disk: Disk) -> None:
        """Remove both files."""
        self.file.close()
        # The index first. A segment without one is only read again; an index without its segment
        # would be believed by the next segment of that name.
        disk.remove(self.index_path)
        disk.remove(self.file.path)

    @classmethod
    def create(cls, disk: Disk, directory: str, first_offset: int, id_base: int) -> Segment:
        """A new, empty segment."""
        path = os.path.join(directory, segment_name(first_offset))
        segment = cls(disk.open(path), first_offset, id_base)
        disk.remove(segment.index_path)  # an old one would be believed once the file has grown
        return segment
