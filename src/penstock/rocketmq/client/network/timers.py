"""Calls at a time: the core asks for them, a shell says when the time has come."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Final

_SWEPT_FROM: Final = 1000


class Timer:
    """One entry; ``cancel`` it as often as you like."""

    __slots__ = ("call",)

    def __init__(self, call: Callable[[], object]) -> None:
        self.call: Callable[[], object] | None = call

    def cancel(self) -> None:
        self.call = None


class Timers:
    """Times of the monotonic clock in nanoseconds."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Timer]] = []
        self._order = count()
        self._swept_at = _SWEPT_FROM

    def at(self, when: int, call: Callable[[], object]) -> Timer:
        """Call this at a time of the monotonic clock, in ns."""
        if len(self._heap) >= self._swept_at:
            self._sweep()
        timer = Timer(call)
        # The number keeps equal times in their order, and timers from being compared.
        heappush(self._heap, (when, next(self._order), timer))
        return timer

    @property
    def next(self) -> int | None:
        """The time at which the first of them is due."""
        while self._heap and self._heap[0][2].call is None:
            heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def run(self, now: int) -> None:
        """Call those that are due, each once, in the order of their times.

        What a call raises, as a signal's handler may in a blocking client, leaves the rest due.
        """
        due = []
        while self._heap and self._heap[0][0] <= now:
            due.append(heappop(self._heap))
        due.reverse()
        try:
            while due:
                timer = due.pop()[2]
                call, timer.call = timer.call, None
                if call is not None:
                    call()
        finally:
            for entry in due:
                heappush(self._heap, entry)

    def clear(self) -> None:
        """Forget all of them."""
        self._heap.clear()

    def _sweep(self) -> None:
        """Let go of those that were cancelled, most of which would be due much later."""
        self._heap = [entry for entry in self._heap if entry[2].call is not None]
        heapify(self._heap)
        self._swept_at = max(_SWEPT_FROM, 2 * len(self._heap))
