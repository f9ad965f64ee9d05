"""Blocks read from segment files, kept while they fit one budget for the whole broker.

Channels that read the same stretch of a backlog one behind the other share the read and the check.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from typing import Final

from penstock.storage.batch import Batch

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


BlockKey = tuple[int, int, int]  # segment serial, block number, end position


class BlockCache:
    """Least recently used blocks, bounded in bytes."""

    def __init__(self, nbytes_max: int = CACHE_BYTES_MAX) -> None:
        self._blocks: OrderedDict[BlockKey, Block] = OrderedDict()
        self._nbytes = 0
        self._nbytes_max = nbytes_max

    def get(self, key: BlockKey) -> Block | None:
        block = self._blocks.get(key)
        if block is not None:
            self._blocks.move_to_end(key)
        return block

    def put(self, key: BlockKey, block: Block) -> None:
        replaced = self._blocks.pop(key, None)
        self._nbytes += block.nbytes - (replaced.nbytes if replaced else 0)
        self._blocks[key] = block
        while self._nbytes > self._nbytes_max and len(self._blocks) > 1:
            _, evicted = self._blocks.popitem(last=False)
            self._nbytes -= evicted.nbytes

    def __len__(self) -> int:
        return len(self._blocks)
