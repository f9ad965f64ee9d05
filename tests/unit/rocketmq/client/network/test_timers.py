"""Calls that are due at a time."""

from __future__ import annotations

import pytest

from penstock.rocketmq.client.network.timers import Timers


def test_timers_are_run_in_the_order_of_their_times() -> None:
    timers, told = Timers(), []
    timers.at(30, lambda: told.append("c"))
    timers.at(10, lambda: told.append("a"))
    timers.at(10, lambda: told.append("b"))
    assert timers.next == 10
    timers.run(10)
    assert told == ["a", "b"]
    timers.run(99)
    assert told == ["a", "b", "c"]
    assert timers.next is None


def test_a_cancelled_timer_does_nothing() -> None:
    timers, told = Timers(), []
    timer = timers.at(10, lambda: told.append("a"))
    timers.at(20, lambda: told.append("b"))
    timer.cancel()
    assert timers.next == 20
    timers.run(50)
    assert told == ["b"]


def test_a_timer_set_by_another_waits_for_the_next_run() -> None:
    timers, told = Timers(), []
    timers.at(1, lambda: timers.at(1, lambda: told.append("again")))
    timers.run(5)
    assert told == []
    timers.run(5)
    assert told == ["again"]


def test_calls_behind_one_that_raises_stay_due() -> None:
    timers, told = Timers(), []

    def interrupted() -> None:
        told.append("interrupted")
        raise KeyboardInterrupt

    timers.at(10, lambda: told.append("a"))
    timers.at(20, interrupted)
    cancelled = timers.at(30, lambda: told.append("b"))
    timers.at(30, lambda: told.append("c"))
    with pytest.raises(KeyboardInterrupt):
        timers.run(50)
    assert told == ["a", "interrupted"]
    assert timers.next == 30
    cancelled.cancel()
    timers.run(50)
    assert told == ["a", "interrupted", "c"]


def test_cancelled_timers_are_not_kept_until_they_would_be_due() -> None:
    timers = Timers()
    for number in range(10_000):
        timers.at(10**9 + number, lambda: None).cancel()
    assert len(timers._heap) <= 1000


def test_all_can_be_forgotten() -> None:
    timers = Timers()
    timers.at(1, lambda: None)
    timers.clear()
    assert timers.next is None
