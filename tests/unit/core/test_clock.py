"""The clocks of the machine, and chance."""

from __future__ import annotations

import sys
import threading
import time

from penstock.core.chance import Chance, SystemChance
from penstock.core.clock import SYSTEM_CLOCK, SystemClock, thread_cpu_ns


def test_clocks_are_the_machines() -> None:
    before = time.monotonic_ns(), time.time_ns()
    seen = SYSTEM_CLOCK.monotonic_ns(), SYSTEM_CLOCK.wall_ns()
    after = time.monotonic_ns(), time.time_ns()
    assert before[0] <= seen[0] <= after[0]
    assert before[1] <= seen[1] <= after[1]


def test_reading_goes_straight_to_c() -> None:
    assert SystemClock.monotonic_ns is time.monotonic_ns


def test_the_processor_time_of_threads() -> None:
    own = threading.get_native_id()
    before = thread_cpu_ns(own)
    if before is None:
        assert not sys.platform.startswith("linux")
        return
    end = time.thread_time_ns() + 10_000_000
    while time.thread_time_ns() < end:
        pass
    after = thread_cpu_ns(own)
    assert after is not None
    assert after - before >= 10_000_000
    assert thread_cpu_ns(1) is None, "not a thread of this process"
    assert thread_cpu_ns(2**60) is None


def test_the_same_seed_gives_the_same_draws() -> None:
    one: Chance = SystemChance(7)
    other: Chance = SystemChance(7)
    assert [one.below(10) for _ in range(20)] == [other.below(10) for _ in range(20)]
    assert one.fraction() == other.fraction()


def test_draws_stay_in_range() -> None:
    chance = SystemChance(1)
    assert {chance.below(3) for _ in range(100)} == {0, 1, 2}
    assert all(0 <= chance.fraction() < 1 for _ in range(100))
