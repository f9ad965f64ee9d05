"""What the storage floor relies on holds for the real disk, for the tests' and for the dry one."""

from __future__ import annotations

import ctypes
import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.core.errors import DiskFullError, LockedError, StorageError
from penstock.storage.files import dry_disk
from penstock.storage.files.disk import RESERVED_MAX, RESERVED_MIN, Disk, OsDisk, reported
from penstock.storage.files.dry_disk import DryDisk
from penstock.testing.disk import FaultyDisk


@pytest.fixture(params=["real", "faulty"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Disk, str]:
    if request.param == "real":
        return OsDisk(), str(tmp_path)
    return FaultyDisk("/d"), "/d"


# --- both disks --------------------------------------------------------------------------------
def test_what_is_written_behind_the_end_counts_when_the_file_grows(
    place: tuple[Disk, str],
) -> None:
    disk, root = place
    file = disk.open(f"{root}/f")
    file.append(b"one")
    assert file.write(3, b"two") == 6
    assert file.write(6, memoryview(b"three")) == 11
    assert file.size == 3
    file.grow(6)
    file.append(b"!")
    assert (file.size, file.read(0, 7)) == (7, b"onetwo!")
    file.write(7, b"no")
    file.truncate(7)
    file.close()
    assert disk.read_file(f"{root}/f") == b"onetwo!"


def test_a_file_is_read_into_a_buffer_of_any_size(place: tuple[Disk, str]) -> None:
    disk, root = place
    disk.replace_file(f"{root}/f", b"ab", memoryview(b"cd"))
    small, large = bytearray(), bytearray(b"123456")
    assert disk.read_into(f"{root}/f", small) == disk.read_into(f"{root}/f", large) == 4
    assert (small, large) == (b"abcd", b"abcd56")
    assert disk.read_into(f"{root}/g", small) is None


def test_a_file_grows_at_its_end(place: tuple[Disk, str]) -> None:
    disk, root = place
    file = disk.open(f"{root}/f")
    assert (file.size, file.path) == (0, f"{root}/f")
    file.append(b"one")
    file.append(memoryview(b"two"))
    file.sync()
    assert file.size == 6
    assert file.read(1, 4) == b"netw"
    assert file.read(5, 100) == b"o"
    assert file.read(9, 1) == b""
    file.truncate(2)
    file.append(b"!")
    file.close()
    again = disk.open(f"{root}/f")
    assert (again.size, again.read(0, 9)) == (3, b"on!")
    assert disk.read_file(f"{root}/f") == b"on!"
    again.close()


def test_directories_and_names(place: tuple[Disk, str]) -> None:
    disk, root = place
    assert disk.list(f"{root}/none") == []
    disk.make_directory(f"{root}/a/b/c")
    disk.make_directory(f"{root}/a/b/c")
    disk.replace_file(f"{root}/a/z", b"z")
    disk.replace_file(f"{root}/a/b/y", b"y", sync=False)
    assert disk.list(f"{root}/a") == ["b", "z"]
    disk.sync_directory(f"{root}/a")
    disk.remove(f"{root}/a/z")
    disk.remove(f"{root}/a/z")
    assert disk.read_file(f"{root}/a/z") is None
    disk.remove_tree(f"{root}/a")
    disk.remove_tree(f"{root}/a")
    assert disk.list(root) == []


def test_a_file_is_replaced_as_a_whole(place: tuple[Disk, str]) -> None:
    disk, root = place
    disk.replace_file(f"{root}/f", b"long content")
    disk.replace_file(f"{root}/f", b"new", sync=False)
    assert disk.read_file(f"{root}/f") == b"new"
    assert disk.list(root) == ["f"]


def test_a_file_gets_another_name(place: tuple[Disk, str]) -> None:
    disk, root = place
    disk.make_directory(f"{root}/a")
    disk.replace_file(f"{root}/one", b"1")
    disk.replace_file(f"{root}/a/two", b"2")
    disk.rename(f"{root}/one", f"{root}/a/two")
    assert disk.list(root) == ["a"]
    assert disk.read_file(f"{root}/a/two") == b"1"
    with pytest.raises(StorageError, match=f"{root}/one: "):
        disk.rename(f"{root}/one", f"{root}/a/two")
    disk.replace_file(f"{root}/one", b"1")
    with pytest.raises(StorageError):
        disk.rename(f"{root}/one", f"{root}/nowhere/one")
    assert disk.read_file(f"{root}/one") == b"1"


def test_a_directory_gets_another_name_with_all_in_it(place: tuple[Disk, str]) -> None:
    disk, root = place
    disk.make_directory(f"{root}/a/b")
    disk.make_directory(f"{root}/ab")
    disk.replace_file(f"{root}/a/b/f", b"1")
    disk.rename(f"{root}/a", f"{root}/c")
    assert disk.list(root) == ["ab", "c"]
    assert disk.read_file(f"{root}/c/b/f") == b"1"


def test_a_directory_is_locked_once(place: tuple[Disk, str]) -> None:
    disk, root = place
    lock = disk.lock(root)
    with pytest.raises(LockedError, match="cannot flock directory"):
        disk.lock(root)
    lock.release()
    disk.lock(root).release()


def test_errors_are_storage_errors_with_the_path(place: tuple[Disk, str]) -> None:
    disk, root = place
    missing = f"{root}/none"
    for action in (
        lambda: disk.open(f"{missing}/f"),
        lambda: disk.replace_file(f"{missing}/f", b""),
        lambda: disk.lock(missing),
    ):
        with pytest.raises(StorageError, match=r"none.*: [Nn]o such file"):
            action()


# --- the real disk -----------------------------------------------------------------------------
def test_the_real_disk_reports_what_is_no_directory(tmp_path: Path) -> None:
    disk = OsDisk()
    (tmp_path / "f").write_bytes(b"")
    file = str(tmp_path / "f")
    for action in (
        lambda: disk.list(file),
        lambda: disk.make_directory(f"{file}/x"),
        lambda: disk.sync_directory(file),
        lambda: disk.read_file(str(tmp_path)),
        lambda: disk.remove(str(tmp_path)),
    ):
        with pytest.raises(StorageError):
            action()


def test_relative_paths_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    disk = OsDisk()
    disk.make_directory("a/b")
    disk.replace_file("f", b"x")
    assert disk.list(".") == ["a", "f"]


def _pwrite(limit: int, then: int | None) -> Callable[[int, bytes, int], int]:
    """A pwrite that writes at most ``limit`` bytes at once and, with ``then``, fails next time."""
    real, calls = os.pwrite, []

    def pwrite(fd: int, data: bytes, position: int) -> int:
        calls.append(position)
        if then is not None and len(calls) > 1:
            raise OSError(then, os.strerror(then))
        return real(fd, memoryview(data)[:limit], position)

    return pwrite


def test_a_short_write_is_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = OsDisk().open(str(tmp_path / "f"))
    monkeypatch.setattr(os, "pwrite", _pwrite(4, None))
    file.append(b"0123456789")
    assert (file.size, file.read(0, 20)) == (10, b"0123456789")
    file.close()


@pytest.mark.parametrize(
    ("code", "kind"), [(errno.ENOSPC, DiskFullError), (errno.EDQUOT, DiskFullError),
                       (errno.EIO, StorageError)],
)  # fmt: skip
def test_half_a_write_is_taken_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, kind: type[StorageError]
) -> None:
    file = OsDisk().open(str(tmp_path / "f"))
    file.append(b"kept")
    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", _pwrite(3, code))
        with pytest.raises(kind, match="f: ") as caught:
            file.append(b"0123456789")
    assert isinstance(caught.value, DiskFullError) == (kind is DiskFullError)
    assert (tmp_path / "f").read_bytes() == b"kept"
    with monkeypatch.context() as patch:  # when even that fails, the next append writes over it
        patch.setattr(os, "pwrite", _pwrite(3, code))
        patch.setattr(os, "ftruncate", _fail)
        with pytest.raises(kind):
            file.append(b"0123456789")
    assert (tmp_path / "f").read_bytes() == b"kept012"
    file.append(b"!!!!")
    assert (tmp_path / "f").read_bytes() == b"kept!!!!"
    file.close()


