"""Messages that have had all their attempts, on their way into a dead-letter topic.

A channel with ``max_attempts`` does not deliver a message once more than that: it is *spent*. Spent
messages are published to the channel's dead-letter topic, and only when that is committed are they
done here: a crash in between may duplicate them but never loses them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final, NamedTuple

# A parcel is read and staged in one turn of the event loop, which these bound.
MOVE_MESSAGES_MAX: Final = 100
MOVE_BYTES_MAX: Final = 1024 * 1024
MOVE_RETRY_NS: Final = 10**9
MAX_ATTEMPTS_MAX: Final = 65_535  # attempts are 16 bits on the wire and wrap


class SpentRange(NamedTuple):
    """Messages ``[first, next)`` that were delivered ``attempts`` times."""

    first: int
    next: int
    attempts: int


class Spent:
    """The spent messages of a channel. Those that are being moved still count."""

    __slots__ = ("_entries", "_moving", "count")

    def __init__(self) -> None:
        self._entries: deque[SpentRange] = deque()
        self._moving: list[SpentRange] = []
        self.count = 0

    def __iter__(self) -> Iterator[SpentRange]:
        yield from self._moving
        yield from self._entries

    def add(self, first: int, next_: int, attempts: int) -> None:
        self._entries.append(SpentRange(first, next_, attempts))
        self.count += next_ - first

    def take(self, room: int | None) -> list[SpentRange]:
        """Take out at most ``room`` messages to be moved, or all; nothing while a move is under
        way.
        """
        if room is None:
            room = self.count
        elif self._moving:
            return []
        taken: list[SpentRange] = []
        while self._entries and room:
            entry = self._entries.popleft()
            if entry.next - entry.first > room:
                self._entries.appendleft(entry._replace(first=entry.first + room))
                entry = entry._replace(next=entry.first + room)
            room -= entry.next - entry.first
            taken.append(entry)
        self.count -= _messages(taken)
        return taken

    def put_back(self, entries: list[SpentRange]) -> None:
        self._entries.extendleft(reversed(entries))
        self.count += _messages(entries)

    def move(self, entries: list[SpentRange]) -> None:
        """Note that messages are being moved, until ``end``."""
        assert not self._moving, "one move at a time"
        self._moving = entries
        self.count += _messages(entries)

    def end(self, entries: list[SpentRange], moved: bool) -> bool:
        """The move of these is over; False when they were forgotten meanwhile."""
        if self._moving is not entries:
            return False
        self._moving = []
        self.count -= _messages(entries)
        if not moved:
            self.put_back(entries)
        return True

    def floor(self) -> int | None:
        return min((entry.first for entry in self), default=None)

    def clear(self) -> None:
        self._entries.clear()
        self._moving = []
        self.count = 0


def _messages(entries: list[SpentRange]) -> int:
    return sum(entry.next - entry.first for entry in entries)
