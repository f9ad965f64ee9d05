"""What waits in a channel outside of the cursor's order: requeued and deferred messages."""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Iterator
from operator import attrgetter
from typing import Final, NamedTuple

DUE_IN_ORDER_MAX: Final = 1000

# A deferral is one integer, 56 bytes of memory where a tuple would take 180:
# deadline | first offset (64 bits) | messages (32) | attempts (16).
_DEADLINE_AT: Final = 112
_FIRST_AT: Final = 48
_COUNT_AT: Final = 16
_FIRST_MASK: Final = (1 << 64) - 1
_COUNT_MASK: Final = (1 << 32) - 1
_ATTEMPTS_MASK: Final = (1 << 16) - 1
_PLACE_MASK: Final = (1 << _DEADLINE_AT) - 1  # all but the deadline


class Requeued(NamedTuple):
    """Messages to deliver again once the cursor has reached ``after``: the tail of their time."""

    first: int
    next: int
    attempts: int
    after: int


class Waiting(NamedTuple):
    """Messages to deliver from ``deadline`` (monotonic ns) on."""

    deadline: int
    first: int
    next: int
    attempts: int


class Requeue:
    """Requeued messages in the order of their return."""

    __slots__ = ("_entries", "count")

    def __init__(self) -> None:
        self._entries: deque[Requeued] = deque()
        self.count = 0

    def __iter__(self) -> Iterator[Requeued]:
        return iter(self._entries)

    def add(self, entry: Requeued) -> None:
        self._entries.append(entry)
        self.count += entry.next - entry.first

    def put_back(self, entry: Requeued) -> None:
        """Undo a ``take``, or a part of it."""
        self._entries.appendleft(entry)
        self.count += entry.next - entry.first

    def eligible(self, cursor: int) -> int:
        """About how many may be delivered now; 0 only when none may."""
        return self.count if self._entries and self._entries[0].after <= cursor else 0

    def take(self, cursor: int, room: int) -> Requeued | None:
        """The next at most ``room`` messages that may be delivered; None when none may."""
        if not self._entries or self._entries[0].after > cursor:
            return None
        entry = self._entries.popleft()
        if entry.next - entry.first > room:
            rest = entry._replace(first=entry.first + room)
            self._entries.appendleft(rest)
            entry = entry._replace(next=rest.first)
        self.count -= entry.next - entry.first
        return entry

    def take_spent(self, attempts: int) -> list[Requeued]:
        """Take out those that have had at least so many attempts."""
        spent = [entry for entry in self._entries if entry.attempts >= attempts]
        if spent:
            self._entries = deque(e for e in self._entries if e.attempts < attempts)
            self.count -= sum(entry.next - entry.first for entry in spent)
        return spent

    def drop(self, count: int) -> int:
        """Forget the first ``count`` messages; how many there were."""
        left = min(count, self.count)
        dropped = left
        while left:
            entry = self._entries.popleft()
            size = entry.next - entry.first
            if size > left:
                self._entries.appendleft(entry._replace(first=entry.first + left))
                size = left
            left -= size
        self.count -= dropped
        return dropped

    def floor(self) -> int | None:
        return min((entry.first for entry in self._entries), default=None)

    def clear(self) -> None:
        self._entries.clear()
        self.count = 0


def _packed(deadline: int, first: int, next_: int, attempts: int) -> int:
    rest = first << _FIRST_AT | (next_ - first) << _COUNT_AT | attempts
    return deadline << _DEADLINE_AT | rest


def _unpacked(entry: int) -> Waiting:
    first = entry >> _FIRST_AT & _FIRST_MASK
    next_ = first + (entry >> _COUNT_AT & _COUNT_MASK)
    return Waiting(entry >> _DEADLINE_AT, first, next_, entry & _ATTEMPTS_MASK)