def _fail(*_args: object) -> int:
    raise OSError(errno.EIO, os.strerror(errno.EIO))


@pytest.mark.parametrize("call", ["pread", "fdatasync", "ftruncate"])
def test_failing_calls_are_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    file = OsDisk().open(str(tmp_path / "f"))
    action: Any = {
        "pread": lambda: file.read(0, 1),
        "fdatasync": file.sync,
        "ftruncate": lambda: file.truncate(0),
    }[call]
    monkeypatch.setattr(os, call, _fail)
    with pytest.raises(StorageError, match="Input/output error"):
        action()
    file.close()


def test_a_failed_replacement_leaves_the_old_file_and_no_rubbish(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = OsDisk()
    path = str(tmp_path / "f")
    disk.replace_file(path, b"old")
    for call in ("rename", "fsync"):
        with monkeypatch.context() as patch:
            patch.setattr(os, call, _fail)
            with pytest.raises(StorageError):
                disk.replace_file(path, b"new")
        assert disk.list(str(tmp_path)) == ["f"]
        assert disk.read_file(path) == b"old"


def test_making_a_directory_syncs_those_above(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    disk = OsDisk()
    monkeypatch.setattr(disk, "sync_directory", synced.append)
    disk.make_directory(str(tmp_path / "a" / "b"))
    assert synced == [str(tmp_path), str(tmp_path / "a")]


def test_a_lock_of_a_go_nsqd_is_respected(tmp_path: Path) -> None:
    import fcntl

    fd = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_EX)
    with pytest.raises(LockedError, match="possibly in use by another instance of nsqd"):
        OsDisk().lock(str(tmp_path))
    os.close(fd)


# --- zeros behind the end ----------------------------------------------------------------------
ENOUGH = b"enough".ljust(RESERVED_MIN, b"!")


@pytest.mark.parametrize("position", [0, 3, 2_500_000, 2_500_001])
def test_a_file_is_written_again_from_a_position_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, position: int
) -> None:
    content = bytes(range(250)) * 10_000
    file = OsDisk().open(str(tmp_path / "a.log"))
    file.append(content)
    written: list[bytes] = []

    def pwrite(_fd: int, data: bytes, _at: int) -> int:
        written.append(data[:400_000])
        return len(written[-1])

    monkeypatch.setattr(os, "pwrite", pwrite)
    file.rewrite(position)
    assert b"".join(written) == content[position:]
    assert file.size == len(content)
    file.close()


