from __future__ import annotations

from typing import Any

import numpy as np

from penstock.admin.history.placing import Places, place
from tests.unit.admin.conftest import channel, topic
from tests.unit.admin.history.test_history import sample


def placed(rows: list[int]) -> tuple[Any, Any]:
    return place(np.array(rows, np.intp))


def test_rows_that_follow_one_another_are_a_slice() -> None:
    assert place(np.array([4, 5, 6])) == (slice(0, 3), slice(4, 7))
    assert place(np.array([-1, 5, 6])) == (slice(1, 3), slice(5, 7))
    columns, rows = placed([4, -1, 6])
    assert (list(columns), list(rows)) == ([0, 2], [4, 6])
    columns, rows = placed([2, 1])
    assert (columns, list(rows)) == (slice(0, 2), [2, 1])
    columns, rows = placed([])
    assert (len(columns), len(rows)) == (0, 0)


def test_topics_and_their_channels() -> None:
    look = sample(
        topic("none"),
        topic("two", channel("a"), channel("b")),
        topic("one", channel("c"), log_groups=[{"group_name": "g"}]),
    )
    places = Places(look, [], [10, 11, -1, 12, 13, 14, 15], [-1, 3])
    assert (places.topics, places.figures) == (3, 6)
    assert places.always.tolist() == [3]
    assert places.above.tolist() == [11, 11, -1]
    assert places.channels == (slice(0, 3), slice(12, 15))
    assert places.heads.tolist() == [3, 5]  # columns: none, two, one, a, b, c, @g
    assert places.headed == (slice(0, 1), slice(11, 12))  # no row for topic one
