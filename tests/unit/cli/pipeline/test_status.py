"""Pipelines of a folder and how they run; the lock that tells one that was killed."""

from __future__ import annotations

import fcntl
import json
import os
import re
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from penstock.cli.pipeline import status
from penstock.cli.pipeline.listing import run_list, run_status
from penstock.cli.pipeline.status import InUseError, StatusFile
from penstock.core.errors import PenstockError
from penstock.spark.pipelines.own import local_folder
from penstock.testing.clock import FakeClock
from tests.unit.cli.test_shared import Gone

FILE = """
[source]
topic = "clicks"
nsqd_http_address = "127.0.0.1:4151"
[sink]
format = "parquet"
path = "/lake"
[run]
checkpoint = "{folder}/{name}"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("a", "b"):
        (tmp_path / f"{name}.toml").write_text(FILE.format(folder=tmp_path, name=name))
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'other'\n")
    (tmp_path / "wrong.toml").write_text("[source]\ntopik = 1\n[sink]\n")
    (tmp_path / "far.toml").write_text(FILE.format(folder="s3a://bucket", name="far"))
    return tmp_path


def lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return [line.rstrip() for line in capsys.readouterr().out.splitlines()]


def test_a_list_of_a_folder(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_list([folder], as_json=False)
    heads, *rows = lines(capsys)
    assert heads.split() == ["NAME", "FILE", "SOURCE", "SINK", "TESTS", "STATE"]
    assert [row.split()[0] for row in rows] == ["a", "b", "far", "-"]
    assert rows[0].split()[2:] == ["nsq", "clicks", "parquet", "/lake", "-", "never", "run"]
    assert rows[2].endswith("unknown: its checkpoint is not on this machine")
    assert "did you mean topic?" in rows[3]
    run_list([folder / "a.toml"], as_json=True)
    (line,) = lines(capsys)
    assert json.loads(line)["source"] == "nsq clicks"


def test_how_they_run(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with StatusFile(str(folder / "a")) as running, StatusFile(str(folder / "b")) as failed:
        running.tell(state="running", rows_read=12345, batch_ms=250, at_once=True)
        failed.tell(state="failed", error="disk on fire", at_once=True)
        run_status([folder], as_json=False)
    _, first, second, far, error = lines(capsys)
    assert first.split()[:9] == ["a", "running", "12,345", "-", "-", "-", "-", "-", "250"]
    assert second.split()[:2] == ["b", "failed"]
    assert far.split()[0] == "far"
    assert error == "b: disk on fire"
    run_status([folder / "a.toml"], as_json=True)
    (line,) = lines(capsys)
    told = json.loads(line)
    assert (told["name"], told["state"], told["rows_read"]) == ("a", "killed", 12345)


def test_no_pipelines_no_folder_and_nobody_who_reads(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "empty").mkdir()
    run_list([folder / "empty"], as_json=False)
    assert lines(capsys) == ["no pipelines here: `penstock pipeline init` writes one"]
    with pytest.raises(PenstockError, match="missing is not there"):
        run_status([folder / "missing"], as_json=False)
    with redirect_stdout(Gone()):
        run_list([folder], as_json=True)
        run_status([folder], as_json=True)


def test_it_is_written_once_a_second_and_read_back(tmp_path: Path) -> None:
    clock = FakeClock()
    checkpoint = str(tmp_path / "c")
    assert status.read(checkpoint) is None
    with StatusFile(checkpoint, clock) as file:
        file.tell(state="running", at_once=True)
        file.tell(rows=1)
        file.tell(rows=2)
        told = status.read(checkpoint)
        assert told is not None
        assert (told["state"], told["pid"]) == ("running", os.getpid())
        assert "rows" not in told
        clock.advance(1_000_000_000)
        file.tell(rows=2)  # nothing new, but it was not written yet
        assert (status.read(checkpoint) or {})["rows"] == 2
        file.tell(state="stopped", at_once=True)
    assert (status.read(checkpoint) or {})["state"] == "stopped"


def test_a_second_run_is_refused_while_the_first_lives(tmp_path: Path) -> None:
    said = f"checkpoint {tmp_path} is in use: process {os.getpid()} runs a pipeline with it"
    with StatusFile(str(tmp_path)) as first:
        first.tell(state="running", at_once=True)
        with pytest.raises(InUseError, match=f"^{re.escape(said)}$"), StatusFile(str(tmp_path)):
            pass
    with StatusFile(str(tmp_path)):
        pass


def test_a_look_needs_no_right_to_write_and_is_no_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = Path.open

    def read_only(path: Path, mode: str = "r", **more: Any) -> Any:
        if mode.strip("rb"):
            raise PermissionError(13, "Permission denied")
        return opened(path, mode, **more)

    with StatusFile(str(tmp_path)) as file:
        file.tell(state="running", at_once=True)
        monkeypatch.setattr(Path, "open", read_only)
        assert (status.read(str(tmp_path)) or {})["state"] == "running"
    with opened(tmp_path / "penstock.lock", "rb") as other:
        fcntl.flock(other, fcntl.LOCK_SH)
        assert (status.read(str(tmp_path)) or {})["state"] == "killed"


def test_what_cannot_be_read_or_written(tmp_path: Path) -> None:
    with StatusFile("s3a://bucket/c") as elsewhere:
        elsewhere.tell(state="running", at_once=True)
    assert status.read("s3a://bucket/c") is None
    assert local_folder(f"file://{tmp_path}") == tmp_path
    for content in ("{half", "[]"):
        (tmp_path / "penstock.status.json").write_text(content)
        assert status.read(str(tmp_path)) is None
    file = tmp_path / "file"
    file.write_text("")
    refused = pytest.raises(PenstockError, match=f"checkpoint {file}: File exists")
    with refused, StatusFile(str(file)):
        pass