class Deferred:
    """Messages that wait for a time (monotonic ns), as ranges.

    It remembers what came and went since ``collect`` was last called, for the journal.
    """

    __slots__ = ("_changes", "_heap", "_reset", "count")

    def __init__(self) -> None:
        self._heap: list[int] = []  # packed
        self._changes: dict[int, int | None] = {}  # by first offset; None: it is over
        self._reset = True
        self.count = 0

    def __iter__(self) -> Iterator[Waiting]:
        """In no order."""
        return map(_unpacked, self._heap)

    def add(self, deadline: int, first: int, next_: int, attempts: int) -> None:
        entry = _packed(deadline, first, next_, attempts)
        heapq.heappush(self._heap, entry)
        self._changes[first] = entry
        self.count += next_ - first

    def due(self, now: int) -> list[Waiting]:
        """Take out what has reached its time, earliest first.

        When that is very much, as after a long stop, the most of it comes in the order of the log,
        neighbours joined: a million messages are then read in one go, not one here and one there.
        """
        found: list[Waiting] = []
        while self._heap and self._heap[0] >> _DEADLINE_AT <= now:
            if len(found) == DUE_IN_ORDER_MAX:
                return found + self._sweep(now)
            found.append(self._over(_unpacked(heapq.heappop(self._heap))))
        return found

    def _sweep(self, now: int) -> list[Waiting]:
        border = (now + 1) << _DEADLINE_AT
        late = [_unpacked(entry) for entry in self._heap if entry < border]
        self._heap = [entry for entry in self._heap if entry >= border]
        heapq.heapify(self._heap)
        joined: list[Waiting] = []
        for entry in sorted(late, key=attrgetter("first")):
            self._over(entry)
            last = joined[-1] if joined else None
            if last and last.next == entry.first and last.attempts == entry.attempts:
                joined[-1] = last._replace(next=entry.next)
            else:
                joined.append(entry)
        return joined

    def _over(self, entry: Waiting) -> Waiting:
        self._changes[entry.first] = None
        self.count -= entry.next - entry.first
        return entry

    # --- single messages -----------------------------------------------------------------------

    def take(self, offsets: Iterable[int]) -> list[Waiting]:
        """Take out these messages, as far as they are deferred; one entry for each."""
        wanted = sorted(set(offsets))
        members = set(wanted)
        touched = []
        for entry in self._heap:
            first, count = entry >> _FIRST_AT & _FIRST_MASK, entry >> _COUNT_AT & _COUNT_MASK
            if first in members or (count > 1 and _any_in(wanted, first, first + count)):
                touched.append(entry)
        if not touched:
            return []
        gone = set(touched)
        self._heap = [entry for entry in self._heap if entry not in gone]
        heapq.heapify(self._heap)
        taken: list[Waiting] = []
        for entry in touched:
            taken += self._cut(self._over(_unpacked(entry)), wanted)
        return taken

    def _cut(self, entry: Waiting, wanted: list[int]) -> list[Waiting]:
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
            entry = self._over(_unpacked(heapq.heappop(self._heap)))
            size = entry.next - entry.first
            if size > left:
                self.add(entry.deadline, entry.first + left, entry.next, entry.attempts)
                size = left
            left -= size
        return dropped

    # --- looking -------------------------------------------------------------------------------

    def soonest(self, limit: int, after: tuple[int, int] | None = None) -> list[Waiting]:
        """The next ``limit`` messages in the order of (deadline, offset), behind ``after``."""
        deadline, offset = after or (-1 << 62, -1)
        border = deadline << _DEADLINE_AT
        last = (deadline + 1) << _DEADLINE_AT
        later = (
            e for e in self._heap if e >= border and (e >= last or _unpacked(e).next > offset + 1)
        )
        found: list[Waiting] = []
        for packed in heapq.nsmallest(limit, later):
            entry = _unpacked(packed)
            low = max(entry.first, offset + 1) if entry.deadline == deadline else entry.first
            high = min(entry.next, low + limit - len(found))
            found += [entry._replace(first=o, next=o + 1) for o in range(low, high)]
        return found

    def nearest(self, low: int, limit: int) -> list[Waiting]:
        """The ``limit`` entries with the lowest offsets, from ``low`` on, in their order."""
        border = low << _FIRST_AT
        found = (e for e in self._heap if e & _PLACE_MASK >= border or _unpacked(e).next > low)
        return [_unpacked(e) for e in heapq.nsmallest(limit, found, key=_PLACE_MASK.__and__)]

    def newest(self, limit: int) -> list[Waiting]:
        """The ``limit`` entries with the highest offsets."""
        return [_unpacked(e) for e in heapq.nlargest(limit, self._heap, key=_PLACE_MASK.__and__)]

    def next_deadline(self) -> int | None:
        return self._heap[0] >> _DEADLINE_AT if self._heap else None

    def floor(self) -> int | None:
        return min([entry >> _FIRST_AT & _FIRST_MASK for entry in self._heap], default=None)

    # --- keeping -------------------------------------------------------------------------------

    def collect(self, everything: bool) -> tuple[bool, list[Waiting], list[int]]:
        """What to write down since the last call: (reset, added, first offsets of what is over).

        With ``everything``, or after ``clear``, it is a reset and all that waits.
        """
        reset, changes = everything or self._reset, self._changes
        self._changes, self._reset = {}, False
        if reset:
            return True, list(self), []
        added = [_unpacked(entry) for entry in changes.values() if entry is not None]
        return False, added, [first for first, entry in changes.items() if entry is None]

    def clear(self) -> None:
        self._heap.clear()
        self._changes.clear()
        self._reset = True
        self.count = 0


def _any_in(ordered: list[int], low: int, high: int) -> bool:
    place = bisect_left(ordered, low)
    return place < len(ordered) and ordered[place] < high
