"""Blocks read from segment files, kept while they fit one budget for the whole broker.

Channels that read the same stretch of a backlog one behind the other share the read and the check.
Of blocks that are read here and there, only the outline is kept.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from typing import Final

from penstock.storage.batch import Batch
from penstock.storage.outline import Outline

CACHE_BYTES_MAX: Final = 32 * 1024 * 1024
_BATCH_OBJECT_BYTES: Final = 600  # what Python keeps for a batch beside its bytes


class Block:
    """Some consecutive batches of a log, in memory."""

    __slots__ = ("_firsts", "batches", "nbytes")

    def __init__(self, batches: list[Batch], raw: bytes) -> None:
        self.batches = batches
        self.nbytes = len(raw) + _BATCH_OBJECT_BYTES * len(batches)
        self._firsts: list[int] | None = None

    def find(self, offset: int) -> int:
        """Number of the first batch that ends behind ``offset``; ``len(batches)`` if none does."""
        batches = self.batches
        if len(batches) == 1:
            return 0 if offset < batches[0].next_offset else 1
        if self._firsts is None:
            self._firsts = [batch.first_offset for batch in batches]
        place = max(0, bisect_right(self._firsts, offset) - 1)
        if place < len(batches) and batches[place].next_offset <= offset:
            place += 1
        return place

    def batch(self, offset: int) -> Batch | None:
        """The batch that holds ``offset``; None when none does."""
        place = self.find(offset)
        if place == len(self.batches) or self.batches[place].first_offset > offset:
            return None
        return self.batches[place]


BlockKey = tuple[int, int, int]  # segment serial, block number, end position
Kept = Block | Outline
"""What is known of a block: all of it, or where its batches start."""


class BlockCache:
    """Least recently used blocks, bounded in bytes."""

    def __init__(self, nbytes_max: int = CACHE_BYTES_MAX) -> None:
        self._kept: OrderedDict[BlockKey, Kept] = OrderedDict()
        self._nbytes = 0
        self._nbytes_max = nbytes_max

    def get(self, key: BlockKey) -> Kept | None:
        found = self._kept.get(key)
        if found is not None:
            self._kept.move_to_end(key)
        return found

    def put(self, key: BlockKey, new: Kept) -> None:
        replaced = self._kept.pop(key, None)
        self._nbytes += new.nbytes - (replaced.nbytes if replaced else 0)
        self._kept[key] = new
        while self._nbytes > self._nbytes_max and len(self._kept) > 1:
            _, evicted = self._kept.popitem(last=False)
            self._nbytes -= evicted.nbytes

    def __len__(self) -> int:
        return len(self._kept)
