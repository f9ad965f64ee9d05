"""Where the batches of a block start: all that is kept of it for those who read here and there.

A pull from one of a thousand queues needs one batch of a block, the next pull one of another. To
read and check whole blocks for that, and to keep them, would cost a thousand times what is wanted.
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
    """First offsets and positions of a block's batches, counted from the block's own."""

    __slots__ = ("_first_offset", "_firsts", "_positions", "nbytes")

    def __init__(self, raw: bytes, first_offset: int) -> None:
        """Steps over the headers in ``raw``, unchecked, up to one that makes no sense."""
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
        self.nbytes = _OBJECT_BYTES + firsts.itemsize * (len(firsts) + len(positions))

    def __len__(self) -> int:
        return len(self._firsts)

    def span(self, offset: int) -> tuple[int, int]:
        """Where the batch starts and ends that holds ``offset``, if any does."""
        place = bisect_right(self._firsts, offset - self._first_offset)
        positions = self._positions
        return (positions[place - 1], positions[place]) if place else (0, 0)
