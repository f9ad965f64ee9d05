"""Files under a temporary name."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from penstock.core.errors import StorageError
from penstock.storage.files.disk import OsDisk
from penstock.storage.files.temporary import remove_temporaries, temporary_path
from penstock.storage.log import LogOptions
from penstock.storage.store import Store


class Killed(BaseException):
    """The end of a process."""


@pytest.fixture
def left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The files of two processes that were killed before they could rename them."""

    def killed(source: str, target: str) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", killed)
        for name in ("a.json", "b.json"):
            with pytest.raises(Killed):
                OsDisk().replace_file(str(tmp_path / name), b"half")
    found = sorted(tmp_path.iterdir())
    assert [path.suffix for path in found] == [".tmp", ".tmp"]
    return found


def test_all_that_was_left_in_a_directory_is_removed(
    tmp_path: Path, left_behind: list[Path]
) -> None:
    (tmp_path / "a.json").write_text("whole")
    (tmp_path / "somebody.tmp").write_text("theirs")
    remove_temporaries(OsDisk(), str(tmp_path))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.json", "somebody.tmp"]


def test_those_of_one_file_are_removed(tmp_path: Path, left_behind: list[Path]) -> None:
    remove_temporaries(OsDisk(), str(tmp_path), "b.json")
    assert list(tmp_path.iterdir()) == left_behind[:1]


def test_a_directory_that_is_not_there_has_none(tmp_path: Path) -> None:
    remove_temporaries(OsDisk(), str(tmp_path / "nowhere"))
    assert not (tmp_path / "nowhere").exists()


def test_a_disk_that_fails_is_told_and_stops_nobody(
    tmp_path: Path, left_behind: list[Path], caplog: pytest.LogCaptureFixture
) -> None:
    class Failing(OsDisk):
        def remove(self, path: str) -> None:
            raise StorageError("read-only")

    remove_temporaries(Failing(), str(tmp_path))
    assert "cannot remove temporary files - read-only" in caplog.text


def test_a_data_path_and_its_queues_are_cleaned_when_it_is_opened(tmp_path: Path) -> None:
    queue = tmp_path / "topics" / "T@0"
    (queue / "quarantine").mkdir(parents=True)
    directories = (tmp_path, queue, queue / "quarantine")
    paths = [Path(temporary_path(str(each / "x"))) for each in directories]
    for path in paths:
        path.write_text("half")
    store = Store(OsDisk(), str(tmp_path), LogOptions())
    assert not any(path.exists() for path in paths)
    store.close()
