"""The journal of small records."""

from __future__ import annotations

import pytest

from penstock.core.chance import SystemChance
from penstock.core.errors import DiskFullError, StorageError
from penstock.storage.journal import COMPACT_BYTES_MIN, Journal
from penstock.testing.disk import FaultyDisk

PATH = "/data/cursors.journal"
RECORDS = [b"first", b"", b"\0" * 30, b"last"]


@pytest.fixture
def disk() -> FaultyDisk:
    return FaultyDisk("/data")


def reopened(disk: FaultyDisk) -> Journal:
    disk.crash("written")
    return Journal(disk, PATH)


def test_what_was_appended_is_found_again(disk: FaultyDisk) -> None:
    journal = Journal(disk, PATH)
    assert (journal.records, journal.torn_bytes) == ([], 0)
    journal.append(RECORDS[:1])
    journal.append([])
    journal.append(RECORDS[1:])
    journal.close()
    again = Journal(disk, PATH)
    assert (again.records, again.torn_bytes) == (RECORDS, 0)


def test_every_cut_leaves_the_whole_records_before_it(disk: FaultyDisk) -> None:
    Journal(disk, PATH).append(RECORDS)
    whole = disk.content(PATH)
    ends = [0]
    for record in RECORDS:
        ends.append(ends[-1] + 12 + len(record))
    assert ends[-1] == len(whole)
    for size in range(len(whole)):
        disk.cut(PATH, 0)
        disk.overwrite(PATH, whole[:size])
        journal = reopened(disk)
        kept = sum(end <= size for end in ends[1:])
        assert journal.records == RECORDS[:kept]
        assert journal.torn_bytes == size - ends[kept]
        journal.append([b"next"])
        assert reopened(disk).records == [*RECORDS[:kept], b"next"]


def test_every_flipped_bit_ends_the_reading_there(disk: FaultyDisk) -> None:
    Journal(disk, PATH).append(RECORDS)
    whole = disk.content(PATH)
    ends = [12 + len(RECORDS[0])]
    for record in RECORDS[1:]:
        ends.append(ends[-1] + 12 + len(record))
    for bit in range(8 * len(whole)):
        disk.overwrite(PATH, whole)
        disk.flip(PATH, bit)
        kept = sum(end <= bit // 8 for end in ends)
        assert reopened(disk).records == RECORDS[:kept]
        if len(disk.content(PATH)) < len(whole):  # cut off: put it back for the next bit
            disk.cut(PATH, 0)


def test_zeros_behind_the_last_record_are_cut_off(
    disk: FaultyDisk, caplog: pytest.LogCaptureFixture
) -> None:
    Journal(disk, PATH).append(RECORDS)
    size = len(disk.content(PATH))
    disk.overwrite(PATH, bytes(100), size)
    journal = reopened(disk)
    assert (journal.records, journal.torn_bytes) == (RECORDS, 100)
    assert len(disk.content(PATH)) == size
    assert "cut off 100 bytes" in caplog.text


def test_a_failed_append_leaves_nothing(disk: FaultyDisk) -> None:
    disk.leaves_partial_writes = True
    journal = Journal(disk, PATH)
    journal.append([b"one"])
    disk.fill(5)
    with pytest.raises(DiskFullError):
        journal.append([b"two", b"three"])
    disk.heal()
    journal.append([b"four"])
    assert reopened(disk).records == [b"one", b"four"]


def test_replace_keeps_just_what_it_is_given(disk: FaultyDisk) -> None:
    journal = Journal(disk, PATH)
    journal.append([b"old"] * 10)
    journal.replace([b"a", b"b"])
    journal.append([b"c"])
    assert reopened(disk).records == [b"a", b"b", b"c"]
    assert disk.paths() == [PATH]


def test_a_failed_replace_keeps_the_old_records(disk: FaultyDisk) -> None:
    journal = Journal(disk, PATH)
    journal.append([b"old"])
    disk.fail("replace")
    with pytest.raises(StorageError):
        journal.replace([b"new"])
    journal.append([b"more"])
    assert reopened(disk).records == [b"old", b"more"]


def test_a_replace_that_failed_half_way_can_be_done_again(disk: FaultyDisk) -> None:
    """As the topic does: after a failed save the next one writes everything anew."""
    journal = Journal(disk, PATH)
    journal.append([b"old"])
    disk.fail("sync_directory")
    with pytest.raises(StorageError):
        journal.replace([b"new"])
    journal.replace([b"newer"])
    journal.append([b"more"])
    assert reopened(disk).records == [b"newer", b"more"]


def test_when_it_wants_compaction(disk: FaultyDisk) -> None:
    journal = Journal(disk, PATH)
    journal.append([bytes(COMPACT_BYTES_MIN - 12)])
    assert not journal.wants_compaction
    journal.append([b""])
    assert journal.wants_compaction
    journal.replace([b"still counts"])
    assert not journal.wants_compaction
    assert len(disk.content(PATH)) < 100


def test_what_all_counts_is_not_compacted_over_and_over(disk: FaultyDisk) -> None:
    journal = Journal(disk, PATH)
    journal.replace([bytes(COMPACT_BYTES_MIN - 12)])
    journal.append([bytes(7 * COMPACT_BYTES_MIN - 12)])
    assert not journal.wants_compaction
    journal.append([b""])
    assert journal.wants_compaction


@pytest.mark.parametrize("seed", range(20))
def test_what_was_synced_survives_a_power_cut(disk: FaultyDisk, seed: int) -> None:
    journal = Journal(disk, PATH)
    journal.append([b"old"])
    journal.replace([b"kept"])
    journal.append([b"synced"])
    journal.sync()
    unsynced = [b"%d" % n * 40 for n in range(5)]
    journal.append(unsynced)
    disk.crash(SystemChance(seed))
    records = Journal(disk, PATH).records
    assert records[:2] == [b"kept", b"synced"]
    assert records[2:] == unsynced[: len(records) - 2]


def test_a_closed_journal_takes_nothing(disk: FaultyDisk) -> None:
    journal = Journal(disk, PATH)
    journal.close()
    with pytest.raises(StorageError):
        journal.append([b"late"])
