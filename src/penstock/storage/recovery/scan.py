"""Reading batches out of bytes that may be damaged.

A bad batch never ends the reading. When its header still makes sense and another one stands where
it says that the batch ends, the scan goes on there; the bodies of messages may hold batches, which
must not pass for ours. Otherwise it looks for the next place where a whole batch with a right
checksum starts. What lies between is reported as damage, so that recovery
can tell a torn tail (nothing valid follows) from corruption (something does).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field

from penstock.storage.batch import MAGIC, Batch, Buffer, CorruptBatchError, TruncatedBatchError


@dataclass(slots=True)
class BadBytes:
    """Bytes ``start`` to ``end`` of the scanned buffer hold no valid batch."""

    start: int
    end: int


@dataclass(slots=True)
class Scan:
    """The valid batches of a buffer in order, where they start, and what lies between them."""

    batches: list[Batch] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)
    damage: list[BadBytes] = field(default_factory=list)
    end: int = 0  # just behind the last valid batch

    @property
    def torn(self) -> bool:
        """True if the buffer ends in damage: bytes behind the last valid batch."""
        return bool(self.damage) and self.damage[-1].start == self.end

    def refuse_from(self, offset: int) -> None:
        """Count all as damage if the first valid batch is at this offset or behind it."""
        if self.batches and self.batches[0].first_offset >= offset:
            end = max(self.end, self.damage[-1].end if self.damage else 0)
            self.batches, self.positions, self.end = [], [], 0
            self.damage = [BadBytes(0, end)]

    def gaps(self, expected: int, following: int) -> Iterator[tuple[BadBytes, int, int]]:
        """The bad bytes, each with the range of offsets missing between the batches around it.

        ``expected`` is the first offset of the buffer, ``following`` the one behind it.
        """
        for bad in self.damage:
            behind = bisect_left(self.positions, bad.end)
            first = self.batches[behind - 1].next_offset if behind else expected
            if behind < len(self.batches):
                yield bad, first, self.batches[behind].first_offset
            else:
                yield bad, first, max(first, following)


def scan(
    buffer: Buffer, expected_offset: int = 0, id_base: int | None = None, *, more: bool = False
) -> Scan:
    """Every valid batch of ``buffer`` whose first offset is not below ``expected_offset``.

    Batches must be ascending in their offsets and, with ``id_base``, have the ids that belong to
    their offsets: a stale or misdirected one counts as damage. ``more`` says that the buffer is
    cut: what may be a batch that goes on behind its end is not searched, as the bodies of its
    messages might hold batches, and is reported as damage, to be scanned again with the rest.
    """
    data = bytes(buffer)  # no copy when it is bytes already
    view = memoryview(data)
    found = Scan()
    position = 0
    while position < len(view):
        batch, cut = _valid(view, position, expected_offset, id_base)
        if batch is None:
            start = position
            if more and cut:
                # A batch may go on behind the buffer, so nothing in it is searched now.
                position = len(view)
            else:
                position = _stated_end(view, start, expected_offset, id_base) or _next_valid(
                    data, view, start + 1, expected_offset, id_base, more
                )
            if found.damage and found.damage[-1].end == start:
                found.damage[-1].end = position
            else:
                found.damage.append(BadBytes(start, position))
            continue
        found.batches.append(batch)
        found.positions.append(position)
        position += len(batch.raw)
        found.end = position
        expected_offset = batch.next_offset
    return found


def _valid(
    view: memoryview, position: int, expected_offset: int, id_base: int | None
) -> tuple[Batch | None, bool]:
    """The batch at a position, and whether there may be one that the end of the buffer cuts.

    What a message body may imitate costs no checksum here.
    """
    try:
        batch = _plausible(view, position, expected_offset, id_base)
        batch.verify()
    except TruncatedBatchError:
        return None, True
    except CorruptBatchError:
        return None, False
    return batch, False


def _plausible(view: memoryview, position: int, expected_offset: int, id_base: int | None) -> Batch:
    """The batch at a position, judged by its header only. Raises CorruptBatchError."""
    # A body may hold anything, whole headers too: offsets and ids tell most of those apart.
    batch = Batch.parse(view, position, verify=False)
    if batch.first_offset < expected_offset:
        raise CorruptBatchError("stale batch")
    if id_base is not None and batch.first_id != id_base + batch.first_offset:
        raise CorruptBatchError("batch of another queue")
    return batch


def _stated_end(
    view: memoryview, position: int, expected_offset: int, id_base: int | None
) -> int | None:
    """The end of the bad batch at a position by its header, if that fits what follows there."""
    try:
        batch = _plausible(view, position, expected_offset, id_base)
    except CorruptBatchError:
        return None
    # The table must agree with the length, or one of them is what is damaged.
    if batch.position(batch.next_offset) != len(batch.frames):
        return None
    end = position + len(batch.raw)
    try:
        if end < len(view):
            _plausible(view, end, expected_offset, id_base)
    except TruncatedBatchError:
        return end
    except CorruptBatchError:
        return None
    return end


def _next_valid(
    data: bytes,
    view: memoryview,
    position: int,
    expected_offset: int,
    id_base: int | None,
    more: bool,
) -> int:
    """The start of the next valid batch, or the end of the buffer."""
    while (position := data.find(MAGIC, position)) >= 0:
        batch, cut = _valid(view, position, expected_offset, id_base)
        if batch is not None:
            return position
        if more and cut:
            break
        position += 1
    return len(view)
