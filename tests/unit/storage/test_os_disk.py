"""What only the real disk has: processes, file descriptors, links, the order of system calls."""

from __future__ import annotations

import ctypes
import errno
import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from penstock.core.errors import DiskFullError, StorageError
from penstock.storage.files.disk import OsDisk


@pytest.fixture
def disk() -> OsDisk:
    return OsDisk()


def test_nothing_reaches_a_closed_file_or_the_next_owner_of_its_number(
    disk: OsDisk, tmp_path: Path
) -> None:
    late = disk.open(str(tmp_path / "late.log"))
    late.close()
    late.close()
    other = disk.open(str(tmp_path / "other.log"))  # most likely with the number of the closed one
    for use in (
        lambda: late.append(b"stray"),
        late.sync,
        lambda: late.truncate(0),
        lambda: late.read(0, 1),
    ):
        with pytest.raises(StorageError, match=r"late\.log: Bad file descriptor"):
            use()
    other.append(b"mine")
    assert (tmp_path / "other.log").read_bytes() == b"mine"
    assert (tmp_path / "late.log").read_bytes() == b""
    assert late.size == 0
    other.close()


def test_a_disk_that_is_really_full(disk: OsDisk) -> None:
    file = disk.open("/dev/full")
    with pytest.raises(DiskFullError, match="/dev/full: No space left"):
        file.append(b"x")
    assert file.size == 0
    file.close()


def test_a_replaced_file_is_not_written_over(disk: OsDisk, tmp_path: Path) -> None:
    path = str(tmp_path / "meta")
    disk.replace_file(path, b"old")
    with open(path, "rb") as held:
        disk.replace_file(path, b"newer")
        assert held.read() == b"old"
    assert disk.read_file(path) == b"newer"


def test_a_replacement_syncs_the_content_then_the_name(
    disk: OsDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    rename, fsync = os.rename, os.fsync
    monkeypatch.setattr(os, "rename", lambda *args: (seen.append("rename"), rename(*args)))
    monkeypatch.setattr(os, "fsync", lambda fd: (seen.append("fsync"), fsync(fd)))
    disk.replace_file(str(tmp_path / "meta"), b"x")
    assert seen == ["fsync", "rename", "fsync"]
    seen.clear()
    disk.replace_file(str(tmp_path / "meta"), b"x", sync=False)
    assert seen == ["rename"]


def test_all_that_was_written_is_synced_at_once(
    disk: OsDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert disk.sync_all(str(tmp_path))
    with pytest.raises(StorageError, match="none: No such file"):
        disk.sync_all(str(tmp_path / "none"))

    def syncfs(_fd: int) -> int:
        ctypes.set_errno(errno.EIO)
        return -1

    monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: SimpleNamespace(syncfs=syncfs))
    with pytest.raises(StorageError, match="Input/output error"):
        disk.sync_all(str(tmp_path))
    monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: SimpleNamespace())
    assert not disk.sync_all(str(tmp_path))


def test_files_are_for_their_owner_only(disk: OsDisk, tmp_path: Path) -> None:
    disk.open(str(tmp_path / "a.log")).close()
    disk.replace_file(str(tmp_path / "b"), b"")
    assert {(tmp_path / name).stat().st_mode & 0o777 for name in ("a.log", "b")} == {0o600}


def test_deleting_a_tree_does_not_follow_links(disk: OsDisk, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "precious").touch()
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "link").symlink_to(tmp_path / "outside")
    disk.remove_tree(str(tmp_path / "tree"))
    assert (tmp_path / "outside" / "precious").exists()
    assert not (tmp_path / "tree").exists()
