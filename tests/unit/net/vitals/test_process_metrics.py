from __future__ import annotations

from penstock.core.metrics import process
from penstock.core.units import MILLISECOND, SECOND
from penstock.net.gc_pauses import GcPauses
from penstock.net.vitals.process_metrics import of
from penstock.testing.clock import FakeClock
from tests.metrics_pages import parse


def test_the_figures_of_a_process() -> None:
    clock = FakeClock()
    pauses = GcPauses(clock)
    pauses._note("start", {})
    clock.advance(20 * MILLISECOND)
    pauses._note("stop", {})
    found = parse("".join(samples.text() for samples in of(1_700_000_000 * SECOND, pauses)))
    assert found[process.START_TIME.name].value() == 1_700_000_000
    assert found[process.CPU.name].value() > 0
    assert 0 < found[process.OPEN_FILES.name].value() <= found[process.OPEN_FILES_MAX.name].value()
    assert found[process.GC_COLLECTIONS.name].samples.keys() == {
        ("", frozenset({("generation", str(each))})) for each in range(3)
    }
    assert found[process.GC_PAUSES.name].value("_count") == 1
    assert found[process.GC_PAUSES.name].value(quantile="1") == 0.02
