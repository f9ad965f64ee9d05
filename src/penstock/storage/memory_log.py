"""The log of an ``#ephemeral`` topic: memory only, and nothing outlives the process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from penstock.core.errors import OffsetOutOfRangeError
from penstock.core.ranges import RangeSet
from penstock.storage.batch import Batch
from penstock.storage.log import Ahead, BatchRun
from penstock.storage.recovery.damage import DamageRecord
from penstock.storage.retention import Retention
from penstock.storage.tail import Tail

_NO_LIMIT: Final = 1 << 62
_COMPACT_MESSAGES_MIN: Final = 2000


class MemoryLog:
    """Same face as ``Log``; the topic bounds it by dropping what no channel has room for."""

    def __init__(self, id_base: int, first_offset: int = 0) -> None:
        self.id_base = id_base
        self.next_offset = first_offset
        self.failure = None
        self.damage = DamageRecord()
        self.unsynced_messages = 0
        self.synced_offset = first_offset
        self._start_offset = first_offset
        self._tail = Tail(_NO_LIMIT, nbytes_max=_NO_LIMIT)
        self._held = 0  # messages
        self._compact_at = _COMPACT_MESSAGES_MIN

    @property
    def append_offset(self) -> int:
        """Equal to ``next_offset``: in memory, every appended message is visible."""
        return self.next_offset

    @property
    def next_id(self) -> int:
        return self.id_base + self.next_offset

    @property
    def start_offset(self) -> int:
        return self._start_offset

    @property
    def nbytes(self) -> int:
        return self._tail.nbytes

    def append(self, batches: Sequence[Batch]) -> None:
        """Append batches, like ``Log.append``; cannot fail."""
        for batch in batches:
            assert batch.first_offset >= self.next_offset
            self._tail.append(batch)
            self._held += batch.count
            self.next_offset = batch.next_offset

    @property
    def wants_compaction(self) -> bool:
        """True if it holds much more than was needed when it was compacted last."""
        return self._held > self._compact_at

    def compact(self, needed: RangeSet) -> None:
        """Let go of the batches of which no offset is needed."""
        self._tail.keep(needed)
        self._held = sum(batch.count for batch in self._tail.batches)
        # Twice what is left: so the work is in proportion to what is appended.
        self._compact_at = 2 * self._held + _COMPACT_MESSAGES_MIN
        first = self._tail.first_offset
        self._start_offset = self.next_offset if first is None else first

    def batches_at(self, offset: int) -> BatchRun:
        """Consecutive batches from an offset on, like ``Log.batches_at``."""
        batches: Sequence[Batch] = self._tail.batches
        place = self._tail.find(offset)
        if place is None:
            place = 0
        elif offset >= batches[place].next_offset:
            place += 1
        return batches, place

    def batch_at(self, offset: int) -> Batch | None:
        """The batch at an offset, like ``Log.batch_at``."""
        place = self._tail.find(offset)
        batch = None if place is None else self._tail.batches[place]
        return batch if batch is not None and offset < batch.next_offset else None

    def read_raw(self, offset: int, nbytes: int) -> list[memoryview]:
        """Whole batches as they are stored, like ``Log.read_raw``."""
        if not self.start_offset <= offset <= self.next_offset:
            raise OffsetOutOfRangeError("memory", 0, offset, self.start_offset, self.next_offset)
        batches, place = self.batches_at(offset)
        pieces: list[memoryview] = []
        for batch in batches[place:]:
            # At least one, as in ``Log.read_raw``, or a small reader would stay where it is.
            if pieces and nbytes < len(batch.raw):
                break
            pieces.append(batch.raw)
            nbytes -= len(batch.raw)
        return pieces

    def offset_at(self, timestamp_ns: int) -> int:
        """The first offset at or after a time, like ``Log.offset_at``."""
        for batch in self._tail.batches:
            if batch.timestamp_ns >= timestamp_ns:
                return batch.first_offset
        return self.next_offset

    def bytes_from(self, offset: int) -> int:
        """The approximate size of the batches from an offset on, like ``Log.bytes_from``."""
        batches, place = self.batches_at(offset)
        return sum(len(batch.raw) for batch in batches[place:])

    @property
    def trimmable(self) -> bool:
        """True if there is anything to trim, like ``Log.trimmable``."""
        return self._held > 0

    def trim(
        self,
        before_offset: int,
        now_ns: int,
        retention: Retention,
        ahead: Ahead | None = None,
        about_to: Callable[[int], None] | None = None,
    ) -> int:
        """Let go of the batches that end at or before an offset; how many."""
        drop = 0
        for batch in self._tail.batches:
            if batch.next_offset > before_offset:
                break
            drop += 1
            self._held -= batch.count
        self._tail.drop(drop)
        self._start_offset = max(self._start_offset, min(before_offset, self.next_offset))
        return drop

    def flush(self) -> None:
        """Do nothing: nothing is held back."""

    def begin_sync(self, *, checkpoint: bool = False) -> None:
        """Do nothing: there is nothing to sync."""

    def close(self) -> None:
        self._tail.clear()

    def delete(self) -> None:
        self._tail.clear()
