"""``penstock pipeline`` runs, over a stand-in for Spark: progress, errors, the end, statuses."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock.cli.pipeline import run_command as run_module
from penstock.cli.pipeline import status
from penstock.cli.pipeline.run_command import (
    last_line,
    query_trigger,
    run_pipeline,
    title,
    wait_while,
)
from penstock.core.errors import PenstockError
from penstock.core.units import SECOND
from penstock.spark.pipelines import archive
from penstock.spark.pipelines.pipeline import Pipeline
from penstock.spark.read.progress import BatchDone
from penstock.testing.clock import FakeClock
from tools.harness.fake_log_server import FakeLogServer
from tools.harness.processes import unread


def test_triggers() -> None:
    assert query_trigger("--every", True, "1s") == {"availableNow": True}
    assert query_trigger("--every", False, None) is None
    assert query_trigger("--every", False, "1m30s") == {"processingTime": "90000 milliseconds"}
    with pytest.raises(PenstockError, match=r"--every soon: give a duration"):
        query_trigger("--every", False, "soon")
    with pytest.raises(PenstockError, match=r"--every -1s: a time between batches is 0 or more"):
        query_trigger("--every", False, "-1s")


def test_a_blocking_step_lets_the_display_tick_and_its_error_is_raised() -> None:
    ticks: list[int] = []
    wait_while(lambda: time.sleep(0.3), lambda: ticks.append(1))
    assert ticks

    def fail() -> None:
        raise PenstockError("no Java")

    with pytest.raises(PenstockError, match="no Java"):
        wait_while(fail, lambda: None)


def pipeline(server: FakeLogServer, folder: Path) -> Pipeline:
    server.queue("t").append([b"x"] * 7)
    source = {"topic": "t", "timeout": "30", "nsqd_http_address": server.address}
    return archive.pipeline(source, str(folder / "lake"), str(folder / "c"))


def test_the_first_look_leaves_nodes_that_have_left_to_a_query_that_has_read(
    tmp_path: Path,
) -> None:
    with FakeLogServer() as lookupd:
        source = {"topic": "t", "lookupd_http_address": lookupd.address}
        spec = archive.pipeline(source, str(tmp_path / "lake"), str(tmp_path / "c")).spec
        with pytest.raises(PenstockError, match="no node with topic t is known to nsqlookupd"):
            run_module._look(spec, str)
        (tmp_path / "c" / "offsets").mkdir(parents=True)
        run_module._look(spec, str)


def test_the_title_and_the_last_line(tmp_path: Path) -> None:
    source = {"topic": "a,b", "nsqd_http_address": "h:1"}
    spec = archive.pipeline(source, "lake", "c").spec
    assert title(spec) == "archive · nsq a,b → parquet lake"
    assert last_line(spec, 1234, 1200, False) == "1,234 rows read, 1,200 written to parquet lake"
    assert last_line(spec, 0, 0, False) == "nothing new to read"
    assert last_line(spec, 0, 0, True) == "nothing read in this run"


class FakeRun:
    """A run without Spark: one batch, then what ``after`` says."""

    def __init__(self, after: Callable[[], bool], rows: int = 7) -> None:
        self.after = after
        self.batches = [BatchDone(0, rows, 10, 0, {}, rows, 2, 5, 1_500_000)] if rows else []
        self.ending = self.stopped = self.working = False

    def start_session(self) -> None:
        pass

    def start_query(self) -> None:
        pass

    def finished(self) -> list[BatchDone]:
        batches, self.batches = self.batches, []
        return batches

    def keep_active(self) -> bool:
        return self.after()

    def ask_for_end(self) -> None:
        self.ending = True

    @property
    def at_rest(self) -> bool:
        # A batch was under way, and it is finished before the end.
        self.batches.append(BatchDone(1, 3, 10, 0, {}, 3))
        return self.ending

    def stop(self) -> None:
        self.stopped = True


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[FakeRun], None]:
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    monkeypatch.setattr(run_module, "_PREFLIGHT_TIMEOUT_S", 60)

    def start(run: FakeRun) -> None:
        monkeypatch.setattr(run_module, "PipelineRun", lambda *_: run)
        with FakeLogServer() as server:
            run_pipeline(pipeline(server, tmp_path), words=lambda said: said.upper())

    return start


def told(folder: Path) -> dict[str, Any]:
    return status.read(str(folder / "c")) or {}


def test_a_run_with_nothing_new(
    start: Callable[[FakeRun], None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    start(FakeRun(lambda: False, rows=0))
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "nothing new to read"
    assert any("waiting for messages" in line for line in lines)
    assert list((tmp_path / "tmp").iterdir()) == []
    assert told(tmp_path)["state"] == "stopped"


def test_a_run_shows_its_batches(
    start: Callable[[FakeRun], None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    start(FakeRun(lambda: False))
    out = capsys.readouterr().out
    assert "read 7" in out
    assert "state 5 rows, 1.5 MB, did not parse 2" in out
    assert out.splitlines()[-1] == f"7 rows read, 7 written to parquet {tmp_path / 'lake'}"
    found = told(tmp_path)
    assert (found["rows_read"], found["rows_written"], found["rows_bad"]) == (7, 7, 2)
    assert (found["batch"], found["batch_ms"], found["state_rows"], found["pid"]) == (
        0, 10, 5, os.getpid(),
    )  # fmt: skip


def test_a_batch_that_takes_long_is_said(
    start: Callable[[FakeRun], None], capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    clock = FakeClock()
    monkeypatch.setattr(run_module, "SYSTEM_CLOCK", clock)
    monkeypatch.setattr(run_module, "_LOOK_EVERY_TICKS", 1)
    monkeypatch.setattr(run_module, "_TICK_S", 0)
    left = iter([True] * 4)

    def active() -> bool:
        clock.advance(7 * SECOND)
        return next(left, False)

    run = FakeRun(active, rows=0)
    run.working = True
    start(run)
    said = re.findall(r"under way for (\d+) s", capsys.readouterr().out)
    assert said == ["10", "20"]


def test_a_run_that_fails_says_how_far_it_got_and_keeps_its_log(
    start: Callable[[FakeRun], None], tmp_path: Path
) -> None:
    def fail() -> bool:
        raise PenstockError("gone")

    with pytest.raises(PenstockError) as failed:
        start(FakeRun(fail))
    assert str(failed.value) == "GONE (7 rows read, 7 written in this run)"
    assert len(list((tmp_path / "tmp").iterdir())) == 1
    assert (told(tmp_path)["state"], told(tmp_path)["error"]) == ("failed", str(failed.value))


def test_sigterm_ends_a_run_after_the_batch_under_way(
    start: Callable[[FakeRun], None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def active() -> bool:
        os.kill(os.getpid(), signal.SIGTERM)
        return True

    run = FakeRun(active)
    start(run)
    assert run.stopped
    out = capsys.readouterr().out
    assert "ending after this batch" in out
    assert "10 rows read, 10 written" in out.splitlines()[-1]
    assert told(tmp_path)["state"] == "stopped"


def test_two_runs_with_one_checkpoint_are_refused(
    start: Callable[[FakeRun], None], tmp_path: Path
) -> None:
    def start_another() -> bool:
        start(FakeRun(lambda: False))
        return False

    with pytest.raises(PenstockError) as refused:
        start(FakeRun(start_another))
    assert str(refused.value).startswith(
        f"CHECKPOINT {tmp_path}/C IS IN USE: PROCESS {os.getpid()} RUNS A PIPELINE WITH IT".upper()
    )


_SPARK = """
from contextlib import nullcontext
from unittest.mock import Mock
from penstock.cli.pipeline import sql

spark = Mock()
spark.sql.return_value.show = lambda *_, **__: print("row" * 100_000)
sql.local_spark = lambda: nullcontext(spark)
sql._topics = lambda nodes: []
sql.run_sql({}, "select 1", 5)
"""


def test_it_ends_quietly_when_nobody_reads_on() -> None:
    assert unread([sys.executable, "-c", _SPARK]) == (0, "")


def test_a_run_that_was_killed_is_told_from_one_that_runs(tmp_path: Path) -> None:
    code = (
        "import os, sys; from penstock.cli.pipeline.status import StatusFile\n"
        "with StatusFile(sys.argv[1]) as file:\n"
        "    file.tell(state='running', at_once=True); os._exit(9)"
    )
    assert subprocess.run([sys.executable, "-c", code, tmp_path]).returncode == 9
    assert (status.read(str(tmp_path)) or {})["state"] == "killed"
