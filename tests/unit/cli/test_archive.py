"""The pipeline of ``demo`` and ``up``: its file, and its Spark child with a stand-in for Spark.

tests/spark has it over a real one.
"""

from __future__ import annotations

import io
import json
import os
import signal
import sys
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JNetworkError

from penstock.cli.live import archive_file, archive_job
from penstock.cli.live.pipeline_run import PipelineRun
from penstock.cli.pipeline import status
from penstock.cli.pipeline.status import StatusFile
from penstock.core.errors import PenstockError
from penstock.spark import compaction
from penstock.spark.errors import SourceError
from penstock.spark.pipelines import Pipeline, archive
from penstock.spark.pipelines.document import PipelineFileError


def test_it_is_what_init_writes_with_the_run_s_own_places(tmp_path: Path) -> None:
    file = archive_file.write(tmp_path, "flights", "127.0.0.1:5", rows_per_batch=100)
    assert file == tmp_path / "archive.toml"
    spec = archive_file.load(tmp_path, "127.0.0.1:6").spec
    assert spec.name == "archive"
    assert spec.source.options == {
        "topic": "flights", "lookupd_http_address": "127.0.0.1:6", "startingOffsets": "earliest",
        "maxRecordsPerTrigger": "100", "columns": "topic,timestamp,node,queue,offset,id,body",
    }  # fmt: skip
    assert spec.sink.options["path"] == f"{tmp_path}/archive"
    assert spec.sink.partition_by == ("topic", "date", "hour")
    assert (spec.run.every_ms, spec.run.checkpoint) == (500, f"{tmp_path}/checkpoint")
    assert len(spec.tests) == 1
    file.unlink()
    # Without the command's variable it names the last address.
    spec = Pipeline.from_file(archive_file.write(tmp_path, "*", "127.0.0.1:5"), {}).spec
    assert spec.source.options["lookupd_http_address"] == "127.0.0.1:5"
    assert "maxRecordsPerTrigger" not in spec.source.options


def test_an_edited_file_stays(tmp_path: Path) -> None:
    file = archive_file.write(tmp_path, "*", "127.0.0.1:5")
    file.write_text(file.read_text().replace('every = "500ms"', 'every = "1m"'))
    archive_file.write(tmp_path, "*", "127.0.0.1:7")
    assert archive_file.load(tmp_path, "127.0.0.1:7").spec.run.every_ms == 60_000
    file.write_text("[sours]")
    with pytest.raises(PipelineFileError, match=r"archive\.toml:1: .* did you mean source"):
        archive_file.load(tmp_path, "127.0.0.1:7")


def test_folders_with_any_name_that_toml_can_have(tmp_path: Path) -> None:
    folder = tmp_path / 'ö \U0001f680 "#\\'
    folder.mkdir()
    archive_file.write(folder, "*", "127.0.0.1:5")
    assert archive_file.load(folder, "127.0.0.1:5").spec.sink.options["path"] == f"{folder}/archive"
    folder = tmp_path / os.fsdecode(b"\xff")
    folder.mkdir()
    with pytest.raises(PenstockError, match="TOML is UTF-8, which the folder's name is not"):
        archive_file.write(folder, "*", "127.0.0.1:5")
    assert not list(folder.iterdir())
    with pytest.raises(PenstockError, match=r"archive\.toml cannot be written: No such file"):
        archive_file.write(tmp_path / "gone", "*", "127.0.0.1:5")


def in_use(*places: AbstractContextManager[Any]) -> list[str]:
    """The refusals of those that somebody else has."""
    said = []
    for place in places:
        try:
            with place:
                pass
        except PenstockError as error:
            said.append(str(error))
    return said


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a job that is about to start; signals of this process stay its own."""
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    monkeypatch.setattr(sys, "argv", ["archive_job", str(tmp_path), "127.0.0.1:9"])
    archive_file.write(tmp_path, "*", "127.0.0.1:9")
    return tmp_path


def test_it_has_checkpoint_and_archive_to_itself(
    job: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    to, checkpoint = job / "archive", str(job / "checkpoint")
    seen: list[Any] = []

    class Run:
        def __init__(self, *_: object) -> None:
            pass

        def start_session(self) -> None:
            seen.append(status.read(checkpoint))
            seen.append(in_use(StatusFile(checkpoint), compaction.held(to)))
            raise SourceError("no more is wanted")

        def stop(self) -> None:
            seen.append(in_use(compaction.held(to)))

    monkeypatch.setattr(archive_job, "PipelineRun", Run)
    with pytest.raises(SystemExit):
        archive_job.main()
    running, (checkpoint_is, archive_is), last = seen
    assert running["state"] == "running"
    assert "is in use: process" in checkpoint_is
    assert "a pipeline writes to it" in archive_is
    assert last == [archive_is]
    told = status.read(checkpoint)
    assert told is not None
    assert (told["state"], told["error"]) == ("failed", "no more is wanted")
    assert in_use(StatusFile(checkpoint), compaction.held(to)) == []
    assert '"error": "no more is wanted"' in capsys.readouterr().out


@pytest.mark.parametrize("held", ["archive", "checkpoint"])
def test_what_somebody_else_has_is_said_before_spark_starts(
    job: Path, capsys: pytest.CaptureFixture[str], held: str
) -> None:
    other = compaction.held if held == "archive" else lambda path: StatusFile(str(path))
    with other(job / held), pytest.raises(SystemExit):
        archive_job.main()
    (line,) = capsys.readouterr().out.splitlines()
    assert f"{held} is in use" in json.loads(line)["error"]


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


@pytest.mark.parametrize("actives", [[], [False, False], [False, True]])
def test_a_run_is_active_as_long_as_a_query(tmp_path: Path, actives: list[bool]) -> None:
    queries = [Query(active) for active in actives]
    run = run_with(tmp_path, *queries)
    assert run.keep_active() is any(actives)
    if not queries:  # it never started
        assert run.finished() == []
        assert run.at_rest
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
