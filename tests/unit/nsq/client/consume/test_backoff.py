"""Slowing down and coming back."""

from __future__ import annotations

import pytest

from penstock.core.chance import SystemChance
from penstock.core.units import SECOND
from penstock.nsq.client.config import Config
from penstock.nsq.client.consume.backoff import Backoff, Step


def backoff(**options: object) -> Backoff:
    return Backoff(Config(**options), SystemChance(1))  # type: ignore[arg-type]


def fail(state: Backoff, times: int, now: int = 0) -> int:
    """So many failures in a row, each after the period of the one before; when it is by then."""
    for _ in range(times):
        assert state.failed(now) is Step.PAUSE
        assert state.until is not None
        now = state.until
        assert state.is_due(now)
        state.test_the_waters()
    return now


@pytest.mark.parametrize(("level", "seconds"), [(0, 1), (1, 2), (3, 8), (5, 32)])
def test_exponential(level: int, seconds: int) -> None:
    assert backoff().length(level) == seconds * SECOND


@pytest.mark.parametrize(("level", "seconds"), [(0, 1), (1, 2), (3, 8), (5, 32)])
def test_full_jitter_is_anything_up_to_that(level: int, seconds: int) -> None:
    state = backoff(backoff_strategy="full_jitter")
    lengths = [state.length(level) for _ in range(200)]
    assert 0 <= min(lengths) < max(lengths) < seconds * SECOND
    assert max(lengths) > seconds * SECOND * 0.9


def test_a_failure_begins_a_period() -> None:
    state = backoff()
    assert not state.is_on
    assert state.failed(100) is Step.PAUSE
    assert (state.level, state.period, state.until) == (1, 2 * SECOND, 100 + 2 * SECOND)
    assert not state.is_due(99 + 2 * SECOND)
    assert state.is_due(100 + 2 * SECOND)


def test_outcomes_in_a_period_do_not_count() -> None:
    state = backoff()
    state.failed(0)
    for outcome in (state.failed, state.succeeded, state.continued):
        assert outcome(1) is Step.NONE
    assert (state.level, state.until) == (1, 2 * SECOND)


def test_success_steps_back_until_all_is_well() -> None:
    state = backoff()
    now = fail(state, 3)
    assert state.level == 3
    for level in (2, 1):
        assert state.succeeded(now) is Step.PAUSE
        assert state.level == level
        assert state.period == (SECOND << level)
        now += state.period
        state.test_the_waters()
    assert state.succeeded(now) is Step.RESUME
    assert not state.is_on
    assert state.succeeded(now) is Step.NONE


def test_the_level_ends_where_the_period_would_be_too_long() -> None:
    state = backoff(max_backoff_duration=10)
    fail(state, 7)
    assert (state.level, state.period) == (3, 8 * SECOND)


def test_without_backoff() -> None:
    state = backoff(max_backoff_duration=0)
    assert state.failed(0) is Step.NONE
    assert not state.is_on


def test_a_first_period_that_would_be_too_long() -> None:
    state = backoff(max_backoff_duration=1)
    assert state.failed(0) is Step.NONE
    assert not state.is_on


def test_requeued_for_another_reason() -> None:
    state = backoff()
    assert state.continued(0) is Step.NONE
    now = fail(state, 1)
    assert state.continued(now) is Step.PAUSE
    assert (state.level, state.until) == (1, now + 2 * SECOND)


def test_nobody_to_test_the_waters_with() -> None:
    state = backoff()
    state.failed(0)
    state.wait_on(5 * SECOND)
    assert state.until == 6 * SECOND
