"""Messages of a channel that are to be delivered again, at the tail of what waits."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from penstock.core.ranges import RangeSet


class RequeuedRange(NamedTuple):
    """Messages to deliver again once the cursor has reached ``after``: the tail of their time."""

    first: int
    next: int
    attempts: int
    after: int


class Requeued:
    """RequeuedRange messages in the order of their return."""

    __slots__ = ("_entries", "count")

    def __init__(self) -> None:
        self._entries: deque[RequeuedRange] = deque()
        self.count = 0

    def __iter__(self) -> Iterator[RequeuedRange]:
        return iter(self._entries)

    def add(self, entry: RequeuedRange) -> None:
        self._entries.append(entry)
        self.count += entry.next - entry.first

    def put_back(self, entry: RequeuedRange) -> None:
        """Undo a ``take``, or a part of it."""
        self._entries.appendleft(entry)
        self.count += entry.next - entry.first

    def eligible(self, cursor: int) -> int:
        """About how many may be delivered now; 0 only when none may."""
        return self.count if self._entries and self._entries[0].after <= cursor else 0

    def take(self, cursor: int, room: int) -> RequeuedRange | None:
        """The next at most ``room`` messages that may be delivered; None when none may."""
        # Tails only move forward, so no entry is due before the first one.
        if not self._entries or self._entries[0].after > cursor:
            return None
        entry = self._entries.popleft()
        if entry.next - entry.first > room:
            rest = entry._replace(first=entry.first + room)
            self._entries.appendleft(rest)
            entry = entry._replace(next=rest.first)
        self.count -= entry.next - entry.first
        return entry

    def take_spent(self, attempts: int) -> list[RequeuedRange]:
        """Take out the messages that have had at least ``attempts`` attempts."""
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

    def forget(self, ranges: RangeSet) -> None:
        """Forget these messages."""
        entries, self._entries, self.count = self._entries, deque(), 0
        for entry in entries:
            for first, next_ in ranges.outside(entry.first, entry.next):
                self.add(entry._replace(first=first, next=next_))

    def floor(self) -> int | None:
        """The lowest offset that was requeued."""
        return min((entry.first for entry in self._entries), default=None)

    def clear(self) -> None:
        """Forget all."""
        self._entries.clear()
        self.count = 0
