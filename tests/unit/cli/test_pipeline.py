"""Flags of ``penstock pipeline run`` and waiting with a live display."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import pytest

from penstock.cli import pipeline
from penstock.cli.pipeline import (
    in_flags,
    last_line,
    query_trigger,
    run_archive,
    seconds,
    wait_while,
)
from penstock.core.errors import PenstockError
from penstock.spark.progress import BatchDone
from tests.spark.fake_log_server import FakeLogServer


def test_triggers() -> None:
    assert query_trigger(True, "1s") == {"availableNow": True}
    assert query_trigger(False, "1m30s") == {"processingTime": "90000 milliseconds"}
    with pytest.raises(PenstockError, match=r"--trigger: .*duration"):
        query_trigger(False, "soon")


def test_timeouts_are_whole_seconds() -> None:
    assert seconds("--timeout", "10s") == "10"
    assert seconds("--timeout", "10ms") == "1"


def test_a_blocking_step_lets_the_display_tick() -> None:
    ticks: list[int] = []
    wait_while(lambda: time.sleep(0.3), lambda: ticks.append(1))
    assert ticks


def test_the_error_of_a_step_is_raised_here() -> None:
    def fail() -> None:
        raise PenstockError("no Java")

    with pytest.raises(PenstockError, match="no Java"):
        wait_while(fail, lambda: None)


def test_errors_use_the_words_of_the_flags(tmp_path: Path) -> None:
    def refuse(**source: str) -> str:
        given = {"topic": "t", "timeout": "1", **source}
        with pytest.raises(PenstockError) as refused:
            run_archive(given, tmp_path, tmp_path, available_now=True, every="1s")
        return str(refused.value)

    assert refuse().startswith("say where to read: --lookupd-http-address or --nsqd-http-address")
    assert refuse(nsqd_http_address="nohost").startswith("--nsqd-http-address must be host:port")
    assert refuse(topic="").startswith("--topic is missing")
    # Spark was not started yet, and this first look has a timeout of its own.
    assert refuse(nsqd_http_address="127.0.0.1:9") == (
        "node 127.0.0.1:9 cannot be reached for topic t: connection refused (tried for 1 s); "
        "start it and run the same command to go on"
    )
    assert in_flags("tried for 10 s; option timeout") == "tried for 10 s; --timeout"


def test_the_last_line_says_what_came_of_it() -> None:
    assert last_line(1234, Path("lake"), False) == (
        "1,234 messages archived in this run; they are in lake"
    )
    assert last_line(0, Path("lake"), False) == "nothing new to archive"
    assert last_line(0, Path("lake"), True) == "no messages archived in this run"


class FakeRun:
    """An archive run without Spark."""

    def __init__(self, *_: object, failure: str = "") -> None:
        self.failure = failure
        self.batches = [BatchDone(0, 7, 10, 0, {})] if failure else []

    def start_session(self) -> None:
        pass

    def start_query(self) -> None:
        pass

    def finished(self) -> list[BatchDone]:
        batches, self.batches = self.batches, []
        return batches

    @property
    def active(self) -> bool:
        if self.failure:
            raise PenstockError(self.failure)
        return False

    def stop(self) -> None:
        pass


def test_a_run_with_nothing_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run_fake(monkeypatch, tmp_path, FakeRun())
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "nothing new to archive"
    assert any("waiting for messages" in line for line in lines)
    assert list((tmp_path / "tmp").iterdir()) == []


def test_a_run_that_fails_says_how_far_it_got_and_keeps_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(PenstockError) as failed:
        run_fake(monkeypatch, tmp_path, FakeRun(failure="gone (option timeout)"))
    assert str(failed.value) == "gone (--timeout) (7 messages archived in this run)"
    assert len(list((tmp_path / "tmp").iterdir())) == 1


def run_fake(monkeypatch: pytest.MonkeyPatch, folder: Path, run: FakeRun) -> None:
    (folder / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder / "tmp"))
    monkeypatch.setattr(pipeline, "ArchiveRun", lambda *_: run)
    with FakeLogServer() as server:
        server.queue("t")
        source = {"topic": "t", "timeout": "30", "nsqd_http_address": server.address}
        run_archive(source, folder / "lake", folder / "c", available_now=True, every="1s")
