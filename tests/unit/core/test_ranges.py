"""A set of ranges does what a set of numbers does."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from penstock.core.ranges import RangeSet

PAIRS = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), max_size=12)


def ranges(*pairs: tuple[int, int]) -> RangeSet:
    found = RangeSet()
    for first, next_ in pairs:
        found.add(first, next_)
    return found


def test_neighbours_and_overlaps_are_joined() -> None:
    assert list(ranges((5, 7), (7, 9))) == [(5, 9)]
    assert list(ranges((7, 9), (5, 7))) == [(5, 9)]
    assert list(ranges((0, 4), (2, 6), (1, 3))) == [(0, 6)]
    assert list(ranges((0, 2), (4, 6), (8, 10), (1, 9))) == [(0, 10)]
    assert list(ranges((0, 2), (4, 6), (3, 3), (5, 1))) == [(0, 2), (4, 6)]


@given(PAIRS, st.integers(0, 40), st.integers(0, 40))
def test_parts_within_and_outside(pairs: list[tuple[int, int]], first: int, next_: int) -> None:
    found = ranges(*pairs)
    inside, outside = list(found.within(first, next_)), list(found.outside(first, next_))
    numbers = [number for part in inside for number in range(*part)]
    assert numbers == [number for number in range(first, next_) if number in found]
    others = [number for part in outside for number in range(*part)]
    assert others == [number for number in range(first, next_) if number not in found]
    assert all(low < high for low, high in inside + outside)


@given(PAIRS, st.integers(0, 40))
def test_as_a_set(pairs: list[tuple[int, int]], border: int) -> None:
    found = ranges(*pairs)
    found.discard_below(border)
    numbers = {n for first, next_ in pairs for n in range(first, next_) if n >= border}
    assert (len(found), bool(found)) == (len(numbers), bool(numbers))
    assert {n for n in range(42) if n in found} == numbers
    listed = list(found)
    assert [n for first, next_ in listed for n in range(first, next_)] == sorted(numbers)
    assert all(a[1] < b[0] for a, b in pairwise(listed))
    assert list(reversed(found)) == listed[::-1]
    for n in range(42):
        assert found.first_from(n) == next((each for each in listed if each[1] > n), None)
    found.clear()
    assert (list(found), len(found)) == ([], 0)
    found.add(1, 2)
    assert list(found) == [(1, 2)]
