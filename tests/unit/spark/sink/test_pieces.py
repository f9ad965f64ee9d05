"""Cutting and joining rows."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from penstock.spark.sink.pieces import cut, edges, groups, joined, nbytes
from tests.unit.spark.sink.making import bodies_of, piece


def test_a_piece_is_cut_by_bytes_and_has_one_message_at_least() -> None:
    whole = piece([b"a" * 10, b"b" * 2, b"c" * 2, b"d" * 50, b"e" * 2])
    parts = list(cut(whole, 30))
    assert [bodies_of(part) for part in parts] == [
        [b"a" * 10, b"b" * 2], [b"c" * 2], [b"d" * 50], [b"e" * 2],
    ]  # fmt: skip
    assert [part.rows.tolist() for part in parts] == [[0, 1], [2], [3], [4]]
    # A slice of a slice is cut by where its own bodies begin.
    assert [part.count for part in cut(whole.slice(1, 5), 20)] == [2, 1, 1]
    assert nbytes(whole.slice(1, 3)) == 4 + 2 * 8


def test_pieces_are_joined_with_their_places() -> None:
    both = joined([piece([b"a"], [7]), piece([b"b", b"c"], [0, 9], first=40)])
    assert bodies_of(both) == [b"a", b"b", b"c"]
    assert both.rows.tolist() == [0, 40, 41]
    assert both.delays.tolist() == [7, 0, 9]
    assert both.where(2) == "rows 0 to 41 of partition 2"
    first, second = both.halves()
    assert first.where(2) == "row 0 of partition 2"
    assert second.rows.tolist() == [40, 41]


def test_groups_keep_the_order() -> None:
    found = {key: indices.tolist() for key, indices in groups(np.array([5, 1, 5, 1, 1]))}
    assert found == {1: [1, 3, 4], 5: [0, 2]}


@pytest.mark.parametrize("kind", [pa.binary(), pa.string(), pa.large_binary(), pa.large_string()])
def test_borders_of_every_kind(kind: pa.DataType) -> None:
    array = pa.array(["aa", "b", "cccc"], kind)
    assert edges(array).tolist() == [0, 2, 3, 7]
    assert edges(array.slice(1)).tolist() == [2, 3, 7]
    assert edges(array.slice(3)).tolist() == [0]
