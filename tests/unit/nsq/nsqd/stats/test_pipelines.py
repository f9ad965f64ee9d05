"""The table of pipelines that a node keeps."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from penstock.core.units import HOUR, SECOND
from penstock.log_api.pipeline_status import PipelineStatus
from penstock.nsq.nsqd.stats import pipelines
from penstock.nsq.nsqd.stats.pipelines import GroupsHere, Pipelines
from penstock.testing.clock import FakeClock


def status(id: str = "q", state: Any = "running", **more: Any) -> PipelineStatus:
    return PipelineStatus(id, id, state, **more)


def table(clock: FakeClock, **lags: int) -> Pipelines:
    """A node with these topics, each of which has the group g with this lag."""
    topics: Any = {name: SimpleNamespace(groups={"g": 0}, lag=lag) for name, lag in lags.items()}
    found: Any = SimpleNamespace(lag=lambda topic, group: topic.lag if group == "g" else None)
    return Pipelines(clock, GroupsHere(topics, found))


def test_the_newest_counts_and_grows_old() -> None:
    clock = FakeClock()
    found = table(clock)
    found.told(status(rows_read=1))
    found.told(status(rows_read=5))
    clock.advance(7 * SECOND)
    (kept,) = found.all()
    assert (kept.rows_read, kept.age) == (5, 7)


def test_the_lag_is_that_of_groups_on_this_node_as_it_is_now() -> None:
    found = table(FakeClock(), t=7, u=30)
    found.told(status("here", lag=1, groups=[("t", "g"), ("u", "g"), ("elsewhere", "g")]))
    found.told(status("there", lag=2, groups=[("elsewhere", "g")]))
    assert [(each.lag, each.lag_is_here) for each in found.all()] == [(37, True), (2, False)]


def test_a_pipeline_without_a_batch_has_the_lag_of_the_group_that_it_will_have() -> None:
    found = table(FakeClock(), t=24_540, u=7)
    found.told(status("one", groups=[("t", "g")]))
    found.told(status("any", groups=[("*", "g")]))
    found.told(status("other", groups=[("*", "h"), ("t", "h")]))
    one, any_topic, other = found.all()
    assert (one.batch, one.lag, one.lag_is_here) == (-1, 24_540, True)
    assert (any_topic.lag, any_topic.groups) == (24_547, [("t", "g"), ("u", "g")])
    assert (other.lag, other.lag_is_here) == (0, False)


def test_a_run_that_begins_again_is_counted_and_has_the_groups_of_the_one_before() -> None:
    found = table(FakeClock(), t=7)
    for started in (100.5, 100.5, 200.5):
        found.told(status(started=started, groups=[("t", "g")]))
    assert found.all()[0].restarts == 1
    found.told(status(started=300.5))
    (kept,) = found.all()
    assert (kept.restarts, kept.batch, kept.lag, kept.groups) == (2, -1, 7, [("t", "g")])


def test_the_last_error_outlives_the_next_run() -> None:
    clock = FakeClock()
    found = table(clock)
    found.told(status(state="failed", error="disk is full"))
    failed_at = found.all()[0].error_at
    assert failed_at == round(clock.wall_ns() / SECOND, 3)
    clock.advance(60 * SECOND)
    for state in ("running", "stopped"):
        found.told(status(state=state))
        (kept,) = found.all()
        assert (kept.state, kept.error, kept.error_at) == (state, "disk is full", failed_at)
    found.told(status(state="failed", error="no node"))
    assert (found.all()[0].error, found.all()[0].error_at) == ("no node", failed_at + 60)


def test_silent_ones_are_forgotten_after_a_day() -> None:
    clock = FakeClock()
    found = table(clock)
    found.told(status("old"))
    found.told(status("alive"))
    clock.advance(20 * HOUR)
    found.told(status("alive"))
    clock.advance(5 * HOUR)
    assert [each.id for each in found.all()] == ["alive"]


def test_their_number_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipelines, "PIPELINES_MAX", 2)
    found = table(FakeClock())
    for id in ("a", "b", "a", "c"):
        found.told(status(id))
    assert [each.id for each in found.all()] == ["a", "c"]
