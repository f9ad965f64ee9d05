"""Positions as JSON and as options."""

from __future__ import annotations

import json

import pytest

from penstock.spark.errors import OptionError
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

A = Place("t", "a:1", 0)
B = Place("t", "b:1", 3)
BOUNDS = {A: Bounds(10, 20, 1000, "a:1"), B: Bounds(0, 5, 500, "b:1")}


def test_a_checkpoint_comes_back_as_it_went() -> None:
    position = Position({B: 5, A: 7}, "g", {A: "00000000000000aa"}, "host-1")
    stored = json.loads(json.dumps(to_checkpoint(position)))
    assert from_checkpoint(stored) == position
    assert stored["logs"] == {"t": {"a:1": {"0": "00000000000000aa"}}}


def test_a_checkpoint_of_an_older_version_has_no_logs_and_no_owner() -> None:
    stored = {"group": "g", "offsets": {"t": {"a:1": {"0": 7}}}}
    assert from_checkpoint(stored) == Position({A: 7}, "g", {}, "")
    assert to_checkpoint(from_checkpoint(stored)) == stored


def test_the_text_does_not_depend_on_the_order() -> None:
    # Spark compares offsets as text.
    assert json.dumps(nest({A: 1, B: 2})) == json.dumps(nest({B: 2, A: 1}))
    assert flatten(nest({A: 1, B: 2})) == {A: 1, B: 2}


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


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ('{"t": {"7": 1}}', "names queue 7 of topic t on node a:1, which has queue 0, 1"),
        ('{"v": {"0": 1}}', "names topic v, which is not among the topics that are read: t, u"),
        ('{"t": {"0": -3}}', "gives offset -3; below 0, -1 is latest, -2 earliest"),
    ],
)
def test_kafka_s_form_is_checked_too(option: str, said: str) -> None:
    with pytest.raises(OptionError) as refused:
        resolve(option, "startingOffsets", ONE_NODE)
    assert str(refused.value) == f"startingOffsets {said}"


def test_where_several_nodes_have_the_topic_one_must_be_named() -> None:
    with pytest.raises(OptionError) as refused:
        resolve('{"t": {"0": 15}}', "startingOffsets", BOUNDS)
    assert str(refused.value) == (
        "startingOffsets names no node for topic t, which is held by a:1, b:1: "
        'write {"t": {"a:1": {"0": 15}}}'
    )


@pytest.mark.parametrize(
    "option",
    [
        "", "newest", "[1]", '{"t": 4}', '{"t": {"a": {"x": 1}}}', '{"t": {"a:1": {"0": 1.5}}}',
        '{"t": {"0": 1.5}}', '{"t": {"0": 1, "a:1": {"0": 1}}}',
    ],
)  # fmt: skip
def test_another_shape_is_refused_before_nodes_are_asked(option: str) -> None:
    for check in (
        lambda: resolve(option, "startingOffsets", BOUNDS),
        lambda: offsets("startingOffsets", option),
    ):
        with pytest.raises(OptionError, match="startingOffsets must be earliest, latest or JSON"):
            check()


@pytest.mark.parametrize("option", ["latest", '{"t": {"0": 1}}', '{"t": {"a:1": {"0": -2}}}'])
def test_what_may_be_right_is_taken_as_it_is(option: str) -> None:
    assert offsets("startingOffsets", option) == option
    assert offsets("endingOffsets", option) == option


def test_a_word_may_have_capital_letters_and_a_group_is_only_a_start() -> None:
    assert offsets("startingOffsets", " Group ") == "group"
    with pytest.raises(OptionError, match="endingOffsets must be earliest, latest or JSON"):
        offsets("endingOffsets", "group")


def test_a_number_that_means_nothing_is_refused_before_nodes_are_asked() -> None:
    with pytest.raises(OptionError, match="gives offset -3; below 0, -1 is latest"):
        offsets("startingOffsets", '{"t": {"0": -3}}')


@pytest.mark.parametrize("name", ["startingOffsets", "endingOffsets"])
@pytest.mark.parametrize(
    ("option", "said"),
    [
        ('{"t": {"a:2": {"0": 4}}}', "node a:2 for topic t, which is held by a:1, b:1"),
        ('{"t": {"b:1": {"0": -1}}}', "queue 0 of topic t on node b:1, which has queue 3"),
        ('{"u": {"a:1": {"0": 4}}}', "topic u, which is not among the topics that are read: t"),
    ],
)
def test_resolve_refuses_a_place_that_is_not_there(name: str, option: str, said: str) -> None:
    with pytest.raises(OptionError) as refused:
        resolve(option, name, BOUNDS)
    assert str(refused.value) == f"{name} names {said}"
