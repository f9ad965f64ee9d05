"""Reading messages at known offsets, here and there in the log."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from penstock.storage.batch import Batch
from penstock.storage.log import ReadableLog

_FEW: Final = 8  # so few messages at one place are not worth reading all around them


def retrieve(
    log: ReadableLog, first: int, next_: int, lose: Callable[[int], None]
) -> Iterator[tuple[Batch, int, int]]:
    """The batches that hold ``[first, next_)``, with the part of it in each.

    ``lose`` is told how many are missing, as they come up. Raises StorageError.
    """
    while first < next_:
        batch = log.batch_at(first) if next_ - first < _FEW else None
        if batch is not None:
            yield batch, first, min(next_, batch.next_offset)
            first = batch.next_offset
            continue
        batches, place = log.batches_at(first)
        # No batch at all: the rest is lost up to the log's end.
        low = batches[place].first_offset if place < len(batches) else next_
        if low > first:
            lose(min(low, next_) - first)
            first = low
            continue
        batch = batches[place]
        yield batch, first, min(next_, batch.next_offset)
        first = batch.next_offset
