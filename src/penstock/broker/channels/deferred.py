"""Messages of a channel that wait for a time: deferred when published, or requeued with a delay."""

from __future__ import annotations

import heapq
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

DUE_IN_ORDER_MAX: Final = 1000
EARLIEST: Final = -(1 << 62)
LATEST: Final = (1 << 64) - 1 + EARLIEST
"""Deadlines (monotonic ns) are between these: 146 years ago and 438 years ahead."""

_OFFSET_MAX: Final = (1 << 63) - 1
# A heap entry is one integer, so that a comparison is one step: 64 bits of deadline, 63 of the
# first offset, 32 of the row. Equal deadlines come in the order of the log.
_ROW_BITS: Final = 32
_ROW_MASK: Final = (1 << _ROW_BITS) - 1
_DEADLINE_AT: Final = _ROW_BITS + 63
# To rebuild the heap costs its whole length; fewer dead entries than this are not worth it.
_STALE_MIN: Final = 1000
_FIRST: Final = attrgetter("first")

Rows: TypeAlias = "npt.NDArray[np.intp]"
Column: TypeAlias = "npt.NDArray[Any]"


class DeferredRange(NamedTuple):
    """Messages ``[first, next)`` to deliver from ``deadline`` (monotonic ns) on."""

    deadline: int
    first: int
    next: int
    attempts: int


