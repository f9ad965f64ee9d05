"""Offsets of streams, the plans of batches between them, and nodes that are asked at once."""

from __future__ import annotations

import json
import threading

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from penstock.spark.errors import OptionError, SourceError
from penstock.spark.nodes.at_once import at_once
from penstock.spark.offsets import (
    Bounds,
    Place,
    Position,
    flatten,
    from_checkpoint,
    nest,
    offsets,
    resolve,
    to_checkpoint,
)
from penstock.spark.planning import (
    SPLIT_BYTES,
    SPLITS_MAX,
    Split,
    admit,
    check,
    cut,
    held,
    plan,
    shared,
    split_rows,
)

A = Place("t", "a:1", 0)
B = Place("t", "b:1", 3)
BOUNDS = {A: Bounds(10, 20, 1000, "a:1"), B: Bounds(0, 5, 500, "b:1")}


def test_a_checkpoint_comes_back_as_it_went() -> None:
    position = Position({B: 5, A: 7}, "g", {A: "00000000000000aa"}, "host-1", split_rows=9)
    stored = json.loads(json.dumps(to_checkpoint(position)))
    assert from_checkpoint(stored) == position
    assert stored["logs"] == {"t": {"a:1": {"0": "00000000000000aa"}}}
    # One of an older version has no logs and no owner.
    old = {"group": "g", "offsets": {"t": {"a:1": {"0": 7}}}}
    assert from_checkpoint(old) == Position({A: 7}, "g", {}, "")
    assert to_checkpoint(from_checkpoint(old)) == old
    # Spark compares offsets as text, which does not depend on their order.
    assert json.dumps(nest({A: 1, B: 2})) == json.dumps(nest({B: 2, A: 1}))
    assert flatten(nest({A: 1, B: 2})) == {A: 1, B: 2}


def test_a_checkpoint_of_many_places_is_packed() -> None:
    places = [Place(f"topic-{number:05}", f"n{number % 20}:1", 0) for number in range(10_000)]
    logs = {place: f"{0x4D20C67859000000 + 997 * at:016x}" for at, place in enumerate(places)}
    position = Position(dict.fromkeys(places, 123_456), "g", logs, "host-1", split_rows=9)
    stored = json.loads(json.dumps(to_checkpoint(position)))
    assert from_checkpoint(stored) == position
    assert to_checkpoint(position) == stored
    assert (stored["group"], len(json.dumps(stored)) < 200_000) == ("g", True)
    few = position._replace(offsets=dict.fromkeys(places[:100], 1), logs={})
    assert "offsets" in to_checkpoint(few)


@pytest.mark.parametrize(
    ("option", "name", "expected"),
    [
        ("earliest", "startingOffsets", {A: 10, B: 0}),
        (" Latest ", "startingOffsets", {A: 20, B: 5}),
        ('{"t": {"a:1": {"0": 15}}}', "startingOffsets", {A: 15, B: 0}),
        ('{"t": {"a:1": {"0": 15}}}', "endingOffsets", {A: 15, B: 5}),
        ('{"t": {"a:1": {"0": -1}, "b:1": {"3": -2}}}', "startingOffsets", {A: 20, B: 0}),
    ],
)
def test_resolve(option: str, name: str, expected: dict[Place, int]) -> None:
    assert resolve(option, name, BOUNDS) == expected


ONE_NODE = {
    A: BOUNDS[A],
    A._replace(queue=1): Bounds(5, 9, 10, "a:1"),
    Place("u", "b:1", 0): BOUNDS[B],
}


def test_where_one_node_has_the_topic_offsets_are_as_kafka_has_them() -> None:
    resolved = resolve('{"t": {"0": 15, "1": -1}, "u": {"0": -2}}', "startingOffsets", ONE_NODE)
    assert list(resolved.values()) == [15, 9, 0]
    mixed = '{"t": {"a:1": {"0": 15}}, "u": {"0": 2}}'
    assert list(resolve(mixed, "endingOffsets", ONE_NODE).values()) == [15, 9, 2]


