"""The disk of the tests does to files what crashes and bad disks do, no less."""

from __future__ import annotations

import errno

import pytest

from penstock.core.chance import SystemChance
from penstock.core.errors import DiskFullError, StorageError
from penstock.testing.disk import FaultyDisk


@pytest.fixture
def disk() -> FaultyDisk:
    return FaultyDisk("/d")


def outcomes(prepare, path: str = "/d/f") -> set[bytes | None]:  # type: ignore[no-untyped-def]
    """What 200 power cuts leave of a file."""
    found = set()
    for seed in range(200):
        disk = FaultyDisk("/d")
        prepare(disk)
        disk.crash(SystemChance(seed))
        found.add(disk.read_file(path))
    return found


def test_a_kill_keeps_all_and_ends_the_process(disk: FaultyDisk) -> None:
    file = disk.open("/d/f")
    file.append(b"abc")
    disk.lock("/d")
    disk.fill()
    disk.crash("written")
    assert disk.read_file("/d/f") == b"abc"
    with pytest.raises(AssertionError, match="used after a crash"):
        file.append(b"d")
    disk.lock("/d")
    disk.open("/d/f").append(b"d")


def test_a_power_cut_keeps_what_was_synced_and_any_part_of_the_rest() -> None:
    def prepare(disk: FaultyDisk) -> None:
        file = disk.open("/d/f")
        file.append(b"durable-")
        file.sync()
        disk.sync_directory("/d")
        file.append(b"maybe")

    found = outcomes(prepare)
    assert all(data is not None and data.startswith(b"durable-") for data in found)
    assert {b"durable-", b"durable-m", b"durable-maybe"} <= found
    assert any(b"\0" in (data or b"") for data in found)  # a sector that did not arrive
    assert any(not b"durable-maybe".startswith(data or b"") for data in found)  # garbled


def test_reserved_zeros_are_behind_the_end_until_they_are_given_back(disk: FaultyDisk) -> None:
    file = disk.open("/d/f")
    file.append(b"x" * 1000)
    file.reserve()
    assert (file.size, len(disk.content("/d/f"))) == (1000, 2000)
    disk.fill()
    file.append(b"y" * 900)  # there is room for what was reserved
    file.reserve()  # there is none for more
    with pytest.raises(DiskFullError):
        file.append(b"z" * 101)
    assert disk.content("/d/f") == b"x" * 1000 + b"y" * 900
    disk.heal()
    file.reserve()
    file.close()
    assert disk.content("/d/f") == b"x" * 1000 + b"y" * 900


def test_a_kill_keeps_reserved_zeros(disk: FaultyDisk) -> None:
    file = disk.open("/d/f")
    file.append(b"abcd")
    file.reserve()
    disk.crash("written")
    assert disk.content("/d/f") == b"abcd\0\0\0\0"
    file.close()  # by an owner that does not know of its end yet
    assert disk.open("/d/f").size == 8


def test_what_was_written_over_reserved_zeros_may_leave_them_after_a_power_cut() -> None:
    def prepare(disk: FaultyDisk) -> None:
        file = disk.open("/d/f")
        file.append(b"x" * 1024)
        file.reserve()
        file.sync()
        disk.sync_directory("/d")
        assert disk.synced("/d/f") == 1024
        file.append(b"y" * 1024)

    found = outcomes(prepare)
    assert {len(data or b"") for data in found} == {2048}  # the size was durable
    assert all(set((data or b"")[:1024]) == set(b"x") for data in found)
    tails = {(data or b"")[1024:] for data in found}
    assert {b"y" * 1024, bytes(512) + b"y" * 512} <= tails
    assert all(not tail.strip(b"y\0") for tail in tails)  # no noise: the blocks were written
    assert any(tail.startswith(b"y") and tail.endswith(b"\0") for tail in tails)


def test_a_name_that_was_not_synced_may_vanish() -> None:
    def prepare(disk: FaultyDisk) -> None:
        disk.open("/d/f").sync()

    assert outcomes(prepare) == {b"", None}


def test_a_removal_that_was_not_synced_may_be_undone() -> None:
    def prepare(disk: FaultyDisk) -> None:
        disk.replace_file("/d/f", b"x")
        disk.remove("/d/f")

    assert outcomes(prepare) == {b"x", None}


def test_a_replacement_is_old_or_new() -> None:
    def prepare(disk: FaultyDisk) -> None:
        disk.replace_file("/d/f", b"old")
        disk.replace_file("/d/f", b"n", sync=False)

    found = outcomes(prepare)
    assert {b"old", b"n", b""} <= found
    assert None not in found


def test_a_renamed_file_has_one_of_its_names_at_least() -> None:
    """And the file that had the new name is there as long as it was not replaced."""
    found = set()
    for seed in range(60):
        disk = FaultyDisk("/d", "/e")
        disk.replace_file("/d/f", b"new")
        disk.replace_file("/e/f", b"old")
        disk.rename("/d/f", "/e/f")
        disk.crash(SystemChance(seed))
        found.add((disk.read_file("/d/f"), disk.read_file("/e/f")))
    assert {(b"new", b"old"), (None, b"new")} <= found <= {
        (b"new", b"old"), (None, b"new"), (b"new", b"new"),
    }  # fmt: skip


