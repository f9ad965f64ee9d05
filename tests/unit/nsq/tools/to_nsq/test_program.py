from __future__ import annotations

import pytest

from penstock.nsq.tools.to_nsq.program import Throttle


def test_records_come_evenly() -> None:
    throttle = Throttle(5, 0.0)
    assert throttle.grant(10, 0.0) == 1
    assert throttle.grant(10, 0.0) == 0
    assert throttle.wait == pytest.approx(0.2)
    sent = sum(throttle.grant(1, step / 10) for step in range(1, 21))
    assert sent == 10  # two seconds' worth


def test_a_pause_is_made_up_for_by_one_second_at_most() -> None:
    throttle = Throttle(100, 0.0)
    assert throttle.grant(1000, 3600.0) == 100