@pytest.mark.parametrize("name", ["startingOffsets", "endingOffsets"])
@pytest.mark.parametrize(
    ("bounds", "option", "said"),
    [
        (ONE_NODE, '{"t": {"7": 1}}', "names queue 7 of topic t on node a:1, which has queue 0, 1"),
        (ONE_NODE, '{"v": {"0": 1}}',
         "names topic v, which is not among the topics that are read: t, u"),
        (ONE_NODE, '{"t": {"0": -3}}', "gives offset -3; below 0, -1 is latest, -2 earliest"),
        (BOUNDS, '{"t": {"0": 15}}', "names no node for topic t, which is held by a:1, b:1: write "
         '{"t": {"a:1": {"0": 15}}}'),
        (BOUNDS, '{"t": {"a:2": {"0": 4}}}',
         "names node a:2 for topic t, which is held by a:1, b:1"),
        (BOUNDS, '{"t": {"b:1": {"0": -1}}}',
         "names queue 0 of topic t on node b:1, which has queue 3"),
        (BOUNDS, '{"u": {"a:1": {"0": 4}}}',
         "names topic u, which is not among the topics that are read: t"),
    ],
)  # fmt: skip
def test_a_place_that_is_not_there_is_refused(
    bounds: dict[Place, Bounds], name: str, option: str, said: str
) -> None:
    with pytest.raises(OptionError) as refused:
        resolve(option, name, bounds)
    assert str(refused.value) == f"{name} {said}"


@pytest.mark.parametrize(
    "option",
    [
        "", "newest", "[1]", '{"t": 4}', '{"t": {"a": {"x": 1}}}', '{"t": {"a:1": {"0": 1.5}}}',
        '{"t": {"0": 1.5}}', '{"t": {"0": 1, "a:1": {"0": 1}}}',
    ],
)  # fmt: skip
def test_another_shape_is_refused_before_nodes_are_asked(option: str) -> None:
    said = "startingOffsets must be earliest, latest or JSON"
    with pytest.raises(OptionError, match=said):
        resolve(option, "startingOffsets", BOUNDS)
    with pytest.raises(OptionError, match=said):
        offsets("startingOffsets", option)


@pytest.mark.parametrize("option", ["latest", '{"t": {"0": 1}}', '{"t": {"a:1": {"0": -2}}}'])
def test_what_may_be_right_is_taken_as_it_is(option: str) -> None:
    assert offsets("startingOffsets", option) == option
    assert offsets("endingOffsets", option) == option


def test_what_means_nothing_is_refused_before_nodes_are_asked() -> None:
    assert offsets("startingOffsets", " Group ") == "group"
    with pytest.raises(OptionError, match="endingOffsets must be earliest, latest or JSON"):
        offsets("endingOffsets", "group")
    with pytest.raises(OptionError, match="gives offset -3; below 0, -1 is latest"):
        offsets("startingOffsets", '{"t": {"0": -3}}')


PLACES = [Place("t", f"n{i}:1", i) for i in range(4)]
NODE_A, NODE_B, C, _ = PLACES
lags = st.lists(st.integers(0, 100_000), min_size=1, max_size=4)


def bounds_for(ends: dict[Place, int], start: int = 0) -> dict[Place, Bounds]:
    return {place: Bounds(start, end, 100 * end, place.node) for place, end in ends.items()}


def lagging(sizes: list[int], first: int) -> tuple[dict[Place, int], dict[Place, int]]:
    """Where a batch begins and may end, at places with lags of these sizes."""
    start = {place: first for place, _ in zip(PLACES, sizes, strict=False)}
    return start, {place: first + size for place, size in zip(PLACES, sizes, strict=False)}


@given(lags, st.integers(1, 150_000))
def test_admit_takes_as_much_as_the_limit_allows_and_no_more(sizes: list[int], limit: int) -> None:
    start, end = lagging(sizes, 7)
    admitted = admit(start, end, limit)
    taken = {place: admitted[place] - start[place] for place in end}
    assert sum(taken.values()) == min(limit, sum(sizes))
    assert all(0 <= taken[place] <= end[place] - start[place] for place in end)


@pytest.mark.parametrize("limit", [3, 5, 6, 9])
def test_admit_lets_every_place_advance(limit: int) -> None:
    assert admit({NODE_A: 0, NODE_B: 0}, {NODE_A: 900, NODE_B: 100}, 100) == {
        NODE_A: 90,
        NODE_B: 10,
    }
    places = [Place("t", "n:1", queue) for queue in range(6)]
    start, end = dict.fromkeys(places, 0), dict.fromkeys(places, 100)
    for _ in range(4):
        start = admit(start, end, limit)
    assert sum(start.values()) == 4 * limit
    assert max(start.values()) - min(start.values()) <= 1


