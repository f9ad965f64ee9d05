"""Where a run of a pipeline stands, with a stand-in for Spark's queries."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JNetworkError

from penstock.cli.live.pipeline_run import PipelineRun
from penstock.spark.errors import SourceError
from penstock.spark.pipelines import Pipeline, archive


class Query:
    """As much of Spark's StreamingQuery as a run asks for."""

    def __init__(self, active: bool, error: Exception | None = None) -> None:
        self.isActive = active
        self.error = error
        self.stopped = False
        self.status = {"isTriggerActive": False}
        self.lastProgress: dict[str, Any] | None = None

    def exception(self) -> Exception | None:
        return self.error

    def stop(self) -> None:
        self.stopped = True


def run_with(folder: Path, *queries: Any) -> PipelineRun:
    pipeline = archive.pipeline({"topic": "t"}, str(folder / "to"), str(folder / "checkpoint"))
    run = PipelineRun(pipeline, folder / "log")
    run._queries = list(queries)
    return run


def test_a_run_that_never_started_stops_and_has_no_batches(tmp_path: Path) -> None:
    run = run_with(tmp_path)
    assert run.finished() == []
    assert run.at_rest
    run.stop()


@pytest.mark.parametrize("active", [True, False])
def test_active_as_long_as_a_query(tmp_path: Path, active: bool) -> None:
    queries = [Query(False), Query(active)]
    run = run_with(tmp_path, *queries)
    assert run.keep_active() is active
    run.stop()
    assert all(query.stopped for query in queries)


def test_a_query_that_failed_says_why_while_another_runs(tmp_path: Path) -> None:
    run = run_with(tmp_path, Query(True), Query(False, RuntimeError("disk on fire")))
    with pytest.raises(SourceError, match="disk on fire"):
        _ = run.keep_active()


WALL = (
    "An error occurred while calling o1.start.\n"
    ": org.apache.spark.SparkException: Python worker failed to connect back.\n\tat org.x"
)
SAID = r"^Python worker failed to connect back\.$"


def run_of(folder: Path, monkeypatch: pytest.MonkeyPatch, *starts: Query | Exception) -> Any:
    """A run whose starts give these queries, or fail."""
    left = iter(starts)

    def start(*_: object) -> list[Query]:
        if isinstance(given := next(left), Exception):
            raise given
        return [given]

    monkeypatch.setattr(Pipeline, "start", start)
    run: Any = run_with(folder)
    run._spark = "a session"
    return run


def test_queries_whose_workers_start_too_late_are_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = [Query(False, RuntimeError(WALL)) for _ in range(5)]
    run = run_of(tmp_path, monkeypatch, RuntimeError(WALL), *late)
    run.start_query()
    for each in late[:-1]:
        assert run.keep_active()
        assert each.stopped
    with pytest.raises(SourceError, match=SAID):
        _ = run.keep_active()
    assert not late[-1].stopped
    fails = run_of(tmp_path, monkeypatch, *[RuntimeError(WALL)] * 6)
    with pytest.raises(SourceError, match=SAID):
        fails.start_query()


def test_queries_that_have_done_a_batch_are_not_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = Query(False, RuntimeError(WALL))
    query.lastProgress = {"batchId": 0}
    run = run_of(tmp_path, monkeypatch, query)
    run.start_query()
    with pytest.raises(SourceError, match=SAID):
        _ = run.keep_active()


class Gone:
    """A query, or what follows it, whose Java was killed."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def __getattr__(self, name: str) -> Any:
        raise self._error


@pytest.mark.parametrize("error", [ConnectionRefusedError(111, "refused"), Py4JNetworkError()])
def test_java_that_has_gone_is_said_in_a_sentence(tmp_path: Path, error: Exception) -> None:
    run = run_with(tmp_path, Gone(error))
    follower: Any = Gone(error)
    run._follower = follower
    for step in (lambda: run.keep_active(), run.ask_for_end):
        with pytest.raises(SourceError, match=r"^Spark's process of Java has ended"):
            step()
    run._stop_after = dict.fromkeys(run._queries, 1)
    with pytest.raises(SourceError, match=r"run the same command to go on$"):
        _ = run.at_rest
    assert run.finished() == []
    run.stop()


def test_at_rest_when_the_batch_under_way_is_done(tmp_path: Path) -> None:
    query = Query(True)
    run = run_with(tmp_path, query)
    query.status["isTriggerActive"] = True
    query.lastProgress = {"batchId": 3}
    run.ask_for_end()
    assert not run.at_rest
    query.lastProgress = {"batchId": 4}
    assert run.at_rest
    query.lastProgress = None
    run.ask_for_end()
    assert not run.at_rest
    query.status["isTriggerActive"] = False
    assert run.at_rest


@pytest.mark.parametrize(
    ("triggered", "data", "working"),
    [(True, True, True), (True, False, False), (False, True, False)],
)
def test_working_while_a_batch_has_messages(
    tmp_path: Path, triggered: bool, data: bool, working: bool
) -> None:
    query = Query(True)
    query.status |= {"isTriggerActive": triggered, "isDataAvailable": data}
    assert run_with(tmp_path, Query(False), query).working is working
