from __future__ import annotations

import math

import numpy as np

from penstock.admin.history.ring import Ring


def test_the_newest_points_of_a_row() -> None:
    ring = Ring(2)
    for time in (1.0, 2.0, 3.0):
        ring.add(time, np.array([[time, -time]], np.float32))
    assert ring.series(1, 0.0) == ([2.0, 3.0], [[-2.0, -3.0]])
    assert ring.series(1, 2.5) == ([3.0], [[-3.0]])
    assert ring.series(1, 9.0) == ([], [])
    assert ring.nbytes == 2 * 2 * 4


def test_tables_grow() -> None:
    """With rows that are new, and with latencies once there are some."""
    ring = Ring(5)
    ring.add(1.0, np.array([[1]], np.float32))
    ring.add(2.0, np.array([[2, 3], [4, 5]], np.float32))
    _, (first, second) = ring.series(1, 0.0)
    assert math.isnan(first[0])
    assert first[1] == 3
    assert math.isnan(second[0])
    assert second[1] == 5


def test_a_clock_that_is_set_leaves_no_points_of_other_times() -> None:
    ring = Ring(9)
    for time in (1000.0, 9000.0, 9010.0, 8000.0, 8010.0):
        ring.add(time, np.array([[time]], np.float32))
    assert ring.series(0, 0.0) == ([8000.0, 8010.0], [[8000.0, 8010.0]])
