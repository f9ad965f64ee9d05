"""What nsqadmin makes of pipelines of which nodes tell: one status of each, and an hour of it."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.admin.pipelines import pipelines_api
from penstock.admin.pipelines.pipelines_api import (
    FIGURES,
    HOUR_S,
    SILENT_S,
    NodePipelines,
    PipelineHistory,
    whole_pipelines,
)
from penstock.log_api.pipeline_status import ReportedStatus


def figures(id: str, **given: Any) -> dict[str, Any]:
    return {"id": id, "batch": 0, **dict.fromkeys(FIGURES, 0), **given}


def test_a_point_for_each_look() -> None:
    kept = PipelineHistory(10)
    kept.take(100, [figures("a", read_per_s=5, lag=1), figures("b")])
    kept.take(110, [figures("a", read_per_s=7, lag=2)])
    series = kept.series("a")
    assert (series["times"], series["read_per_s"], series["lag"]) == ([100, 110], [5, 7], [1, 2])
    assert kept.series("b")["times"] == [100]
    assert kept.series("none") == {"times": [], **{figure: [] for figure in FIGURES}}


def test_before_the_first_batch_there_is_no_batch_time_and_perhaps_no_lag() -> None:
    kept = PipelineHistory(10)
    kept.take(100, [figures("a", batch=-1, lag=None)])
    kept.take(110, [figures("a", batch=-1, lag=24_540)])
    kept.take(120, [figures("a", batch_ms=40, lag=24_000)])
    series = kept.series("a")
    assert series["batch_ms"] == [None, None, 40]
    assert series["lag"] == [None, 24_540, 24_000]


def test_an_hour_is_kept_and_what_was_away_for_one_is_forgotten() -> None:
    kept = PipelineHistory(600)
    for look in range(8):
        kept.take(600 * look, [figures("a"), *([figures("b")] if look == 0 else [])])
    assert kept.series("a")["times"] == [600.0 * look for look in range(2, 8)]
    assert kept.series("b")["times"] == []
    assert HOUR_S == 3600


def test_a_clock_that_is_set_back_leaves_no_points_of_other_times() -> None:
    kept = PipelineHistory(10)
    kept.take(9000, [figures("a"), figures("b")])
    kept.take(9010, [figures("a")])
    for time in (5000, 5010):
        kept.take(time, [figures("a")])
    assert kept.series("a")["times"] == [5000, 5010]
    assert kept.series("b")["times"] == []


def test_a_trend_has_few_points() -> None:
    kept = PipelineHistory(5)
    for look in range(130):
        kept.take(look, [figures("a", read_per_s=look)])
    trend = kept.trend("a")
    assert len(trend) <= 60
    assert (trend[0], trend[-1]) == (1, 129)
    assert kept.trend("none") == []


def test_their_number_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipelines_api, "PIPELINES_MAX", 1)
    kept = PipelineHistory(10)
    kept.take(0, [figures("a"), figures("b")])
    assert (len(kept.trend("a")), len(kept.trend("b"))) == (1, 0)


def told(*statuses: ReportedStatus) -> NodePipelines:
    return NodePipelines(list(statuses))


def status(id: str = "q", name: str = "n", state: Any = "running", **more: Any) -> ReportedStatus:
    return ReportedStatus(id, name, state, **{"batch": 0, **more})


def test_the_newest_of_several_nodes_with_lags_added_up_and_the_last_error() -> None:
    nodes = [
        ("b:1", told(status(age=9, rows_read=1, lag=5, lag_is_here=True, error="old", error_at=5))),
        ("a:1", told(status(age=1, rows_read=2, lag=7, lag_is_here=True))),
        ("c:1", told(status(age=3, lag=100))),
        ("go:1", NodePipelines()),
    ]
    (found,) = whole_pipelines(nodes)
    assert (found["rows_read"], found["lag"], found["age"]) == (2, 12, 1)
    assert (found["error"], found["error_at"]) == ("old", 5)
    assert found["nodes"] == ["a:1", "b:1", "c:1"]
    assert "lag_is_here" not in found


def test_a_lag_that_no_node_knows_is_the_one_that_was_told() -> None:
    (found,) = whole_pipelines([("a:1", told(status(lag=5)))])
    assert found["lag"] == 5


def test_who_runs_and_says_nothing_is_silent() -> None:
    late = SILENT_S + 1
    names = {"a": "running", "b": "stopped"}
    nodes = [("a:1", told(*(status(id, id, state, age=late) for id, state in names.items())))]
    assert [each["state"] for each in whole_pipelines(nodes)] == ["silent", "stopped"]
    (found,) = whole_pipelines([*nodes[:0], ("a:1", told(status(age=SILENT_S)))])
    assert found["state"] == "running"


def test_before_its_first_batch_a_pipeline_is_starting() -> None:
    first = status(batch=-1, lag=0, age=1)
    (found,) = whole_pipelines([("a:1", told(first))])
    assert (found["state"], found["lag"]) == ("starting", None)
    here = status(batch=-1, lag=24_540, lag_is_here=True, age=2)
    (found,) = whole_pipelines([("a:1", told(first)), ("b:1", told(here))])
    assert (found["state"], found["lag"]) == ("starting", 24_540)
    (found,) = whole_pipelines([("a:1", told(status(batch=-1, age=SILENT_S + 1)))])
    assert found["state"] == "silent"


def test_restarts_are_those_of_the_node_that_has_seen_most() -> None:
    parts = [("a:1", told(status(restarts=1, age=1))), ("b:1", told(status(restarts=3, age=2)))]
    (found,) = whole_pipelines(parts)
    assert found["restarts"] == 3


def test_order() -> None:
    found = whole_pipelines([("a:1", told(status("2", "b"), status("3", "a"), status("1", "b")))])
    assert [each["id"] for each in found] == ["3", "1", "2"]
