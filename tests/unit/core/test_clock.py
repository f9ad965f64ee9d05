from __future__ import annotations

import time

from penstock.core.clock import SYSTEM_CLOCK, SystemClock


def test_clocks_are_the_machines() -> None:
    before = time.monotonic_ns(), time.time_ns()
    seen = SYSTEM_CLOCK.monotonic_ns(), SYSTEM_CLOCK.wall_ns()
    after = time.monotonic_ns(), time.time_ns()
    assert before[0] <= seen[0] <= after[0]
    assert before[1] <= seen[1] <= after[1]


def test_reading_goes_straight_to_c() -> None:
    assert SystemClock.monotonic_ns is time.monotonic_ns
