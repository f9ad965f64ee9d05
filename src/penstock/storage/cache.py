"""Blocks read from segment files, kept while they fit one budget for the whole broker.

Channels that read the same stretch of a backlog one behind the other share the read and the check.
Of blocks that are read here and there, the outline stays for long after their bytes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from typing import Final

from penstock.storage.batch import Batch
from penstock.storage.outline import Outline

CACHE_BYTES_MAX: Final = 32 * 1024 * 1024
OUTLINE_BYTES_MAX: Final = 8 * 1024 * 1024
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
"""A cached block: all of it, or the places where its batches start."""


class BlockCache:
    """Least recently used blocks, bounded in bytes, and the outlines of more of them, likewise."""

    def __init__(
        self, nbytes_max: int = CACHE_BYTES_MAX, outlines_max: int = OUTLINE_BYTES_MAX
    ) -> None:
        self._kept = _Recent(nbytes_max)
        self._outlines = _Recent(outlines_max)

    def get(self, key: BlockKey) -> Kept | None:
        known = self._kept.known
        if key in known:
            known.move_to_end(key)
            return known[key]
        return self._outlines.get(key)

    def put(self, key: BlockKey, new: Kept) -> None:
        # In one of the two only, or its size would count twice.
        self._outlines.pop(key)
        self._kept.put(key, new)
        while (oldest := self._kept.surplus()) is not None:
            known = self._kept.pop(oldest)
            # The places alone are a few bytes; a whole block has nothing smaller to leave.
            if isinstance(known, Outline):
                known.let_go()
                self._outlines.put(oldest, known)
        while (oldest := self._outlines.surplus()) is not None:
            self._outlines.pop(oldest)

    def __len__(self) -> int:
        return len(self._kept) + len(self._outlines)


class _Recent:
    """Known blocks in the order of their use, and their size."""

    __slots__ = ("_nbytes", "_nbytes_max", "known")

    def __init__(self, nbytes_max: int) -> None:
        self.known: OrderedDict[BlockKey, Kept] = OrderedDict()
        self._nbytes = 0
        self._nbytes_max = nbytes_max

    def get(self, key: BlockKey) -> Kept | None:
        found = self.known.get(key)
        if found is not None:
            self.known.move_to_end(key)
        return found

    def put(self, key: BlockKey, new: Kept) -> None:
        self.pop(key)
        self.known[key] = new
        self._nbytes += new.nbytes

    def pop(self, key: BlockKey) -> Kept | None:
        found = self.known.pop(key, None)
        if found is not None:
            self._nbytes -= found.nbytes
        return found

    def surplus(self) -> BlockKey | None:
        """The least recently used one, when it has to leave; the newest always stays."""
        if self._nbytes <= self._nbytes_max or len(self.known) < 2:
            return None
        return next(iter(self.known))

    def __len__(self) -> int:
        return len(self.known)
