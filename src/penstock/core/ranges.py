"""A set of whole numbers kept as ranges: cheap when the numbers come in runs."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator


class RangeSet:
    """Disjoint, ascending half-open ranges ``[first, next)``; neighbours are joined."""

    __slots__ = ("_count", "_firsts", "_nexts")

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._nexts: list[int] = []
        self._count = 0

    def __len__(self) -> int:
        """The number of numbers, not of ranges."""
        return self._count

    def __bool__(self) -> bool:
        return bool(self._firsts)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return iter(zip(self._firsts, self._nexts, strict=True))

    def __reversed__(self) -> Iterator[tuple[int, int]]:
        return zip(reversed(self._firsts), reversed(self._nexts), strict=True)

    def __contains__(self, number: int) -> bool:
        place = bisect_right(self._firsts, number) - 1
        return place >= 0 and number < self._nexts[place]

    def add(self, first: int, next_: int) -> None:
        """Add ``[first, next_)``; numbers that are in already do not count twice."""
        if first >= next_:
            return
        low = bisect_left(self._nexts, first)
        high = bisect_right(self._firsts, next_)
        if low < high:
            first = min(first, self._firsts[low])
            next_ = max(next_, self._nexts[high - 1])
            self._count -= sum(
                n - f for f, n in zip(self._firsts[low:high], self._nexts[low:high], strict=True)
            )
        self._firsts[low:high] = [first]
        self._nexts[low:high] = [next_]
        self._count += next_ - first

    def first_from(self, number: int) -> tuple[int, int] | None:
        """The first range that ends behind ``number``; None when there is none."""
        place = bisect_right(self._nexts, number)
        return (self._firsts[place], self._nexts[place]) if place < len(self._firsts) else None

    def within(self, first: int, next_: int) -> Iterator[tuple[int, int]]:
        """The parts of ``[first, next_)`` that are in the set, in order."""
        place = bisect_right(self._nexts, first)
        while first < next_ and place < len(self._firsts) and self._firsts[place] < next_:
            yield max(first, self._firsts[place]), min(next_, self._nexts[place])
            place += 1

    def outside(self, first: int, next_: int) -> Iterator[tuple[int, int]]:
        """The parts of ``[first, next_)`` that are not in the set, in order."""
        for low, high in self.within(first, next_):
            if first < low:
                yield first, low
            first = high
        if first < next_:
            yield first, next_

    def discard_below(self, number: int) -> None:
        """Forget all numbers below this one."""
        drop = bisect_right(self._nexts, number)
        for first, next_ in zip(self._firsts[:drop], self._nexts[:drop], strict=True):
            self._count -= next_ - first
        del self._firsts[:drop], self._nexts[:drop]
        if self._firsts and self._firsts[0] < number:
            self._count -= number - self._firsts[0]
            self._firsts[0] = number

    @property
    def ranges(self) -> int:
        """The number of ranges."""
        return len(self._firsts)

    def clear(self) -> None:
        self._firsts.clear()
        self._nexts.clear()
        self._count = 0
