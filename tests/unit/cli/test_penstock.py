"""The command line as a user meets it."""

from __future__ import annotations

import signal

import pytest

from penstock import __version__
from penstock.cli import penstock


def run(*arguments: str) -> int:
    before = signal.getsignal(signal.SIGTERM)
    try:
        with pytest.raises(SystemExit) as ended:
            penstock.main(arguments)
    finally:
        signal.signal(signal.SIGTERM, before)
    return int(ended.value.code or 0)


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--version") == 0
    assert capsys.readouterr().out.strip() == f"penstock {__version__}"


def test_errors_are_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    archive = ["pipeline", "run", "archive", "--topic", "t", "--to", "o", "--checkpoint", "c"]
    assert run(*archive) == 1
    said = capsys.readouterr().err
    assert said.startswith("penstock: say where to read: lookupd_http_address or")
    assert said.count("\n") == 1
