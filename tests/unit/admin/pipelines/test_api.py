from __future__ import annotations

from typing import Any

from penstock.admin.pipelines.api import SILENT_S, NodePipelines, whole_pipelines
from penstock.nsq.pipeline_status import ToldStatus


def told(*statuses: ToldStatus) -> NodePipelines:
    return NodePipelines(list(statuses))


def status(id: str = "q", name: str = "n", state: Any = "running", **more: Any) -> ToldStatus:
    return ToldStatus(id, name, state, **{"batch": 0, **more})


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
