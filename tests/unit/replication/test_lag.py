"""What a follower knows of its lag, by a clock that is set by hand."""

from __future__ import annotations

import pytest

from penstock.core.units import MILLISECOND, SECOND
from penstock.replication.lag import UNSEEN_NS, Lag
from penstock.testing.clock import FakeClock


def followed() -> tuple[Lag, FakeClock]:
    clock = FakeClock()
    lag = Lag(clock)
    lag.heard(clock.monotonic_ns(), is_whole=True)
    return lag, clock


def test_nothing_is_known_before_the_first_answer() -> None:
    clock = FakeClock()
    lag = Lag(clock)
    assert (lag.ns, lag.silent_ns, lag.behind_ns) == (None, None, None)
    lag.heard(clock.monotonic_ns(), is_whole=False)
    assert (lag.ns, lag.silent_ns) == (None, 0)


def test_a_silent_primary_may_be_at_work() -> None:
    lag, clock = followed()
    for _ in range(42):
        clock.advance(SECOND)
        lag.failed(is_closed=False)
    assert lag.ns == lag.silent_ns == 42 * SECOND


def test_a_port_that_stays_closed_acknowledges_nothing() -> None:
    lag, clock = followed()
    clock.advance(250 * MILLISECOND)
    for _ in range(42):
        lag.failed(is_closed=True)
        clock.advance(SECOND)
    assert lag.ns == 250 * MILLISECOND
    assert lag.behind_ns == 42 * SECOND + 250 * MILLISECOND
    lag.heard(clock.monotonic_ns(), is_whole=True)
    clock.advance(SECOND)
    assert lag.ns == SECOND, "it is there again"


@pytest.mark.parametrize("is_closed", [False, True], ids=["silent", "unseen"])
def test_a_port_of_which_nothing_was_seen_may_have_been_open(is_closed: bool) -> None:
    lag, clock = followed()
    lag.failed(is_closed=True)
    clock.advance(UNSEEN_NS + 1)
    assert lag.ns == UNSEEN_NS + 1
    lag.failed(is_closed=is_closed)
    clock.advance(SECOND)
    assert lag.ns == UNSEEN_NS + 1 + SECOND * (not is_closed)
