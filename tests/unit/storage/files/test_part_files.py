"""The files of staged parts: whole or not there."""

from __future__ import annotations

import pytest

from penstock.core.chance import SystemChance
from penstock.core.errors import DiskFullError
from penstock.storage.batch import Batch
from penstock.storage.files.part_files import Found, PartFiles
from penstock.testing.disk import FaultyDisk

FOLDER = "/data/staged"
HEAD_AT = 16


def batches(*bodies: bytes) -> list[Batch]:
    """A batch of one frame for each of these bodies."""
    return [Batch.build(0, 0, 0, 1, len(body), [body]) for body in bodies]


def bodies(made: PartFiles, number: int, count: int) -> list[bytes] | None:
    """What is in a file that should have so many messages."""
    found = made.read(number, count, bytearray(b"of before"))
    return None if found is None else [bytes(batch.frames) for batch in found]


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
    assert bodies(files(disk), 1, 0) is None


def test_what_was_written_is_found_in_the_order_of_the_numbers(disk: FaultyDisk) -> None:
    made = files(disk)
    made.write(12, b"head 12", batches(b"twelve", b"more"))
    made.write(3, b"head 3", batches(b"three"))
    assert list(files(disk).load()) == [Found(3, b"head 3"), Found(12, b"head 12")]
    assert bodies(made, 12, 2) == [b"twelve", b"more"]
    assert bodies(made, 3, 1) == [b"three"]
    assert bodies(made, 4, 1) is None


def test_a_file_with_a_damaged_head_is_removed(disk: FaultyDisk) -> None:
    made = files(disk)
    for size in range(HEAD_AT + len(b"head")):
        made.write(1, b"head", batches(b"body"))
        disk.cut(path(1), size)
        assert list(made.load()) == []
        assert disk.paths(".part") == []
    made.write(1, b"head", batches(b"body"))
    disk.flip(path(1), 8 * (HEAD_AT + 1))
    assert list(made.load()) == []


def test_a_damaged_body_is_not_given_out(disk: FaultyDisk) -> None:
    made = files(disk)
    made.write(1, b"head", batches(b"body"))
    whole = disk.content(path(1))
    disk.flip(path(1), 8 * (len(whole) - 2))
    assert bodies(made, 1, 1) is None
    disk.cut(path(1), 10)
    assert bodies(made, 1, 1) is None


def test_a_file_that_was_cut_short_is_not_given_out(disk: FaultyDisk) -> None:
    made = files(disk)
    for size in range(len(b"".join(batch.raw for batch in batches(b"one", b"two")))):
        made.write(1, b"head", batches(b"one", b"two"))
        disk.cut(path(1), HEAD_AT + len(b"head") + size)
        assert bodies(made, 1, 2) is None


def test_a_full_disk_leaves_nothing(disk: FaultyDisk) -> None:
    made = files(disk)
    disk.make_directory(FOLDER)
    disk.fill(10)
    with pytest.raises(DiskFullError):
        made.write(1, b"head", batches(b"body"))
    assert list(made.load()) == []


def test_what_was_written_durably_survives_a_power_cut(disk: FaultyDisk) -> None:
    files(disk).write(1, b"head", batches(b"body"))
    disk.crash(SystemChance(3))
    assert bodies(files(disk), 1, 1) == [b"body"]


def test_removing_goes_on_over_what_cannot_be_removed(disk: FaultyDisk) -> None:
    made = files(disk)
    for number in (1, 2):
        made.write(number, b"head", batches(b"body"))
    disk.fail("remove", 1, within="1.part")
    made.remove([1, 2, 3])
    assert [found.number for found in made.load()] == [1]


def test_other_files_in_the_folder_stay(disk: FaultyDisk) -> None:
    files(disk).write(1, b"head", batches(b"body"))
    disk.replace_file(f"{FOLDER}/notes.txt", b"mine")
    assert [found.number for found in files(disk).load()] == [1]
    assert disk.content(f"{FOLDER}/notes.txt") == b"mine"
