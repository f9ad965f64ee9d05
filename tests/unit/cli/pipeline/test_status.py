"""The status of a run, and the lock that tells a run that was killed from one that runs."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import Any

import pytest

from penstock.cli.pipeline import status
from penstock.cli.pipeline.status import InUseError, StatusFile
from penstock.core.errors import PenstockError
from penstock.spark.pipelines.own import local_folder
from penstock.testing.clock import FakeClock


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
    with StatusFile(str(tmp_path)) as first:
        first.tell(state="running", at_once=True)
        with pytest.raises(InUseError) as refused, StatusFile(str(tmp_path)):
            pass
        assert str(refused.value) == (
            f"checkpoint {tmp_path} is in use: process {os.getpid()} runs a pipeline with it"
        )
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


def test_a_checkpoint_elsewhere_has_none(tmp_path: Path) -> None:
    with StatusFile("s3a://bucket/c") as file:
        file.tell(state="running", at_once=True)
    assert status.read("s3a://bucket/c") is None
    assert local_folder(f"file://{tmp_path}") == tmp_path


def test_what_cannot_be_read_or_written(tmp_path: Path) -> None:
    (tmp_path / "penstock.status.json").write_text("{half")
    assert status.read(str(tmp_path)) is None
    (tmp_path / "penstock.status.json").write_text("[]")
    assert status.read(str(tmp_path)) is None
    file = tmp_path / "file"
    file.write_text("")
    with (
        pytest.raises(PenstockError, match=f"checkpoint {file}: File exists"),
        StatusFile(str(file)),
    ):
        pass