class Deferred:
    """The deferred messages of a channel, as ranges; there may be millions.

    A range has a row in four arrays, in which numpy looks for offsets, and one integer in a heap,
    by which it becomes due: 83 bytes together. It remembers what came and went since ``collect``
    was last called, for the journal.
    """

    __slots__ = ("_attempts", "_changes", "_counts", "_deadlines", "_firsts", "_free", "_heap",
                 "_reset", "_stale", "count")  # fmt: skip

    def __init__(self) -> None:
        self._forget()

    def _forget(self) -> None:
        self._deadlines = array("Q")  # ns since EARLIEST
        self._firsts = array("q")
        self._counts = array("I")  # 0: the row is free, or will be when its heap entry comes up
        self._attempts = array("H")
        self._free = array("I")  # rows that no entry of the heap names
        self._heap: list[int] = []  # deadline | first offset | row
        self._stale = 0  # entries of the heap whose range was taken out by its offset
        self._changes: dict[int, int | None] = {}  # first offset: row, or None when it is over
        self._reset = True
        self.count = 0

    def __iter__(self) -> Iterator[DeferredRange]:
        """Iterate over the offsets, in no order."""
        return iter(self._ranges(np.flatnonzero(self._column(self._counts))))

    def add(self, deadline: int, first: int, next_: int, attempts: int) -> None:
        """``[first, next_)`` waits from now on, until ``LATEST`` at the most."""
        deadline = _since_earliest(deadline)
        if self._free:
            row = self._free.pop()
            self._deadlines[row] = deadline
            self._firsts[row] = first
            self._counts[row] = next_ - first
            self._attempts[row] = attempts
        else:
            row = len(self._firsts)
            self._deadlines.append(deadline)
            self._firsts.append(first)
            self._counts.append(next_ - first)
            self._attempts.append(attempts)
        heapq.heappush(self._heap, deadline << _DEADLINE_AT | first << _ROW_BITS | row)
        self._changes[first] = row
        self.count += next_ - first

    def due(self, now: int) -> list[DeferredRange]:
        """Take out the ranges that are due, ordered by deadline and then by offset.

        When very many are due, as after a long stop, most of them come in the order of the log with
        neighbours joined, so that a million messages are read sequentially and not one by one.
        """
        found: list[DeferredRange] = []
        border = (_since_earliest(now) + 1) << _DEADLINE_AT
        while self._heap and self._heap[0] < border:
            if len(found) == DUE_IN_ORDER_MAX:
                return found + self._sweep(now)
            entry = self._pop()
            if entry is not None:
                found.append(entry)
        return found

    def _sweep(self, now: int) -> list[DeferredRange]:
        late = self._late(now)
        # A pop costs log n: for more than an eighth of the heap it is cheaper to rebuild it once.
        if len(late) > len(self._heap) // 8:
            entries = [self._end(row) for row in late]
            self._tidy()
        else:
            popped = [self._pop() for _ in late]
            entries = sorted(filter(None, popped), key=_FIRST)
        joined: list[DeferredRange] = []
        for entry in entries:
            last = joined[-1] if joined else None
            if last and last.next == entry.first and last.attempts == entry.attempts:
                joined[-1] = last._replace(next=entry.next)
            else:
                joined.append(entry)
        return joined

    def _late(self, now: int) -> list[int]:
        """The rows that have reached their time, in the order of their offsets."""
        live = self._column(self._counts) > 0
        rows = np.flatnonzero(live & (self._column(self._deadlines) <= _since_earliest(now)))
        in_order: list[int] = rows[np.argsort(self._column(self._firsts)[rows])].tolist()
        return in_order

    def _pop(self) -> DeferredRange | None:
        """Take the earliest entry out of the heap; None when its range is gone already."""
        row = heapq.heappop(self._heap) & _ROW_MASK
        entry = None
        if self._counts[row]:
            entry = self._end(row)
        else:
            self._stale -= 1
        # Not before its entry has left the heap, which would stand for the row's next user.
        self._free.append(row)
        return entry

    def _end(self, row: int) -> DeferredRange:
        """End the deferral of a row; returns its range."""
        entry = self._range(row)
        self._counts[row] = 0
        self._changes[entry.first] = None
        self.count -= entry.next - entry.first
        return entry

    def _tidy(self) -> None:
        """Drop the entries of the heap whose ranges are gone."""
        counts = self._counts
        self._heap = [entry for entry in self._heap if counts[entry & _ROW_MASK]]
        heapq.heapify(self._heap)
        self._free = array("I", np.flatnonzero(self._column(counts) == 0).tolist())
        self._stale = 0

    # --- single messages -----------------------------------------------------------------------

    def take(self, offsets: Iterable[int]) -> list[DeferredRange]:
        """Take out those of these messages that are deferred; one entry for each."""
        wanted = sorted({offset for offset in offsets if 0 <= offset < _OFFSET_MAX})
        taken: list[DeferredRange] = []
        for row in self._holding(wanted) if wanted else ():
            self._stale += 1
            taken += self._cut(self._end(row), wanted)
        if self._stale > max(_STALE_MIN, len(self._heap) // 2):
            self._tidy()
        return taken

    def _holding(self, wanted: list[int]) -> list[int]:
        """The rows that hold any of these offsets, which are in order."""
        firsts = self._column(self._firsts)
        nexts = firsts + self._column(self._counts)
        rows = np.flatnonzero((firsts <= wanted[-1]) & (nexts > wanted[0]))
        ordered = np.array(wanted, np.int64)
        low = np.searchsorted(ordered, firsts[rows])
        found: list[int] = rows[np.searchsorted(ordered, nexts[rows]) > low].tolist()
        return found

    def _cut(self, entry: DeferredRange, wanted: list[int]) -> list[DeferredRange]:
        """The wanted messages of an entry that was taken out; the others are put back."""
        taken = []
        low = entry.first
        for offset in wanted[bisect_left(wanted, entry.first) : bisect_left(wanted, entry.next)]:
            if low < offset:
                self.add(entry.deadline, low, offset, entry.attempts)
            taken.append(entry._replace(first=offset, next=offset + 1))
            low = offset + 1
        if low < entry.next:
            self.add(entry.deadline, low, entry.next, entry.attempts)
        return taken

    def drop(self, count: int) -> int:
        """Forget the ``count`` messages that come next; how many there were."""
        left = min(count, self.count)
        dropped = left
        while left:
            entry = self._pop()
            if entry is None:
                continue
            size = entry.next - entry.first
            if size > left:
                self.add(entry.deadline, entry.first + left, entry.next, entry.attempts)
                size = left
            left -= size
        return dropped

    # --- looking -------------------------------------------------------------------------------

    def soonest(self, limit: int, after: tuple[int, int] | None = None) -> list[DeferredRange]:
        """The next ``limit`` messages in the order of (deadline, offset), behind ``after``."""
        deadline, offset = after or (EARLIEST, -1)
        border, offset = _since_earliest(deadline), min(offset, _OFFSET_MAX - 1)
        deadlines, firsts = self._column(self._deadlines), self._column(self._firsts)
        counts = self._column(self._counts)
        behind = (deadlines > border) | ((deadlines == border) & (firsts + counts > offset + 1))
        rows = _least(deadlines, np.flatnonzero((counts > 0) & behind), limit)
        rows = rows[np.lexsort((firsts[rows], deadlines[rows]))][:limit]
        found: list[DeferredRange] = []
        for entry in self._ranges(rows):
            low = max(entry.first, offset + 1) if entry.deadline == deadline else entry.first
            high = min(entry.next, low + limit - len(found))
            found += [entry._replace(first=o, next=o + 1) for o in range(low, high)]
        return found

    def nearest(self, low: int, limit: int) -> list[DeferredRange]:
        """The ``limit`` entries with the lowest offsets, from ``low`` on, in their order."""
        firsts, counts = self._column(self._firsts), self._column(self._counts)
        ahead = (counts > 0) & (firsts + counts > min(low, _OFFSET_MAX))
        rows = _least(firsts, np.flatnonzero(ahead), limit)
        return self._ranges(rows[np.argsort(firsts[rows])][:limit])

    def newest(self, limit: int) -> list[DeferredRange]:
        """The ``limit`` entries with the highest offsets, the highest first."""
        backwards = -self._column(self._firsts)
        rows = _least(backwards, np.flatnonzero(self._column(self._counts)), limit)
        return self._ranges(rows[np.argsort(backwards[rows])][:limit])

    def count_below(self, offset: int) -> int:
        """The number of deferred messages below an offset."""
        firsts, counts = self._column(self._firsts), self._column(self._counts)
        return int(np.clip(min(offset, _OFFSET_MAX) - firsts, 0, counts).sum())

    def next_deadline(self) -> int | None:
        """The time at which ``due`` has something next; None when nothing waits."""
        while self._heap and not self._counts[self._heap[0] & _ROW_MASK]:
            self._pop()
        return (self._heap[0] >> _DEADLINE_AT) + EARLIEST if self._heap else None

    def floor(self) -> int | None:
        """The lowest offset that is deferred."""
        firsts = self._column(self._firsts)[self._column(self._counts) > 0]
        return int(firsts.min()) if len(firsts) else None

    # --- keeping -------------------------------------------------------------------------------

    def collect(self, everything: bool) -> tuple[bool, list[DeferredRange], list[int]]:
        """Changes since the last call: (reset, added, first offsets of what is over).

        With ``everything``, or after ``clear``, it is a reset and all that waits.
        """
        reset, changes = everything or self._reset, self._changes
        self._changes, self._reset = {}, False
        if reset:
            return True, list(self), []
        added = [self._range(row) for row in changes.values() if row is not None]
        return False, added, [first for first, row in changes.items() if row is None]

    def clear(self) -> None:
        """Forget all."""
        self._forget()

    # --- rows ----------------------------------------------------------------------------------

    @staticmethod
    def _column(column: array[int]) -> Column:
        """An array as numpy sees it. It cannot grow while somebody looks at it this way."""
        return np.asarray(column)

    def _range(self, row: int) -> DeferredRange:
        first = self._firsts[row]
        return DeferredRange(
            self._deadlines[row] + EARLIEST, first, first + self._counts[row], self._attempts[row]
        )

    def _ranges(self, rows: Rows) -> list[DeferredRange]:
        firsts = self._column(self._firsts)[rows]
        nexts = firsts + self._column(self._counts)[rows]
        deadlines = [since + EARLIEST for since in self._column(self._deadlines)[rows].tolist()]
        attempts = self._column(self._attempts)[rows]
        return list(
            map(DeferredRange, deadlines, firsts.tolist(), nexts.tolist(), attempts.tolist())
        )


def _since_earliest(deadline: int) -> int:
    if EARLIEST <= deadline <= LATEST:
        return deadline - EARLIEST
    return 0 if deadline < EARLIEST else LATEST - EARLIEST


def _least(column: Column, rows: Rows, limit: int) -> Rows:
    """The rows with the ``limit`` least values, and all that are equal to the last."""
    if len(rows) <= limit:
        return rows
    values = column[rows]
    least: Rows = rows[values <= np.partition(values, limit - 1)[limit - 1]]
    return least
