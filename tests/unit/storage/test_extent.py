"""The missing parts of a log."""

from __future__ import annotations

import pytest

from penstock.storage.extent import missing


@pytest.mark.parametrize(
    ("present", "start", "end", "expected"),
    [
        ([], 0, 0, []),
        ([], 3, 7, [(3, 7)]),
        ([(0, 9)], 3, 7, []),
        ([(0, 4)], 0, 9, [(4, 9)]),
        ([(4, 9)], 2, 9, [(2, 4)]),
        ([(4, 6), (8, 9)], 2, 12, [(2, 4), (6, 8), (9, 12)]),
        ([(1, 2), (20, 30)], 5, 12, [(5, 12)]),
    ],
)
def test_missing_ranges(
    present: list[tuple[int, int]], start: int, end: int, expected: list[tuple[int, int]]
) -> None:
    assert list(missing(present, start, end)) == expected
