"""The rates of queues, of the looks of a minute."""

from __future__ import annotations

import pytest

from penstock.admin.rocketmq import queue_rates
from penstock.admin.rocketmq.queue_rates import WINDOW_S, QueueRates

QUEUE = ("t", "b", 0)


def test_the_first_look_tells_nothing_and_later_ones_of_a_minute_the_mean() -> None:
    rates = QueueRates()
    assert rates.take(QUEUE, 100.0, 10) is None
    assert rates.take(QUEUE, 100.5, 20) == 20.0, "too near to count, but it is the newest"
    assert rates.take(QUEUE, 110.0, 30) == 2.0
    assert rates.take(("t", "b", 1), 110.0, 7) is None
    for second in range(120, 300, 10):
        found = rates.take(QUEUE, float(second), 30)
    assert found == 0.0
    assert rates.take(QUEUE, 290.0 + WINDOW_S, 30 + 60) is not None


def test_a_queue_or_a_clock_that_begins_anew() -> None:
    rates = QueueRates()
    rates.take(QUEUE, 100.0, 10)
    assert rates.take(QUEUE, 110.0, 5) is None
    assert rates.take(QUEUE, 50.0, 6) is None
    assert rates.take(QUEUE, 60.0, 16) == 1.0


def test_queues_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_rates, "QUEUES_MAX", 2)
    rates = QueueRates()
    rates.take(("a", "b", 0), 0.0, 1)
    rates.take(("b", "b", 0), 100.0, 1)
    rates.take(("c", "b", 0), 101.0, 1)
    assert rates.take(("b", "b", 0), 102.0, 3) == 1.0
    assert rates.take(("a", "b", 0), 103.0, 1) is None
