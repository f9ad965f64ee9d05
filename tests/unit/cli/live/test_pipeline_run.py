"""Where a run of a pipeline stands, with a stand-in for Spark's queries."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock.cli.live.pipeline_run import PipelineRun
from penstock.spark.errors import SourceError
from penstock.spark.pipelines import archive


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
    assert run.active is active
    run.stop()
    assert all(query.stopped for query in queries)


def test_a_query_that_failed_says_why_while_another_runs(tmp_path: Path) -> None:
    run = run_with(tmp_path, Query(True), Query(False, RuntimeError("disk on fire")))
    with pytest.raises(SourceError, match="disk on fire"):
        _ = run.active


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
