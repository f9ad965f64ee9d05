"""The newest batches of a queue, kept in memory for the consumers that keep up."""

from __future__ import annotations

from bisect import bisect_right
from typing import Final

from penstock.core.ranges import RangeSet
from penstock.storage.batch import Batch

TAIL_BYTES_MAX: Final = 32 * 1024 * 1024


class Tail:
    """The last ``messages_max`` messages and at most ``nbytes_max`` of them, in whole batches.

    The newest batch always stays, whatever its size. Batches leave in blocks, so that the cost of
    letting go is spread over many appends.
    """

    __slots__ = ("_first_offsets", "_nbytes", "batches", "messages_max", "nbytes_max")

    def __init__(self, messages_max: int, nbytes_max: int = TAIL_BYTES_MAX) -> None:
        self.messages_max = messages_max
        self.nbytes_max = nbytes_max
        self.batches: list[Batch] = []
        self._first_offsets: list[int] = []
        self._nbytes = 0

    @property
    def first_offset(self) -> int | None:
        """The oldest offset in memory; None when there is none."""
        return self._first_offsets[0] if self._first_offsets else None

    @property
    def nbytes(self) -> int:
        return self._nbytes

    def append(self, batch: Batch) -> None:
        self.batches.append(batch)
        self._first_offsets.append(batch.first_offset)
        self._nbytes += len(batch.raw)
        surplus = batch.next_offset - self._first_offsets[0] - self.messages_max
        if surplus > self.messages_max // 4 or self._nbytes > self.nbytes_max:
            self._shrink(batch.next_offset - self.messages_max)

    def find(self, offset: int) -> int | None:
        """Number of the batch that holds ``offset``; None when it is not in memory."""
        firsts = self._first_offsets
        if not firsts or offset < firsts[0]:
            return None
        return bisect_right(firsts, offset) - 1

    def keep(self, needed: RangeSet) -> None:
        """Let go of the batches of which no offset is needed."""
        kept = []
        for batch in self.batches:
            span = needed.first_from(batch.first_offset)
            if span is not None and span[0] < batch.next_offset:
                kept.append(batch)
        self.batches = kept
        self._first_offsets = [batch.first_offset for batch in kept]
        self._nbytes = sum(len(batch.raw) for batch in kept)

    def clear(self) -> None:
        self.drop(len(self.batches))

    def drop(self, batches: int) -> None:
        """Let go of the oldest ``batches`` batches."""
        self._nbytes -= sum(len(batch.raw) for batch in self.batches[:batches])
        del self.batches[:batches], self._first_offsets[:batches]

    def _shrink(self, needless_before: int) -> None:
        batches = self.batches
        nbytes = self._nbytes
        drop = 0
        while drop < len(batches) - 1 and (
            batches[drop].next_offset <= needless_before or nbytes > self.nbytes_max
        ):
            nbytes -= len(batches[drop].raw)
            drop += 1
        self.drop(drop)
