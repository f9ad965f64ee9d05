from __future__ import annotations

import numpy as np
import pytest

from penstock.broker.runs import runs

CASES: list[tuple[list[int], list[tuple[int, int]]]] = [
    ([], []),
    ([7], [(7, 8)]),
    ([3, 4, 5, 6], [(3, 7)]),
    ([6, 5, 4], [(4, 7)]),
    ([1, 2, 9, 4, 3], [(1, 5), (9, 10)]),
    ([1, 3, 2, 4], [(1, 5)]),  # right first, last and count, wrong order
    ([1, 1, 4, 4, 5], [(1, 2), (1, 2), (4, 5), (4, 6)]),
    ([1, 1, 1, 4], [(1, 2), (1, 2), (1, 2), (4, 5)]),  # first, last and count of a run
    ([5, 5], [(5, 6), (5, 6)]),
    ([-3, -2, 0], [(-3, -1), (0, 1)]),
]


@pytest.mark.parametrize(("offsets", "expected"), CASES, ids=str)
def test_runs(offsets: list[int], expected: list[tuple[int, int]]) -> None:
    found = runs(np.array(offsets, np.int64))
    assert found == expected
    assert all(type(end) is int for span in found for end in span), "no numpy numbers get out"
    assert runs(offsets) == expected


def test_a_few_may_be_of_any_size() -> None:
    """Whatever 16 hex digits a client sends, less the base of a queue."""
    far = (1 << 64) - 1
    assert runs([far, -far]) == [(-far, 1 - far), (far, far + 1)]


def test_a_long_run_is_one_range() -> None:
    assert runs(np.arange(10**6, 2 * 10**6)) == [(10**6, 2 * 10**6)]
