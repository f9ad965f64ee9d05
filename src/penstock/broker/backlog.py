"""What waits in a channel outside of the cursor's order: requeued and deferred messages."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterator
from operator import attrgetter
from typing import Final, NamedTuple

DUE_IN_ORDER_MAX: Final = 1000


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

    def floor(self) -> int | None:
        return min((entry.first for entry in self._entries), default=None)

    def clear(self) -> None:
        self._entries.clear()
        self.count = 0


class Deferred:
    """Messages that wait for a time (monotonic ns), as ranges.

    It remembers what came and went since ``collect`` was last called, for the journal.
    """

    __slots__ = ("_changes", "_heap", "_reset", "count")

    def __init__(self) -> None:
        self._heap: list[Waiting] = []
        self._changes: dict[int, Waiting | None] = {}  # by first offset; None: it is over
        self._reset = True
        self.count = 0

    def __iter__(self) -> Iterator[Waiting]:
        """In no order."""
        return iter(self._heap)

    def add(self, deadline: int, first: int, next_: int, attempts: int) -> None:
        entry = Waiting(deadline, first, next_, attempts)
        heapq.heappush(self._heap, entry)
        self._changes[first] = entry
        self.count += next_ - first

    def due(self, now: int) -> list[Waiting]:
        """Take out what has reached its time, earliest first.

        When that is very much, as after a long stop, the most of it comes in the order of the log,
        neighbours joined: a million messages are then read in one go, not one here and one there.
        """
        found: list[Waiting] = []
        while self._heap and self._heap[0].deadline <= now:
            if len(found) == DUE_IN_ORDER_MAX:
                return found + self._sweep(now)
            found.append(self._over(heapq.heappop(self._heap)))
        return found

    def _sweep(self, now: int) -> list[Waiting]:
        late = sorted((e for e in self._heap if e.deadline <= now), key=attrgetter("first"))
        self._heap = [entry for entry in self._heap if entry.deadline > now]
        heapq.heapify(self._heap)
        joined: list[Waiting] = []
        for entry in late:
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

    def collect(self, everything: bool) -> tuple[bool, list[Waiting], list[int]]:
        """What to write down since the last call: (reset, added, first offsets of what is over).

        With ``everything``, or after ``clear``, it is a reset and all that waits.
        """
        reset, changes = everything or self._reset, self._changes
        self._changes, self._reset = {}, False
        if reset:
            return True, list(self._heap), []
        added = [entry for entry in changes.values() if entry is not None]
        return False, added, [first for first, entry in changes.items() if entry is None]

    def next_deadline(self) -> int | None:
        return self._heap[0].deadline if self._heap else None

    def floor(self) -> int | None:
        return min((entry.first for entry in self._heap), default=None)

    def clear(self) -> None:
        self._heap.clear()
        self._changes.clear()
        self._reset = True
        self.count = 0
