from __future__ import annotations

import math

import numpy as np
import pytest

from penstock.admin.verdicts.trend import Steady, slopes


def test_rates_are_steady() -> None:
    steady, seen = Steady(), []
    for number, rate in enumerate((0, 0, 100, 0, 0, 0, 0)):
        steady.take(10.0 * number, np.array([[float(rate)]]), np.ones(1, bool))
        seen.append(steady.rates[0, 0])
    assert seen[1] == 0
    assert 20 < seen[2] < 40
    assert seen[2:] == sorted(seen[2:], reverse=True)


def test_what_is_new_or_was_away_has_no_past() -> None:
    steady, both = Steady(), np.ones(2, bool)
    steady.take(0.0, np.array([[9.0]]), np.ones(1, bool))
    assert np.isnan(steady.rates[0, 0])  # a rate takes two looks
    steady.take(10.0, np.array([[9.0, 0.0]]), both)
    assert steady.rates[0].tolist() == pytest.approx([9, math.nan], nan_ok=True)
    steady.take(20.0, np.array([[np.nan, 5.0]]), both)
    assert steady.rates[0].tolist() == pytest.approx([math.nan, 5], nan_ok=True)
    steady.take(30.0, np.array([[1.0, 7.0]]), np.array([True, False]))
    assert np.isnan(steady.rates[0]).all()
    steady.take(40.0, np.array([[1.0, 7.0]]), both)
    assert steady.rates[0].tolist() == [1, 7]


def test_a_clock_that_is_set_back_costs_no_look() -> None:
    steady, one = Steady(), np.ones(1, bool)
    for time in (1e6, 1e6 + 10, 10.0, 20.0):
        steady.take(time, np.array([[9.0]]), one)
    assert steady.rates[0, 0] == 9


@pytest.mark.parametrize(
    ("times", "lags", "slope"),
    [
        ([0, 10, 20, 30], [100, 120, 140, 160], 2),
        ([0, 10, 20, 30], [60, 50, 40, 30], -1),
        ([0, 10, 20, 30], [5, 5, 5, 5], 0),
        ([0, 10, 20, 30], [100, math.nan, 140, 160], 2),
        ([0, 10], [100, 120], math.nan),
        ([0, 1, 2], [100, 120, 90], math.nan),
        ([], [], math.nan),
        ([*range(0, 60, 5)], [0, 100, 200] * 4, 0),
    ],
    ids=["grows", "shrinks", "level", "gap", "two", "short", "none", "batches"],
)
def test_slopes(times: list[float], lags: list[float], slope: float) -> None:
    found = slopes(np.array(times, float), np.array(lags, float).reshape(-1, 1))
    assert found.tolist() == pytest.approx([slope], nan_ok=True)


def test_a_group_that_commits_once_a_minute_does_not_turn_with_each_commit() -> None:
    """It reads all that comes: between commits its lag grows by 100 a second."""
    times = np.arange(0, 300, 10.0)
    for shift in range(0, 60, 10):
        lags = ((times + shift) % 60) * 100
        assert slopes(times, lags[:, None])[0] == 0
