"""nsq_to_file's file system: words, moves that overwrite nothing, what becomes durable."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest

from penstock.nsq.tools.to_file import file_system


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths that were synced, in order."""
    found: list[str] = []

    def fsync(fd: int) -> None:
        found.append(Path(f"/proc/self/fd/{fd}").readlink().as_posix())

    monkeypatch.setattr(os, "fsync", fsync)
    return found


@pytest.mark.parametrize(
    ("directory", "name", "path"),
    [
        ("/x/", "a.log", "/x/a.log"),
        ("/x", "/a//b.log", "/x/a/b.log"),
        (".", "a", "a"),
        ("", "a", "a"),
        ("../x", "a", "../x/a"),
    ],
)
def test_join(directory: str, name: str, path: str) -> None:
    assert file_system.join(directory, name) == path


def test_same_directory(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert file_system.same_directory(f"{tmp_path}/real/", f"{tmp_path}/x/../link")
    assert not file_system.same_directory(f"{tmp_path}/real", f"{tmp_path}/other")


def test_directories_are_made_and_durable(tmp_path: Path, synced: list[str]) -> None:
    before = os.umask(0)
    try:
        file_system.make_directories(f"{tmp_path}/a/b")
    finally:
        os.umask(before)
    file_system.make_directories(f"{tmp_path}/a/b")
    assert synced == [str(tmp_path), f"{tmp_path}/a"]
    assert stat.S_IMODE((tmp_path / "a" / "b").stat().st_mode) == 0o770


def test_a_file_in_the_way_of_a_directory_is_named(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("plain")
    with pytest.raises(file_system.DiskError) as caught:
        file_system.make_directories(f"{tmp_path}/f/sub")
    assert str(caught.value) == f"mkdir {tmp_path}/f: not a directory"


def test_a_new_file_is_durable_and_has_everybodys_mode(tmp_path: Path, synced: list[str]) -> None:
    before = os.umask(0o022)
    try:
        fd = file_system.create(f"{tmp_path}/a")
    finally:
        os.umask(before)
    file_system.write(fd, "a", b"one\n")
    file_system.close(fd, "a")
    assert synced == [str(tmp_path)]
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o644
    with pytest.raises(file_system.ExistsError):
        file_system.create(f"{tmp_path}/a")
    fd = file_system.open_to_append(f"{tmp_path}/a")
    file_system.write(fd, "a", b"two\n")
    assert file_system.size_of(fd, "a") == 8
    file_system.close(fd, "a")
    assert (tmp_path / "a").read_text() == "one\ntwo\n"


def test_words_of_a_failed_open(tmp_path: Path) -> None:
    with pytest.raises(file_system.DiskError) as caught:
        file_system.open_to_append(str(tmp_path))
    assert str(caught.value) == f"open {tmp_path}: is a directory"
    assert caught.value.number == errno.EISDIR


def test_a_write_that_is_cut_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fd = file_system.create(f"{tmp_path}/a")
    whole = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: whole(fd, data[:3]))
    file_system.write(fd, "a", b"0123456789")
    file_system.close(fd, "a")
    assert (tmp_path / "a").read_bytes() == b"0123456789"


@pytest.mark.parametrize(
    ("content", "whole"), [(b"", True), (b"a\n", True), (b"a", False), (b"a\nb", False)]
)
def test_ends_in_line(tmp_path: Path, content: bytes, whole: bool) -> None:
    (tmp_path / "a").write_bytes(content)
    assert file_system.ends_in_line(f"{tmp_path}/a") is whole


def test_a_file_that_may_not_be_read_is_taken_as_it_is(tmp_path: Path) -> None:
    assert file_system.ends_in_line(f"{tmp_path}/nothing")


def test_move(tmp_path: Path, synced: list[str]) -> None:
    one, two = (tmp_path / name for name in ("one", "two"))
    one.mkdir()
    two.mkdir()
    (one / "a").write_text("text")
    file_system.move(f"{one}/a", f"{two}/a")
    assert not (one / "a").exists()
    assert (two / "a").read_text() == "text"
    assert synced == [str(two), str(one)]


def test_move_never_overwrites(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("new")
    (tmp_path / "b").write_text("old")
    with pytest.raises(file_system.ExistsError):
        file_system.move(f"{tmp_path}/a", f"{tmp_path}/b")
    assert (tmp_path / "a").read_text() == "new"
    assert (tmp_path / "b").read_text() == "old"


def test_move_without_hard_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def link(source: str, target: str) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "link", link)
    test_move_never_overwrites(tmp_path)
    (tmp_path / "b").unlink()
    file_system.move(f"{tmp_path}/a", f"{tmp_path}/b")
    assert not (tmp_path / "a").exists()
    assert (tmp_path / "b").read_text() == "new"


def test_move_to_another_file_system_is_left_to_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def link(source: str, target: str) -> None:
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))

    (tmp_path / "a").write_text("text")
    (tmp_path / "a").chmod(0o640)
    with monkeypatch.context() as patch:
        patch.setattr(os, "link", link)
        with pytest.raises(file_system.DiskError) as caught:
            file_system.move(f"{tmp_path}/a", f"{tmp_path}/b")
    assert file_system.is_elsewhere(caught.value)
    copy = file_system.copy(f"{tmp_path}/a", f"{tmp_path}/b")
    assert Path(copy).read_text() == "text"
    assert stat.S_IMODE(Path(copy).stat().st_mode) == 0o640
    assert (tmp_path / "a").exists()
    file_system.remove(copy)
    assert not Path(copy).exists()


def test_copies_to_one_target_do_not_meet(tmp_path: Path) -> None:
    """Two tools with a folder for work each finish files of one name at the full hour."""
    for name in ("one", "two"):
        (tmp_path / name).write_text(name)
    target = f"{tmp_path}/target"
    one, two = (file_system.copy(f"{tmp_path}/{name}", target) for name in ("one", "two"))
    file_system.move(one, target)
    with pytest.raises(file_system.ExistsError):
        file_system.move(two, target)
    assert Path(target).read_text() == "one"
    assert Path(two).read_text() == "two"


def test_a_copy_that_finds_no_room_is_not_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fsync(number: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    (tmp_path / "a").write_text("text")
    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(file_system.DiskError, match="no space left on device"):
        file_system.copy(f"{tmp_path}/a", f"{tmp_path}/b")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_directories_that_cannot_be_synced_are_let_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fsync(number: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", lambda fd: fsync(errno.EINVAL))
    file_system.sync_directory(str(tmp_path))
    monkeypatch.setattr(os, "fsync", lambda fd: fsync(errno.EIO))
    with pytest.raises(file_system.DiskError, match=r"sync .*: input/output error"):
        file_system.sync_directory(str(tmp_path))


def test_exists_tells_absent_from_unknown(tmp_path: Path) -> None:
    (tmp_path / "f").touch()
    assert file_system.exists(f"{tmp_path}/f")
    assert not file_system.exists(f"{tmp_path}/g")
    with pytest.raises(file_system.DiskError, match="not a directory"):
        file_system.exists(f"{tmp_path}/f/g")
