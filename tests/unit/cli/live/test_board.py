"""Counts and rates."""

from __future__ import annotations

from penstock.cli.live.board import Gauge
from penstock.testing.clock import FakeClock


def test_the_rate_is_that_of_the_last_seconds() -> None:
    clock = FakeClock()
    gauge = Gauge("rows", 1000, clock)
    assert gauge.rate == 0
    for done in range(0, 1001, 100):
        gauge.set(done)
        clock.advance(500_000_000)
    assert 150 < gauge.rate < 250
    assert gauge.complete
    clock.advance(10_000_000_000)
    gauge.set(1000)
    gauge.set(1000)
    assert gauge.rate < 20


def test_without_a_total_nothing_is_complete() -> None:
    gauge = Gauge("rows")
    gauge.set(5)
    assert not gauge.complete
