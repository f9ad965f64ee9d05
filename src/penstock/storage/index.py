"""The sparse index of a segment: where its blocks start.

A block is a run of whole batches of about ``BLOCK_BYTES``; it is what is read from the file,
checked and cached at once. The index costs 24 bytes a block, so 10 million messages need a few
hundred kB.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_left, bisect_right
from typing import Final

from xxhash import xxh3_64_intdigest

from penstock.storage.batch import CorruptBatchError

# Smaller blocks mean a larger index and more reads; larger ones make a single message from the
# middle of a log dearer, as its block is read whole.
BLOCK_BYTES: Final = 256 * 1024

# magic, checksum of the rest (seeded with the segment's first id), size of the segment file,
# next offset, last timestamp, blocks
_HEADER = struct.Struct("<4sQQQqI")
_CHECKED_FROM: Final = 12
_MAGIC: Final = b"PSI1"
_OF_ANY_SEGMENT: Final = 0


class BlockIndex:
    """Block starts of one segment: offset and file position of each block's first batch.

    Its timestamp is the latest so far, so that a wall clock set back does not spoil the order.
    """

    __slots__ = ("offsets", "positions", "timestamps")

    def __init__(self) -> None:
        self.offsets = array("q")
        self.positions = array("q")
        self.timestamps = array("q")

    def __len__(self) -> int:
        return len(self.offsets)

    def note(self, offset: int, position: int, timestamp_ns: int) -> None:
        """A batch was appended; it starts a block when the current one is large enough."""
        if self.positions and position - self.positions[-1] < BLOCK_BYTES:
            return
        self.offsets.append(offset)
        self.positions.append(position)
        self.timestamps.append(timestamp_ns)

    def pop(self) -> tuple[int, int]:
        """Forget the last block; returns its first offset and its position in the file."""
        self.timestamps.pop()
        return self.offsets.pop(), self.positions.pop()

    def block_of(self, offset: int) -> int:
        """Number of the block that holds ``offset`` or, in a gap, lies before it."""
        return max(0, bisect_right(self.offsets, offset) - 1)

    def block_at_time(self, timestamp_ns: int) -> int:
        """Number of the last block that starts before ``timestamp_ns``, the first at least."""
        return max(0, bisect_left(self.timestamps, timestamp_ns) - 1)

    def encode(
        self, size: int, next_offset: int, last_timestamp_ns: int, first_id: int = 0
    ) -> bytes:
        """The sidecar file of the segment whose first message would have this id."""
        arrays = b"".join(a.tobytes() for a in (self.offsets, self.positions, self.timestamps))
        head = _HEADER.pack(_MAGIC, 0, size, next_offset, last_timestamp_ns, len(self))
        checksum = xxh3_64_intdigest(head[_CHECKED_FROM:] + arrays, first_id)
        return _MAGIC + struct.pack("<Q", checksum) + head[_CHECKED_FROM:] + arrays

    @classmethod
    def decode(cls, data: bytes, first_id: int = 0) -> tuple[BlockIndex, int, int, int]:
        """The index, file size, next offset and last timestamp.

        Raises CorruptBatchError, for the index of another segment as well. Those of earlier
        versions name none.
        """
        if len(data) < _HEADER.size:
            raise CorruptBatchError("index file is too short")
        magic, checksum, size, next_offset, timestamp_ns, blocks = _HEADER.unpack_from(data)
        checked = data[_CHECKED_FROM:]
        seeds = (first_id, _OF_ANY_SEGMENT)
        if magic != _MAGIC or checksum not in [xxh3_64_intdigest(checked, seed) for seed in seeds]:
            raise CorruptBatchError("index file is damaged, or another segment's")
        index = cls()
        width = 8 * blocks
        start = _HEADER.size
        if len(data) != start + 3 * width:
            raise CorruptBatchError("index file has not the size that it says")
        for column in (index.offsets, index.positions, index.timestamps):
            column.frombytes(data[start : start + width])
            start += width
        return index, size, next_offset, timestamp_ns
