"""Folders that can be written to, and the one line about those that cannot."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from penstock.cli.live.folder import FolderError, make_folder
from tests.programs.cli.test_penstock import run


def test_a_folder_is_made_with_those_above_it_and_left_empty(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    make_folder(folder, "")
    make_folder(folder, "")
    assert list(folder.iterdir()) == []


def test_a_file_in_the_place_of_a_folder_is_named(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    for folder in (file, file / "inside"):
        with pytest.raises(FolderError) as refused:
            make_folder(folder, "take another")
        said = f"nothing can be written to {folder}: not a directory; take another"
        assert str(refused.value) == said


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is a folder that not even root fills")
def test_a_folder_that_is_there_and_takes_nothing_is_refused() -> None:
    with pytest.raises(FolderError, match=r"^nothing can be written to /proc/self: .*; remedy$"):
        make_folder(Path("/proc/self"), "remedy")


@pytest.mark.parametrize(
    ("command", "remedy"),
    [
        (("up", "--free-ports", "--data-path=run"), "take another with --data-path"),
        (("demo",), "start the demo in another folder"),
    ],
    ids=["up", "demo"],
)
def test_commands_say_so_in_one_line(
    command: tuple[str, ...],
    remedy: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "run").touch()
    monkeypatch.chdir(tmp_path)
    assert run(*command) == 1
    said = f"penstock: nothing can be written to run: not a directory; {remedy}\n"
    assert capsys.readouterr().err == said
