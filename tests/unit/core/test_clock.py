from __future__ import annotations

import sys
import threading
import time

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
