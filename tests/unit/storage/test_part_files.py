"""The files of staged parts: whole or not there."""

from __future__ import annotations

import pytest

from penstock.core.chance import SystemChance
from penstock.core.errors import DiskFullError
from penstock.storage.part_files import Found, PartFiles
from penstock.testing.disk import FaultyDisk

FOLDER = "/data/staged"


@pytest.fixture
def disk() -> FaultyDisk:
    return FaultyDisk("/data")


def files(disk: FaultyDisk, *, durably: bool = True) -> PartFiles:
    return PartFiles(disk, FOLDER, durably=durably)


def path(number: int) -> str:
    return f"{FOLDER}/{number:020d}.part"


def test_nothing_is_there_before_the_first(disk: FaultyDisk) -> None:
    assert list(files(disk).load()) == []
    assert disk.paths(".part") == []
    assert files(disk).read(1) is None


def test_what_was_written_is_found_in_the_order_of_the_numbers(disk: FaultyDisk) -> None:
    made = files(disk)
    made.write(12, b"head 12", b"twelve")
    made.write(3, b"head 3", b"")
    assert list(files(disk).load()) == [Found(3, b"head 3", 0), Found(12, b"head 12", 6)]
    assert (made.read(12), made.read(3), made.read(4)) == (b"twelve", b"", None)


def test_a_file_with_a_damaged_head_is_removed(disk: FaultyDisk) -> None:
    made = files(disk)
    for size in range(24 + len(b"head")):
        made.write(1, b"head", b"body")
        disk.cut(path(1), size)
        assert list(made.load()) == []
        assert disk.paths(".part") == []
    made.write(1, b"head", b"body")
    disk.flip(path(1), 8 * 25)
    assert list(made.load()) == []


def test_a_damaged_body_is_not_given_out(disk: FaultyDisk) -> None:
    made = files(disk)
    made.write(1, b"head", b"body")
    whole = disk.content(path(1))
    disk.flip(path(1), 8 * (len(whole) - 2))
    assert made.read(1) is None
    disk.cut(path(1), 10)
    assert made.read(1) is None


def test_a_full_disk_leaves_nothing(disk: FaultyDisk) -> None:
    made = files(disk)
    disk.make_directory(FOLDER)
    disk.fill(10)
    with pytest.raises(DiskFullError):
        made.write(1, b"head", b"body")
    assert list(made.load()) == []


def test_what_was_written_durably_survives_a_power_cut(disk: FaultyDisk) -> None:
    files(disk).write(1, b"head", b"body")
    disk.crash(SystemChance(3))
    assert files(disk).read(1) == b"body"


def test_removing_goes_on_over_what_cannot_be_removed(disk: FaultyDisk) -> None:
    made = files(disk)
    for number in (1, 2):
        made.write(number, b"head", b"body")
    disk.fail("remove", 1, within="1.part")
    made.remove([1, 2, 3])
    assert [found.number for found in made.load()] == [1]


def test_other_files_in_the_folder_stay(disk: FaultyDisk) -> None:
    files(disk).write(1, b"head", b"body")
    disk.replace_file(f"{FOLDER}/notes.txt", b"mine")
    assert [found.number for found in files(disk).load()] == [1]
    assert disk.content(f"{FOLDER}/notes.txt") == b"mine"
