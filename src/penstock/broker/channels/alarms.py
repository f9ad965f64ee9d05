"""The channel that must look at its deadlines next: one heap for the whole broker."""

from __future__ import annotations

import heapq
from itertools import count
from typing import Final, Protocol

_STALE_MIN: Final = 100


class Sleeper(Protocol):
    """Something that waits for a time."""

    wake_at: int | None


class Alarms:
    """Wake-up times, monotonic ns. A sleeper has one; setting an earlier one replaces it."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Sleeper]] = []
        self._serial = count()
        self._compact_at = _STALE_MIN

    def wake(self, sleeper: Sleeper, at: int) -> None:
        """Wake ``sleeper`` at that time, unless it is woken earlier anyway."""
        if sleeper.wake_at is None or at < sleeper.wake_at:
            sleeper.wake_at = at
            # The serial number keeps the heap from comparing sleepers.
            heapq.heappush(self._heap, (at, next(self._serial), sleeper))
            if len(self._heap) > self._compact_at:
                self._compact()

    def cancel(self, sleeper: Sleeper) -> None:
        """Never wake it. It is let go of with the next hundred entries that are stale at most."""
        sleeper.wake_at = None

    def _compact(self) -> None:
        """Forget the times that were replaced by earlier ones, or came twice."""
        asleep = {id(entry[2]): entry for entry in self._heap if entry[2].wake_at == entry[0]}
        self._heap = list(asleep.values())
        heapq.heapify(self._heap)
        # Not before the heap has doubled: each entry then costs a constant time.
        self._compact_at = 2 * len(self._heap) + _STALE_MIN

    def next_at(self) -> int | None:
        """The next time to call ``due``; None when nobody sleeps."""
        heap = self._heap
        # A heap gives up only its first entry cheaply: a stale one is dropped when its turn comes.
        while heap and heap[0][2].wake_at != heap[0][0]:
            heapq.heappop(heap)
        return heap[0][0] if heap else None

    def due(self, now: int) -> list[Sleeper]:
        """The sleepers whose time has come. They sleep no more until they ask again."""
        found: list[Sleeper] = []
        while (at := self.next_at()) is not None and at <= now:
            sleeper = heapq.heappop(self._heap)[2]
            sleeper.wake_at = None
            found.append(sleeper)
        return found