def test_a_rename_that_was_synced_stays() -> None:
    for seed in range(20):
        disk = FaultyDisk("/d", "/e")
        disk.replace_file("/d/f", b"new")
        disk.rename("/d/f", "/e/f")
        disk.sync_directory("/e")
        disk.sync_directory("/d")
        disk.crash(SystemChance(seed))
        assert disk.paths() == ["/e/f"]


def test_a_cut_that_was_not_synced_may_be_undone() -> None:
    def prepare(disk: FaultyDisk) -> None:
        disk.replace_file("/d/f", b"0123456789")
        disk.open("/d/f").truncate(3)

    assert outcomes(prepare) == {b"0123456789", b"012"}

    def synced(disk: FaultyDisk) -> None:
        prepare(disk)
        disk.open("/d/f").sync()

    assert outcomes(synced) == {b"012"}


def test_a_directory_goes_with_all_in_it() -> None:
    def prepare(disk: FaultyDisk) -> None:
        disk._directories |= {"/d/a", "/d/a/b"}  # made without a sync
        disk.replace_file("/d/a/b/f", b"x")

    assert outcomes(prepare, "/d/a/b/f") == {b"x", None}


def test_after_a_failed_sync_no_later_one_helps(disk: FaultyDisk) -> None:
    file = disk.open("/d/f")
    file.append(b"good")
    file.sync()
    file.append(b"lost")
    disk.fail("sync")
    with pytest.raises(StorageError):
        file.sync()
    file.sync()
    file.append(b"more")
    file.sync()
    disk.sync_directory("/d")
    assert disk.read_file("/d/f") == b"goodlostmore"
    disk.crash(SystemChance(1))
    assert disk.read_file("/d/f") == b"good\0\0\0\0more"


def test_after_a_failed_sync_what_is_written_in_its_place_is_synced(disk: FaultyDisk) -> None:
    file = disk.open("/d/f")
    file.append(b"good")
    file.sync()
    file.append(b"lost")
    disk.fail("sync")
    with pytest.raises(StorageError):
        file.sync()
    file.truncate(5)
    file.append(b"more")
    file.sync()
    disk.sync_directory("/d")
    disk.crash(SystemChance(1))
    assert disk.read_file("/d/f") == b"good\0more"


def test_it_fills_up(disk: FaultyDisk) -> None:
    file = disk.open("/d/f")
    disk.fill(5)
    file.append(b"abc")
    for _ in range(2):
        with pytest.raises(DiskFullError, match="No space left"):
            file.append(b"def")
    with pytest.raises(DiskFullError):
        disk.replace_file("/d/g", b"def")
    assert (file.size, disk.content("/d/f")) == (3, b"abc")
    disk.heal()
    file.append(b"def")
    assert disk.content("/d/f") == b"abcdef"


def test_half_a_failed_write_may_stay_behind_the_end(disk: FaultyDisk) -> None:
    disk.leaves_partial_writes = True
    file = disk.open("/d/f")
    disk.fill(1)
    with pytest.raises(DiskFullError):
        file.append(b"1234")
    assert (file.size, disk.content("/d/f")) == (0, b"12")
    disk.heal()
    file.append(b"x")
    assert disk.content("/d/f") == b"x2"


def test_faults_strike_when_and_where_they_are_told(disk: FaultyDisk) -> None:
    disk.fail("append", 2, times=2, within="f")
    disk.fail("read", code=errno.ENOSPC, times=-1)
    one, other = disk.open("/d/f"), disk.open("/d/g")
    one.append(b"1")
    for _ in range(2):
        other.append(b"1")
        with pytest.raises(StorageError, match="/d/f: Input/output error"):
            one.append(b"1")
    one.append(b"1")
    for _ in range(3):
        with pytest.raises(DiskFullError):
            one.read(0, 1)


def test_bits_rot(disk: FaultyDisk) -> None:
    disk.replace_file("/d/f", b"\0\0\0")
    disk.flip("/d/f", 9)
    disk.overwrite("/d/f", b"x", 2)
    assert disk.content("/d/f") == b"\0\2x"
    disk.cut("/d/f", 1)
    disk.crash(SystemChance(1))
    assert disk.content("/d/f") == b"\0"


def test_it_tells_what_is_safe(disk: FaultyDisk) -> None:
    file = disk.open("/d/f")
    file.append(b"abc")
    file.sync()
    assert disk.synced("/d/f") == 0  # its name is not
    disk.sync_directory("/d")
    file.append(b"def")
    assert disk.synced("/d/f") == 3
    assert disk.paths("f") == ["/d/f"]
    file.close()
    with pytest.raises(AssertionError, match="closed twice"):
        file.close()
    with pytest.raises(StorageError, match="Bad file descriptor"):
        file.read(0, 1)
