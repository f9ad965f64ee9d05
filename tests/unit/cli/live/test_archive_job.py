"""The Spark child of ``demo`` and ``up`` with a stand-in for Spark: what it keeps to itself.

tests/spark has it over a real one.
"""

from __future__ import annotations

import io
import json
import signal
import sys
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from penstock.cli.live import archive_file, archive_job
from penstock.cli.pipeline import status
from penstock.cli.pipeline.status import StatusFile
from penstock.core.errors import PenstockError
from penstock.spark import compaction
from penstock.spark.errors import SourceError


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


def test_it_has_checkpoint_and_archive_to_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    to, checkpoint = tmp_path / "archive", str(tmp_path / "checkpoint")
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
    monkeypatch.setattr(signal, "signal", lambda *_: None)  # this process keeps its own
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    monkeypatch.setattr(sys, "argv", ["archive_job", str(tmp_path), "127.0.0.1:9"])
    archive_file.write(tmp_path, "*", "127.0.0.1:9")
    with pytest.raises(SystemExit):
        archive_job.main()
    running, refused, last = seen
    assert running["state"] == "running"
    checkpoint_is, archive_is = refused
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
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    held: str,
) -> None:
    other = compaction.held if held == "archive" else lambda path: StatusFile(str(path))
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setattr(sys, "argv", ["archive_job", str(tmp_path), "127.0.0.1:9"])
    archive_file.write(tmp_path, "*", "127.0.0.1:9")
    with other(tmp_path / held), pytest.raises(SystemExit):
        archive_job.main()
    (line,) = capsys.readouterr().out.splitlines()
    assert f"{held} is in use" in json.loads(line)["error"]
