"""Standard output of which nobody reads any more."""

from __future__ import annotations

import errno
import io
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from penstock.cli.backup import run_list as list_backups
from penstock.cli.flags.help_flags import run_help_flags
from penstock.cli.live.display import Board, PlainDisplay
from penstock.cli.pipeline.listing import run_list, run_status
from penstock.cli.shared.pipes import quiet_pipe, spell_out
from penstock.core.errors import PenstockError
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


def test_a_full_disk_is_an_error_and_any_other_is_not_hidden() -> None:
    full = "^standard output takes no more: no space left on device$"
    with pytest.raises(PenstockError, match=full), quiet_pipe():
        raise OSError(errno.ENOSPC, "No space left on device")
    with pytest.raises(FileNotFoundError), quiet_pipe():
        raise FileNotFoundError(errno.ENOENT, "of something else")


def test_a_terminal_without_the_characters_gets_escapes() -> None:
    written = io.BytesIO()
    out = io.TextIOWrapper(written, encoding="latin-1")
    with redirect_stdout(out):
        spell_out()
        print("\u25cf f\u00fcr", flush=True)
    assert written.getvalue() == b"\\u25cf f\xfcr\n"


def test_flags_and_pipelines(folder: Path) -> None:
    with redirect_stdout(Gone()):
        run_help_flags(["nsqd", "retention"])
        run_list([folder], as_json=True)
        run_status([folder], as_json=True)


def test_the_lines_of_services_that_go_on() -> None:
    with redirect_stdout(Gone()) as gone:
        display = PlainDisplay(Board("up"), gone)
        display.note("publish to 127.0.0.1:4150")
        display.close()


def test_backups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest, "moments", lambda disk, folder: ["20260101T000000Z"])
    monkeypatch.setattr(manifest, "load", lambda *_: manifest.Manifest("/data", 0))
    with redirect_stdout(Gone()):
        list_backups(Path("/backups"))