@pytest.mark.parametrize("is_there", [True, False], ids=["Linux", "elsewhere"])
def test_the_system_is_asked_to_begin_to_write_what_is_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_there: bool
) -> None:
    asked: list[tuple[int, int]] = []

    def sync_file_range(_fd: int, start: ctypes.c_int64, nbytes: ctypes.c_int64, how: int) -> None:
        assert how == 3, "it waits for what it began before, and begins the rest"
        asked.append((start.value, nbytes.value))

    libc = SimpleNamespace(sync_file_range=sync_file_range) if is_there else SimpleNamespace()
    monkeypatch.setattr("penstock.storage.files.disk._libc", libc)
    file = OsDisk().open(str(tmp_path / "f"))
    file.append(bytes(5000))
    for start in (1000, 5000, 6000):
        file.write_out(start)
    file.close()
    file.write_out(0)
    assert asked == ([(1000, 4000)] if is_there else [])


def test_what_the_system_began_to_write_is_there(tmp_path: Path) -> None:
    """By the system's own call."""
    file = OsDisk().open(str(tmp_path / "f"))
    file.append(b"whole")
    file.write_out(0)
    file.sync()
    assert (tmp_path / "f").read_bytes() == b"whole"
    file.close()


def test_what_is_reserved_is_written_over_and_given_back(tmp_path: Path) -> None:
    path = tmp_path / "f"
    file = OsDisk().open(str(path))
    file.append(ENOUGH)
    file.reserve()
    assert path.read_bytes() == ENOUGH + bytes(RESERVED_MIN)
    file.append(b"two")
    file.reserve()  # there is still enough
    assert (file.size, path.stat().st_size) == (RESERVED_MIN + 3, 2 * RESERVED_MIN)
    assert file.read(0, file.size) == ENOUGH + b"two"
    long = os.urandom(RESERVED_MAX)
    file.append(long)
    assert path.read_bytes() == ENOUGH + b"two" + long
    file.reserve()
    assert path.stat().st_size == file.size + RESERVED_MAX
    file.release()
    file.reserve()
    assert path.read_bytes() == ENOUGH + b"two" + long
    file.close()


def test_for_a_little_nothing_is_reserved(tmp_path: Path) -> None:
    path = tmp_path / "f"
    file = OsDisk().open(str(path))
    file.append(b"one")
    file.reserve()
    assert path.read_bytes() == b"one"
    file.close()


def test_a_closed_file_and_a_cut_one_have_no_zeros_behind_them(tmp_path: Path) -> None:
    path = tmp_path / "f"
    file = OsDisk().open(str(path))
    file.append(ENOUGH + b"one")
    file.reserve()
    file.truncate(RESERVED_MIN + 2)
    assert path.read_bytes() == ENOUGH + b"on"
    file.reserve()
    assert path.stat().st_size > file.size
    file.close()
    assert path.read_bytes() == ENOUGH + b"on"


def test_no_room_to_reserve_is_no_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = OsDisk().open(str(tmp_path / "f"))
    file.append(ENOUGH)

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", full)
        file.reserve()
        with pytest.raises(DiskFullError):
            file.append(b"two")
    file.append(b"!")
    file.close()
    assert (tmp_path / "f").read_bytes() == ENOUGH + b"!"


def test_an_append_waits_for_zeros_that_would_come_over_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "f"
    file = OsDisk().open(str(path))
    file.append(ENOUGH)
    begun, may_go_on = threading.Event(), threading.Event()
    pwrite = os.pwrite

    def slow(fd: int, data: bytes | memoryview, position: int) -> int:
        if data == bytes(RESERVED_MIN):
            begun.set()
            assert may_go_on.wait(30)
        return pwrite(fd, data, position)

    monkeypatch.setattr(os, "pwrite", slow)
    reserving = threading.Thread(target=file.reserve)
    appending = threading.Thread(target=file.append, args=(b"two",))
    reserving.start()
    assert begun.wait(30)
    appending.start()
    appending.join(0.05)  # it is at the lock by now, or will be
    may_go_on.set()
    reserving.join(30)
    appending.join(30)
    assert file.read(0, file.size) == ENOUGH + b"two"
    file.close()


