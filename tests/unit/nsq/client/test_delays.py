"""Delays as commands carry them, and those that none can carry."""

from __future__ import annotations

import math

import pytest

from penstock.nsq.client.delays import DELAY_MAX, deferral_ms, requeue_delay


def test_deferrals_are_sent_in_milliseconds() -> None:
    assert [deferral_ms(delay) for delay in (0, 0.0004, 1.5)] == [0, 0, 1500]


@pytest.mark.parametrize("delay", [-1, -0.001, math.nan, math.inf, 1e300])
def test_no_deferral(delay: float) -> None:
    with pytest.raises(ValueError, match="a delay of"):
        deferral_ms(delay)


@pytest.mark.parametrize("delay", [None, -math.inf, -1, 0, 1.5, DELAY_MAX])
def test_a_requeue_may_leave_its_delay_to_the_options(delay: float | None) -> None:
    assert requeue_delay(delay) == delay


@pytest.mark.parametrize("delay", [math.nan, math.inf, 1e300])
def test_no_requeue_is_endless(delay: float) -> None:
    with pytest.raises(ValueError, match="a delay of"):
        requeue_delay(delay)
