from __future__ import annotations

from typing import Any

import pytest

from penstock.admin.pipelines import past
from penstock.admin.pipelines.past import FIGURES, HOUR_S, Past


def figures(id: str, **given: Any) -> dict[str, Any]:
    return {"id": id, "batch": 0, **dict.fromkeys(FIGURES, 0), **given}


def test_a_point_for_each_look() -> None:
    kept = Past(10)
    kept.take(100, [figures("a", read_per_s=5, lag=1), figures("b")])
    kept.take(110, [figures("a", read_per_s=7, lag=2)])
    series = kept.series("a")
    assert (series["times"], series["read_per_s"], series["lag"]) == ([100, 110], [5, 7], [1, 2])
    assert kept.series("b")["times"] == [100]
    assert kept.series("none") == {"times": [], **{figure: [] for figure in FIGURES}}


def test_before_the_first_batch_there_is_no_batch_time_and_perhaps_no_lag() -> None:
    kept = Past(10)
    kept.take(100, [figures("a", batch=-1, lag=None)])
    kept.take(110, [figures("a", batch=-1, lag=24_540)])
    kept.take(120, [figures("a", batch_ms=40, lag=24_000)])
    series = kept.series("a")
    assert series["batch_ms"] == [None, None, 40]
    assert series["lag"] == [None, 24_540, 24_000]


def test_an_hour_is_kept_and_what_was_away_for_one_is_forgotten() -> None:
    kept = Past(600)
    for look in range(8):
        kept.take(600 * look, [figures("a"), *([figures("b")] if look == 0 else [])])
    assert kept.series("a")["times"] == [600.0 * look for look in range(2, 8)]
    assert kept.series("b")["times"] == []
    assert HOUR_S == 3600


def test_a_clock_that_is_set_back_leaves_no_points_of_other_times() -> None:
    kept = Past(10)
    kept.take(9000, [figures("a"), figures("b")])
    kept.take(9010, [figures("a")])
    for time in (5000, 5010):
        kept.take(time, [figures("a")])
    assert kept.series("a")["times"] == [5000, 5010]
    assert kept.series("b")["times"] == []


def test_a_trend_has_few_points() -> None:
    kept = Past(5)
    for look in range(130):
        kept.take(look, [figures("a", read_per_s=look)])
    trend = kept.trend("a")
    assert len(trend) <= 60
    assert (trend[0], trend[-1]) == (1, 129)
    assert kept.trend("none") == []


def test_their_number_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(past, "PIPELINES_MAX", 1)
    kept = Past(10)
    kept.take(0, [figures("a"), figures("b")])
    assert (len(kept.trend("a")), len(kept.trend("b"))) == (1, 0)