# --- What only the real disk has: processes, file descriptors, links, the order of system calls --


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


# --- What is written to a dry disk can be read there, and the real one stays as it is ------------


@pytest.fixture
def real(tmp_path: Path) -> Path:
    (tmp_path / "file").write_bytes(b"0123456789")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "below").write_bytes(b"below")
    return tmp_path


def test_a_file_is_cut_and_grows_in_memory_alone(real: Path) -> None:
    disk, path = DryDisk(), str(real / "file")
    file = disk.open(path)
    file.truncate(6)
    file.append(b"abc")
    assert (file.size, file.read(4, 100), file.read(7, 1)) == (9, b"45abc", b"b")
    file.truncate(7)
    assert file.read(0, 100) == b"012345a"
    file.close()
    assert disk.open(path).read(5, 9) == b"5a"
    assert disk.read_file(path) == b"012345a"
    assert (real / "file").read_bytes() == b"0123456789"


def test_dry_growth(real: Path) -> None:
    file = DryDisk().open(str(real / "new"))
    assert file.write(0, b"one") == 3
    assert (file.size, file.read(0, 9)) == (0, b"")
    file.grow(3)
    assert file.read(0, 9) == b"one"
    assert not (real / "new").exists()


def test_files_and_folders_are_removed_replaced_and_renamed_in_memory_alone(real: Path) -> None:
    disk = DryDisk()
    disk.replace_file(str(real / "file"), b"new ", b"content")
    disk.remove_tree(str(real / "folder"))
    disk.remove(str(real / "never there"))
    assert disk.read_file(str(real / "file")) == b"new content"
    assert disk.read_file(str(real / "folder" / "below")) is None
    assert disk.list(str(real / "folder")) == []
    assert disk.list(str(real)) == ["file"]
    disk.rename(str(real / "file"), str(real / "moved"))
    assert disk.list(str(real)) == ["moved"]
    assert disk.list(str(real / "no folder")) == []
    buffer = bytearray(b"..............")
    assert disk.read_into(str(real / "moved"), buffer) == 11
    assert buffer == b"new content..."
    assert disk.removed == {str(real / "folder"), str(real / "file")}
    with pytest.raises(StorageError, match="No such file"):
        disk.rename(str(real / "file"), str(real / "x"))
    assert sorted(each.name for each in real.rglob("*")) == ["below", "file", "folder"]


def test_a_file_that_nothing_has_changed_is_read_from_the_real_disk(real: Path) -> None:
    disk = DryDisk()
    buffer = bytearray(b".......")
    assert disk.read_into(str(real / "folder" / "below"), buffer) == 5
    assert buffer == b"below.."
    assert disk.read_into(str(real / "never there"), buffer) is None
    assert buffer == b"below.."
    disk.rename(str(real / "file"), str(real / "moved"))
    assert disk.read_file(str(real / "moved")) == b"0123456789"


def test_a_folder_goes_with_what_was_written_in_it(real: Path) -> None:
    disk = DryDisk()
    for name in ("folder/below", "folder/new", "folder of another"):
        disk.replace_file(str(real / name), b"written")
    disk.remove_tree(str(real / "folder"))
    assert disk.list(str(real / "folder")) == []
    assert disk.read_file(str(real / "folder" / "below")) is None
    assert disk.read_file(str(real / "folder" / "new")) is None
    assert disk.read_file(str(real / "folder of another")) == b"written"


def test_what_it_holds_in_memory_is_bounded(real: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dry_disk, "MEMORY_MAX", 10)
    disk = DryDisk()
    disk.replace_file(str(real / "a"), b"1234567")
    with pytest.raises(DiskFullError, match="at most 10 bytes"):
        disk.open(str(real / "file")).append(b"1234")
    disk.open(str(real / "file")).append(b"123")


def test_the_lock_is_real(real: Path) -> None:
    lock = DryDisk().lock(str(real))
    with pytest.raises(LockedError):
        DryDisk().lock(str(real))
    lock.release()
    DryDisk().lock(str(real)).release()


def test_what_stays_in_memory_is_synced_at_once(real: Path) -> None:
    assert DryDisk().sync_all(str(real))


def test_what_belongs_to_another_user_is_said_with_the_remedy() -> None:
    said = r"^p: Permission denied; run this as the user whom"
    with pytest.raises(StorageError, match=said), reported("p"):
        raise PermissionError(errno.EACCES, "Permission denied")
