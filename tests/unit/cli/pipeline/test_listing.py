"""Pipelines of a folder and how they run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from penstock.cli.pipeline.listing import run_list, run_status
from penstock.cli.pipeline.status import StatusFile
from penstock.core.errors import PenstockError

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


def test_no_pipelines_and_no_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_list([tmp_path], as_json=False)
    assert lines(capsys) == ["no pipelines here: `penstock pipeline init` writes one"]
    with pytest.raises(PenstockError, match="missing is not there"):
        run_status([tmp_path / "missing"], as_json=False)
