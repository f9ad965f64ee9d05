"""Standard output of which nobody reads any more."""

from __future__ import annotations

import io
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from penstock.cli.backup import run_list as list_backups
from penstock.cli.flags.help_flags import run_help_flags
from penstock.cli.pipeline.listing import run_list, run_status
from penstock.cli.shared.pipes import quiet_pipe
from penstock.storage.backup import manifest
from tests.unit.cli.pipeline.test_listing import folder

__all__ = ["folder"]


class Gone(io.StringIO):
    """Its reader has had enough."""

    def write(self, text: str) -> int:
        raise BrokenPipeError


def test_whoever_writes_ends_quietly() -> None:
    steps = []
    with redirect_stdout(Gone()), quiet_pipe():
        steps.append("before")
        print("x")
        steps.append("after")
    assert steps == ["before"]


def test_flags_and_pipelines(folder: Path) -> None:
    with redirect_stdout(Gone()):
        run_help_flags(["nsqd", "retention"])
        run_list([folder], as_json=True)
        run_status([folder], as_json=True)


def test_backups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest, "moments", lambda disk, folder: ["20260101T000000Z"])
    monkeypatch.setattr(manifest, "load", lambda *_: manifest.Manifest("/data", 0))
    with redirect_stdout(Gone()):
        list_backups(Path("/backups"))
