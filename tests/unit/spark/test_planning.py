"""Admission and splitting as arithmetic."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.spark.errors import SourceError
from penstock.spark.offsets import Bounds, Place
from penstock.spark.planning import SPLIT_BYTES, SPLITS_MAX, admit, check, held, plan

PLACES = [Place("t", f"n{i}:1", i) for i in range(4)]
A, B, C, _ = PLACES
lags = st.lists(st.integers(0, 100_000), min_size=1, max_size=4)


def bounds_for(ends: dict[Place, int], start: int = 0) -> dict[Place, Bounds]:
    return {place: Bounds(start, end, 100 * end, place.node) for place, end in ends.items()}


@given(lags, st.integers(1, 150_000))
def test_admit_takes_as_much_as_the_limit_allows_and_no_more(sizes: list[int], limit: int) -> None:
    start = {place: 7 for place, _ in zip(PLACES, sizes, strict=False)}
    end = {place: 7 + size for place, size in zip(PLACES, sizes, strict=False)}
    admitted = admit(start, end, limit)
    taken = {place: admitted[place] - start[place] for place in end}
    assert sum(taken.values()) == min(limit, sum(sizes))
    assert all(0 <= taken[place] <= end[place] - start[place] for place in end)


def test_admit_lets_every_place_advance() -> None:
    admitted = admit({A: 0, B: 0}, {A: 900, B: 100}, 100)
    assert admitted == {A: 90, B: 10}


@pytest.mark.parametrize("limit", [3, 5, 6, 9])
def test_admit_lets_every_one_of_many_places_advance(limit: int) -> None:
    places = [Place("t", "n:1", queue) for queue in range(6)]
    start, end = dict.fromkeys(places, 0), dict.fromkeys(places, 100)
    for _ in range(4):
        start = admit(start, end, limit)
    assert sum(start.values()) == 4 * limit
    assert max(start.values()) - min(start.values()) <= 1


@given(lags, st.integers(1, 16))
def test_splits_cover_each_offset_once(sizes: list[int], partitions: int) -> None:
    start = {place: 5 for place, _ in zip(PLACES, sizes, strict=False)}
    end = {place: 5 + size for place, size in zip(PLACES, sizes, strict=False)}
    splits = plan(start, end, bounds_for(end), partitions)
    for place in end:
        own = [(split.start, split.end) for split in splits if split.place == place]
        position = 5
        for first, last in own:
            assert first == position < last
            position = last
        assert position == end[place]


def test_large_ranges_are_split_and_small_ones_are_not() -> None:
    assert len(plan({A: 0}, {A: 1_000_000}, bounds_for({A: 1_000_000}), 4)) == 4
    assert len(plan({A: 0}, {A: 500}, bounds_for({A: 500}), 4)) == 1
    assert plan({A: 9}, {A: 9}, bounds_for({A: 9}), 4) == []


def test_without_a_minimum_the_splits_follow_the_amount_and_not_this_machine() -> None:
    rows = 10 * SPLIT_BYTES // 100  # of 100 bytes each
    assert len(plan({A: 0}, {A: rows}, bounds_for({A: rows}), 0)) == 10
    ends = {A: rows, B: rows // 10, C: 3}
    splits = plan(dict.fromkeys(ends, 0), ends, bounds_for(ends), 0)
    assert [sum(split.place == place for split in splits) for place in ends] == [11, 1, 1]
    assert len(plan({A: rows - 9}, {A: rows}, bounds_for({A: rows}), 0)) == 1


@given(lags, st.integers(1, 5_000))
def test_no_split_is_longer_than_the_most_that_is_allowed(sizes: list[int], most: int) -> None:
    start = {place: 5 for place, _ in zip(PLACES, sizes, strict=False)}
    end = {place: 5 + size for place, size in zip(PLACES, sizes, strict=False)}
    if sum(sizes) > most * SPLITS_MAX:
        return
    splits = plan(start, end, bounds_for(end), 1, most)
    assert all(split.end - split.start <= most for split in splits)
    assert sum(split.end - split.start for split in splits) == sum(sizes)
    assert len(splits) <= sum(-(-size // most) for size in sizes)


def test_splits_without_number_are_refused() -> None:
    with pytest.raises(SourceError) as refused:
        plan({A: 0}, {A: SPLITS_MAX + 1}, bounds_for({A: SPLITS_MAX + 1}), 0, 1)
    assert str(refused.value) == (
        "100001 messages would be more than 100000 partitions of maxRecordsPerPartition=1: raise "
        "it, or set maxRecordsPerTrigger"
    )


def test_a_place_that_nobody_serves() -> None:
    with pytest.raises(SourceError, match=r"node n0:1 holds topic t \(queue 0\) from offset 3 on"):
        plan({A: 3}, {A: 9}, {}, 1)


def test_offsets_outside_of_the_log() -> None:
    bounds = bounds_for({A: 50, B: 50}, start=10)
    check({A: 10, B: 50, C: 1}, bounds, {})
    with pytest.raises(SourceError, match=r"offset 9 of topic t .* on node n1:1 is gone: .* at 10"):
        check({A: 10, B: 9}, bounds, {})
    with pytest.raises(
        SourceError, match=r"offset 51 of topic t .* on node n0:1 is beyond its end"
    ):
        check({A: 51}, bounds, {})


def test_what_is_not_held_is_skipped_to_the_start_and_told() -> None:
    moved, skipped = held({A: 3, B: 90, C: 1}, bounds_for({A: 50, B: 50}, start=10), {})
    # Never to the end: nobody has read what lies before it.
    assert moved == {A: 10, B: 10, C: 1}
    assert [each.partition(" of topic")[0] for each in skipped] == ["offset 3", "offset 90"]
    assert skipped[0].endswith("Skipped, as failOnDataLoss=false: it goes on at offset 10")


def test_a_log_that_took_the_place_of_another() -> None:
    bounds = {A: Bounds(0, 5000, 100, "n0:1", "bb"), B: Bounds(0, 5000, 100, "n1:1")}
    check({A: 1000, B: 1000}, bounds, {A: "bb", B: "aa"})
    check({A: 1000, B: 1000}, bounds, {})
    with pytest.raises(SourceError) as replaced:
        check({A: 1000}, bounds, {A: "aa"})
    assert str(replaced.value) == (
        "topic t (queue 0) on node n0:1 was deleted and created again: offset 1000 is of log aa, "
        "the node has log bb now, and what was not read of aa is lost. Set failOnDataLoss=false to "
        "read bb from its start"
    )
    moved, skipped = held({A: 1000, B: 1000}, bounds, {A: "aa"})
    assert moved == {A: 0, B: 1000}
    assert "log aa" in skipped[0]


def test_a_split_knows_its_log() -> None:
    (split,) = plan({A: 0}, {A: 5}, {A: Bounds(0, 5, 100, "n0:1", "bb")}, 1)
    assert split.log == "bb"
