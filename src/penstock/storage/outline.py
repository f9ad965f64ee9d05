"""The starts of the batches of a block, for those who read here and there.

A pull from one of a thousand queues needs one batch of a block, the next pull one of another. To
parse and check whole blocks for that would cost a thousand times what is wanted. The bytes of the
block are kept as long as the cache has room for them: then its other batches cost no read.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_right
from typing import Final

from penstock.storage.batch import HEADER_BYTES, MAGIC

_STEP = struct.Struct("<4sI8xQ24xI")  # magic, length, first offset and count of a batch header
_OBJECT_BYTES: Final = 400  # what Python keeps for an outline beside its numbers
_UINT32_MAX: Final = (1 << 32) - 1


class Outline:
    """First offsets and positions of a block's batches, counted from the block's own; ``raw`` are
    its bytes, unchecked, None when they were let go.
    """

    __slots__ = ("_first_offset", "_firsts", "_positions", "nbytes", "raw")

    def __init__(self, raw: bytes, first_offset: int) -> None:
        """Step over the headers in ``raw``, unchecked, up to one that makes no sense."""
        self._first_offset = first_offset
        self._firsts = firsts = array("I")
        self._positions = positions = array("I")
        place = expected = 0
        step, last = _STEP.unpack_from, len(raw) - HEADER_BYTES
        while place <= last:
            magic, length, first, count = step(raw, place)
            first -= first_offset
            if magic != MAGIC or length < HEADER_BYTES or not expected <= first <= _UINT32_MAX:
                break
            firsts.append(first)
            positions.append(place)
            expected = first + count
            place += length
        positions.append(min(place, len(raw)))
        self.raw: memoryview | None = memoryview(raw)
        self.nbytes = self._own_bytes + len(raw)

    def __len__(self) -> int:
        return len(self._firsts)

    @property
    def _own_bytes(self) -> int:
        return _OBJECT_BYTES + self._firsts.itemsize * (len(self._firsts) + len(self._positions))

    def let_go(self) -> None:
        """Keep the bytes no longer."""
        self.raw = None
        self.nbytes = self._own_bytes

    def span(self, offset: int) -> tuple[int, int]:
        """The start and end of the batch that holds ``offset``, if any does."""
        place = bisect_right(self._firsts, offset - self._first_offset)
        if not place:
            return 0, 0
        return self._positions[place - 1], self._positions[place]