@given(lags, st.integers(1, 16), st.integers(1, 5_000) | st.none())
def test_splits_cover_each_offset_once_and_are_as_long_as_is_allowed(
    sizes: list[int], partitions: int, most: int | None
) -> None:
    start, end = lagging(sizes, 5)
    assume(most is None or sum(sizes) <= most * SPLITS_MAX)
    splits = plan(start, end, bounds_for(end), partitions, most)
    for place in end:
        position = 5
        for split in (each for each in splits if each.place == place):
            assert split.start == position < split.end
            assert most is None or split.end - split.start <= most
            position = split.end
        assert position == end[place]
    if most is not None and partitions == 1:
        assert len(splits) <= sum(-(-size // most) for size in sizes)


def test_large_ranges_are_split_and_small_ones_are_not() -> None:
    assert len(plan({NODE_A: 0}, {NODE_A: 1_000_000}, bounds_for({NODE_A: 1_000_000}), 4)) == 4
    assert len(plan({NODE_A: 0}, {NODE_A: 500}, bounds_for({NODE_A: 500}), 4)) == 1
    assert plan({NODE_A: 9}, {NODE_A: 9}, bounds_for({NODE_A: 9}), 4) == []
    (split,) = plan({NODE_A: 0}, {NODE_A: 5}, {NODE_A: Bounds(0, 5, 100, "n0:1", "bb")}, 1)
    assert split.log == "bb"


def test_without_a_minimum_the_splits_follow_the_amount_and_not_this_machine() -> None:
    rows = 10 * SPLIT_BYTES // 100  # of 100 bytes each
    assert len(plan({NODE_A: 0}, {NODE_A: rows}, bounds_for({NODE_A: rows}), 0)) == 10
    ends = {NODE_A: rows, NODE_B: rows // 10, C: 3}
    splits = plan(dict.fromkeys(ends, 0), ends, bounds_for(ends), 0)
    assert [sum(split.place == place for split in splits) for place in ends] == [11, 1, 1]
    assert len(plan({NODE_A: rows - 9}, {NODE_A: rows}, bounds_for({NODE_A: rows}), 0)) == 1


def test_splits_without_number_are_refused() -> None:
    with pytest.raises(SourceError) as refused:
        plan({NODE_A: 0}, {NODE_A: SPLITS_MAX + 1}, bounds_for({NODE_A: SPLITS_MAX + 1}), 0, 1)
    assert str(refused.value) == (
        "100001 messages would be more than 100000 partitions of maxRecordsPerPartition=1: raise "
        "it, or set maxRecordsPerTrigger"
    )


def test_a_place_that_nobody_serves() -> None:
    with pytest.raises(SourceError, match=r"node n0:1 holds topic t \(queue 0\) from offset 3 on"):
        plan({NODE_A: 3}, {NODE_A: 9}, {}, 1)


def test_offsets_outside_of_the_log() -> None:
    bounds = bounds_for({NODE_A: 50, NODE_B: 50}, start=10)
    check({NODE_A: 10, NODE_B: 50, C: 1}, bounds, {})
    with pytest.raises(SourceError, match=r"offset 9 of topic t .* on node n1:1 is gone: .* at 10"):
        check({NODE_A: 10, NODE_B: 9}, bounds, {})
    with pytest.raises(
        SourceError, match=r"offset 51 of topic t .* on node n0:1 is beyond its end"
    ):
        check({NODE_A: 51}, bounds, {})


def test_what_is_not_held_is_skipped_to_the_start_and_told() -> None:
    moved, skipped = held(
        {NODE_A: 3, NODE_B: 90, C: 1}, bounds_for({NODE_A: 50, NODE_B: 50}, start=10), {}
    )
    # Never to the end: nobody has read what lies before it.
    assert moved == {NODE_A: 10, NODE_B: 10, C: 1}
    assert [each.partition(" of topic")[0] for each in skipped] == ["offset 3", "offset 90"]
    assert skipped[0].endswith("Skipped, as failOnDataLoss=false: it goes on at offset 10")


def test_a_log_that_took_the_place_of_another() -> None:
    bounds = {NODE_A: Bounds(0, 5000, 100, "n0:1", "bb"), NODE_B: Bounds(0, 5000, 100, "n1:1")}
    check({NODE_A: 1000, NODE_B: 1000}, bounds, {NODE_A: "bb", NODE_B: "aa"})
    check({NODE_A: 1000, NODE_B: 1000}, bounds, {})
    with pytest.raises(SourceError) as replaced:
        check({NODE_A: 1000}, bounds, {NODE_A: "aa"})
    assert str(replaced.value) == (
        "topic t (queue 0) on node n0:1 was deleted and created again: offset 1000 is of log aa, "
        "the node has log bb now, and what was not read of aa is lost. Set failOnDataLoss=false to "
        "read bb from its start"
    )
    moved, skipped = held({NODE_A: 1000, NODE_B: 1000}, bounds, {NODE_A: "aa"})
    assert moved == {NODE_A: 0, NODE_B: 1000}
    assert "log aa" in skipped[0]


def test_all_are_asked_at_the_same_time() -> None:
    met = threading.Barrier(3, timeout=30)

    def ask(key: int) -> int:
        met.wait()
        return key * 2

    assert at_once(ask, [3, 1, 2, 1]) == {3: 6, 1: 2, 2: 4}


def test_one_is_asked_in_the_same_thread_and_an_error_is_raised() -> None:
    assert at_once(lambda _: threading.current_thread(), ["a"]) == {"a": threading.current_thread()}
    assert at_once(str, []) == {}
    with pytest.raises(ZeroDivisionError):
        at_once(lambda key: 1 / key, [1, 0])


def test_a_batch_of_an_archive_is_cut_the_same_whatever_plans_it() -> None:
    splits = cut({A: 11, B: 5}, {A: 20, B: 5}, BOUNDS, 4)
    assert [(each.place, each.start, each.end) for each in splits] == [
        (A, 11, 12), (A, 12, 16), (A, 16, 20)
    ]  # fmt: skip
    # Where its beginning is gone, the others are those that they were.
    assert cut({A: 14}, {A: 20}, BOUNDS, 4)[1:] == splits[2:]
    gone = A._replace(topic="u")
    with pytest.raises(SourceError, match="node a:1 holds topic u"):
        cut({gone: 0}, {gone: 1}, BOUNDS, 4)


@pytest.mark.parametrize(
    ("rows", "record_bytes", "cores", "most"),
    [
        (0, 100, 2, 1),
        (500_000, 200, 2, 250_000),
        (500_001, 200, 2, 250_001),
        (10, 200, 4, 10_000),  # no file for a handful
        (10_000_000, 200, 0, 166_667),  # by the amount: a split for each SPLIT_BYTES
        (100, 4 << 20, 8, 13),  # a handful of large ones is enough for a split
        (100_000_000, 200, 2, (512 << 20) // 200),  # no file without bounds
        (10, 1 << 30, 1, 1),
    ],
)
def test_the_messages_of_a_split(rows: int, record_bytes: int, cores: int, most: int) -> None:
    bounds = {A: Bounds(0, max(1, rows), record_bytes * max(1, rows), "a:1")}
    assert split_rows({A: 0}, {A: rows}, bounds, cores) == most


def few(count: int, rows: int = 3) -> list[Split]:
    places = (Place(f"t{number}", f"n{number % 20}:1", 0) for number in range(count))
    return [Split(place, place.node, 0, rows, 200.0) for place in places]


def test_places_with_little_news_share_tasks() -> None:
    for cores in (1, 2, 16):
        splits = few(10_000)
        portions = shared(splits, cores)
        assert 3 * cores <= len(portions) <= 4 * cores
        assert {split for each in portions for split in each} == {*splits}
        sizes = [len(each) for each in portions[:-1]]
        assert max(sizes) - min(sizes) <= 1
        # A task asks few nodes.
        assert max(len({split.address for split in each}) for each in portions) <= 20 // cores + 1
    assert shared(few(8), 2) == [(each,) for each in few(8)]
    assert shared([], 2) == []
    # Large ones are not put together.
    assert len(shared(few(100, rows=SPLIT_BYTES // 100), 2)) == 100
    mixed = [*few(50), *few(1, rows=SPLIT_BYTES // 100)]
    assert [len(each) for each in shared(mixed, 2)] == [4, 47]
