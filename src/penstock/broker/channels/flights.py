"""Messages in flight to one consumer.

A consumer gets messages in slices of the log, so what it has in flight is a short list of ranges,
in the order of their offsets and, because every slice of one consumer has the same time-out, of
their deadlines too. Finishing a range in the order of delivery is O(1). The exceptions, messages
delivered again or touched, are kept one by one.
"""

from __future__ import annotations

import heapq
from bisect import bisect_right
from typing import Final, NamedTuple

_GRAIN_NS: Final = 10_000_000  # deadlines are rounded up to 10 ms, so that neighbours can be joined
_STALE_MIN: Final = 1000  # entries of the heap that are over and do not matter yet


class SingleFlight(NamedTuple):
    """A message in flight that is not part of a fresh range. Times are monotonic ns."""

    deadline: int
    attempts: int
    delivered: int


class Flights:
    """Messages in flight to one consumer: fresh ranges (first delivery) and odd messages."""

    __slots__ = ("_deadlines", "_firsts", "_nexts", "_odd_heap", "count", "odd", "timeout_ns")

    def __init__(self, timeout_ns: int) -> None:
        self.timeout_ns = timeout_ns
        self.count = 0
        self.odd: dict[int, SingleFlight] = {}
        self._odd_heap: list[tuple[int, int]] = []
        # Three lists side by side, not one of tuples: ``bisect`` compares plain integers.
        self._firsts: list[int] = []
        self._nexts: list[int] = []
        self._deadlines: list[int] = []

    # --- putting in ----------------------------------------------------------------------------

    def add(self, first: int, next_: int, now: int) -> int:
        """A slice was delivered for the first time; the deadline of its messages."""
        deadline = -((-now - self.timeout_ns) // _GRAIN_NS) * _GRAIN_NS
        self.count += next_ - first
        if self._nexts and self._nexts[-1] == first and self._deadlines[-1] == deadline:
            self._nexts[-1] = next_
        else:
            assert not self._firsts or first >= self._nexts[-1], "slices go forward in the log"
            self._firsts.append(first)
            self._nexts.append(next_)
            self._deadlines.append(deadline)
        return deadline

    def add_odd(self, offset: int, attempts: int, deadline: int, delivered: int) -> None:
        """A message was delivered again, or touched."""
        self.count += 1
        self.odd[offset] = SingleFlight(deadline, attempts, delivered)
        if len(self._odd_heap) > 2 * len(self.odd) + _STALE_MIN:  # touched again and again
            self._odd_heap = [(odd.deadline, place) for place, odd in self.odd.items()]
            heapq.heapify(self._odd_heap)
        else:
            heapq.heappush(self._odd_heap, (deadline, offset))

    # --- taking out ----------------------------------------------------------------------------

    def finish(self, first: int, next_: int) -> bool:
        """Take out ``[first, next_)`` if all of it is in fresh ranges; else take out nothing."""
        firsts, nexts = self._firsts, self._nexts
        if firsts and firsts[0] == first and next_ <= nexts[0]:  # in the order of delivery
            if next_ == nexts[0]:
                self._delete(0)
            else:
                firsts[0] = next_
        elif self._covers(first, next_):
            self._take_ranges(first, next_)
        else:
            return False
        self.count -= next_ - first
        return True

    def take(self, offset: int) -> SingleFlight | None:
        """Take out one message; None when it is not in flight here."""
        odd = self.odd.pop(offset, None)
        if odd is None:
            place = bisect_right(self._firsts, offset) - 1
            if place < 0 or offset >= self._nexts[place]:
                return None
            deadline = self._deadlines[place]
            # The deadline was rounded up, so this may be up to 10 ms after the delivery.
            odd = SingleFlight(deadline, 1, deadline - self.timeout_ns)
            self._take_ranges(offset, offset + 1)
        self.count -= 1
        return odd

    def expire(self, now: int) -> list[tuple[int, int, int]]:
        """Take out what has passed its deadline: (first, next, attempts) each."""
        late: list[tuple[int, int, int]] = []
        while self._deadlines and self._deadlines[0] <= now:
            late.append((self._firsts[0], self._nexts[0], 1))
            self._delete(0)
        heap = self._odd_heap
        while heap and heap[0][0] <= now:
            deadline, offset = heapq.heappop(heap)
            odd = self.odd.get(offset)
            # Else it was finished, or touched since: then a later entry of the heap stands for it.
            if odd is not None and odd.deadline == deadline:
                del self.odd[offset]
                late.append((offset, offset + 1, odd.attempts))
        self.count -= sum(next_ - first for first, next_, _ in late)
        return late

    def clear(self) -> None:
        self.count = 0
        self.odd.clear()
        self._odd_heap.clear()
        self._firsts.clear()
        self._nexts.clear()
        self._deadlines.clear()

    # --- looking -------------------------------------------------------------------------------

    def __contains__(self, offset: int) -> bool:
        place = bisect_right(self._firsts, offset) - 1
        return (place >= 0 and offset < self._nexts[place]) or offset in self.odd

    def ranges(self) -> list[tuple[int, int, int]]:
        """All that is in flight: (first, next, attempts) each, in no order."""
        fresh = [(first, next_, 1) for first, next_ in zip(self._firsts, self._nexts, strict=True)]
        return fresh + [(offset, offset + 1, odd.attempts) for offset, odd in self.odd.items()]

    def floor(self) -> int | None:
        """The lowest offset in flight; None when there is none."""
        lowest = min(self.odd) if self.odd else None
        if not self._firsts:
            return lowest
        return self._firsts[0] if lowest is None else min(self._firsts[0], lowest)

    def next_deadline(self) -> int | None:
        """The next time-out, perhaps too early; None when nothing is in flight."""
        heap = self._odd_heap
        while heap and ((odd := self.odd.get(heap[0][1])) is None or odd.deadline != heap[0][0]):
            heapq.heappop(heap)
        times = [*self._deadlines[:1], *(deadline for deadline, _ in heap[:1])]
        return min(times) if times else None

    # --- inside --------------------------------------------------------------------------------

    def _delete(self, place: int) -> None:
        del self._firsts[place], self._nexts[place], self._deadlines[place]

    def _covers(self, first: int, next_: int) -> bool:
        """True if fresh ranges hold all of ``[first, next_)``."""
        firsts, nexts = self._firsts, self._nexts
        place = bisect_right(firsts, first) - 1
        if place < 0 or first >= nexts[place]:
            return False
        while nexts[place] < next_:
            place += 1
            if place == len(firsts) or firsts[place] != nexts[place - 1]:
                return False
        return True

    def _take_ranges(self, first: int, next_: int) -> None:
        """Cut ``[first, next_)``, which fresh ranges cover, out of them."""
        place = bisect_right(self._firsts, first) - 1
        while first < next_:
            high = min(next_, self._nexts[place])
            place = self._cut(place, first, high)
            first = high

    def _cut(self, place: int, low: int, high: int) -> int:
        """Cut ``[low, high)`` out of one range; the place of the next range."""
        firsts, nexts = self._firsts, self._nexts
        if low == firsts[place] and high == nexts[place]:
            self._delete(place)
            return place
        if low == firsts[place]:
            firsts[place] = high
        elif high == nexts[place]:
            nexts[place] = low
        else:
            firsts.insert(place + 1, high)
            nexts.insert(place + 1, nexts[place])
            self._deadlines.insert(place + 1, self._deadlines[place])
            nexts[place] = low
        return place + 1
