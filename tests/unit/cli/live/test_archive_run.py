"""Where a run of the archive stands, with a stand-in for Spark's query."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock.cli.live.archive_run import ArchiveRun
from penstock.spark.errors import SourceError


class Query:
    """As much of Spark's StreamingQuery as a run asks for."""

    def __init__(self, active: bool, error: Exception | None = None) -> None:
        self.isActive = active
        self.error = error
        self.stopped = False

    def exception(self) -> Exception | None:
        return self.error

    def stop(self) -> None:
        self.stopped = True


def run_with(folder: Path, query: Any) -> ArchiveRun:
    run = ArchiveRun({"topic": "t"}, folder / "to", folder / "checkpoint", folder / "log")
    run._query = query
    return run


def test_a_run_that_never_started_stops_and_has_no_batches(tmp_path: Path) -> None:
    run = run_with(tmp_path, None)
    assert run.finished() == []
    run.stop()


@pytest.mark.parametrize("active", [True, False])
def test_active_as_long_as_the_query(tmp_path: Path, active: bool) -> None:
    query = Query(active)
    run = run_with(tmp_path, query)
    assert run.active is active
    run.stop()
    assert query.stopped


def test_a_query_that_failed_says_why(tmp_path: Path) -> None:
    run = run_with(tmp_path, Query(False, RuntimeError("disk on fire")))
    with pytest.raises(SourceError, match="disk on fire"):
        _ = run.active
