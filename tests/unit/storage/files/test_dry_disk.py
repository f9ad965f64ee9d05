"""What is written to a dry disk can be read there, and the real one stays as it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.core.errors import DiskFullError, LockedError, StorageError
from penstock.storage.files import dry_disk
from penstock.storage.files.dry_disk import DryDisk


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


def test_what_is_written_behind_the_end_counts_when_the_file_grows(real: Path) -> None:
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
