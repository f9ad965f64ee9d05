from __future__ import annotations

import gc

from penstock.core.clock import SYSTEM_CLOCK
from penstock.net.gc_pauses import _KEPT, GcPauses
from penstock.testing.clock import FakeClock


def test_a_real_collection_is_timed() -> None:
    pauses = GcPauses(SYSTEM_CLOCK)
    assert pauses.percentile(100) == 0
    pauses.start()
    try:
        gc.collect()
    finally:
        pauses.stop()
    counted = pauses.count
    assert counted >= 1
    assert 0 < pauses.percentile(100) <= pauses.total_ns
    gc.collect()
    assert pauses.count == counted, "after stop nothing is counted"
    pauses.stop()


def test_percentiles_of_the_last_pauses() -> None:
    clock = FakeClock()
    pauses = GcPauses(clock)

    def pause(ns: int) -> None:
        pauses._note("start", {})
        clock.advance(ns)
        pauses._note("stop", {})

    pauses._note("stop", {})  # started before anybody looked
    for ns in range(1, 101):
        pause(ns)
    assert [pauses.percentile(p) for p in (100, 99, 95)] == [100, 100, 96]
    assert (pauses.count, pauses.total_ns) == (100, 5050)
    for _ in range(_KEPT):
        pause(7)
    assert pauses.percentile(100) == 7
