"""What is seen of a log: at fsync what survives a power cut, of a commit all or nothing."""

from __future__ import annotations

import errno

import pytest

from penstock.core.chance import SystemChance
from penstock.core.errors import (
    DiskFullError,
    OffsetOutOfRangeError,
    ReadOnlyError,
    StorageError,
    TooManyFilesError,
)
from penstock.storage import log as log_module
from penstock.storage import long_append
from penstock.storage.batch import Batch
from penstock.storage.cache import BlockCache
from penstock.storage.durability import Durability
from penstock.storage.extent import Extent
from penstock.storage.log import Log, LogOptions, SyncJob
from penstock.storage.long_append import LongAppend
from penstock.storage.recovery.damage import DamageRecord
from penstock.storage.recovery.opening import recover
from penstock.testing.disk import FaultyDisk
from tests.unit.storage.logs import (
    DIRECTORY,
    ID_BASE,
    batch,
    everything,
    fill,
    frames,
    new_disk,
    new_log,
    reopen,
)

FSYNC = Durability.FSYNC


def begun(log: Log) -> SyncJob:
    job = log.begin_sync()
    assert job is not None
    return job


def ends(log: Log) -> tuple[int, int]:
    return log.next_offset, log.append_offset


def test_what_a_failed_sync_was_to_keep_is_never_seen() -> None:
    disk = new_disk()
    log = new_log(disk, durability=FSYNC)
    fill(log, 1)
    log.sync()
    fill(log, 2)
    disk.fail("sync", within=".log")
    with pytest.raises(StorageError):
        log.sync()
    assert ends(log) == (1, 3)
    assert log.begin_sync() is None
    assert log.failure is not None


def test_after_a_want_of_files_the_next_sync_shows_it() -> None:
    disk = new_disk()
    log = new_log(disk, durability=FSYNC)
    written = fill(log, 2)
    disk.fail("sync_directory", code=errno.EMFILE)
    with pytest.raises(TooManyFilesError):
        log.sync()
    assert ends(log) == (0, 2)
    begun(log).run()
    assert log.end_sync() == written
    assert ends(log) == (2, 2)


def test_a_disk_that_stalls_for_long_takes_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_module, "UNSEEN_BYTES_MAX", 300)
    log = new_log(new_disk(), durability=FSYNC)
    fill(log, 5, 5)
    with pytest.raises(StorageError, match="too slow: 328 bytes wait for a sync"):
        log.append([batch(10)])
    assert ends(log) == (0, 10)
    log.sync()
    fill(log, 1)
    log.sync()
    assert ends(log) == (11, 11)


def test_a_log_that_cannot_be_synced_at_its_start_is_read_and_takes_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    disk = new_disk()
    written = fill(new_log(disk, durability=FSYNC), 2)
    disk.crash("written")
    disk.fail("sync", within=".log")
    log = new_log(disk, durability=FSYNC)
    assert "cannot sync what was found" in caplog.text
    assert everything(log) == frames(written)
    with pytest.raises(StorageError, match="read-only"):
        fill(log, 1)


def after_a_failed_sync(disk: FaultyDisk, level: Durability) -> tuple[list[Batch], Extent]:
    """A log with one batch whose sync has failed, started again, synced and ended; the extent."""
    log = new_log(disk, durability=level)
    written = fill(log, 1)
    disk.fail("sync", within=".log")
    with pytest.raises(StorageError):
        log.sync()
    log.close()
    log = new_log(disk, durability=level)
    assert everything(log) == frames(written)
    extent = log.extent
    log.close()
    disk.crash(SystemChance(6155))
    return written, extent


def test_at_fsync_a_start_writes_again_what_a_failed_sync_left_in_the_cache() -> None:
    disk = new_disk()
    written, _ = after_a_failed_sync(disk, FSYNC)
    assert everything(new_log(disk, durability=FSYNC)) == frames(written)


def test_at_write_what_a_failed_sync_left_in_the_cache_is_told_when_a_power_cut_takes_it() -> None:
    disk = new_disk()
    _, extent = after_a_failed_sync(disk, Durability.WRITE)
    extent = Extent(extent.start, extent.end, extent.end)  # as close has recorded it
    damage = DamageRecord(disk, DIRECTORY)
    log, _ = recover(disk, DIRECTORY, ID_BASE, BlockCache(0), LogOptions(), damage, extent)
    assert (everything(log), ends(log)) == ({}, (1, 1))
    assert damage.pending
    assert damage.lost_messages == 1


def test_a_log_that_cannot_be_written_again_is_read_and_takes_nothing() -> None:
    disk = new_disk()
    written = fill(new_log(disk, durability=FSYNC), 2)
    disk.crash("written")
    disk.fail("append", within=".log")
    log = new_log(disk, durability=FSYNC)
    assert everything(log) == frames(written)
    with pytest.raises(StorageError, match="read-only"):
        fill(log, 1)


def test_a_start_after_a_clean_stop_syncs_nothing() -> None:
    disk = new_disk()
    log = new_log(disk, durability=FSYNC)
    fill(log, 2)
    log.close()
    before = disk.sync_count
    assert ends(new_log(disk, durability=FSYNC)) == (2, 2)
    assert disk.sync_count == before


@pytest.fixture
def disk() -> FaultyDisk:
    return new_disk()


def copied(log: Log, offset: int = 0, nbytes: int = 1 << 20) -> list[bytes]:
    """What a copy of the log gets from an offset on."""
    return [bytes(each) for each in log.read_raw(offset, nbytes, for_copy=True)]


def test_where_copies_are_awaited_they_get_what_nobody_sees_yet() -> None:
    log = new_log(new_disk(), awaits_copies=True)
    written = fill(log, 3, 2, 4)
    raw = [bytes(each.raw) for each in written]
    assert (ends(log), log.copies_end, everything(log)) == ((0, 9), 9, {})
    assert copied(log) == raw
    assert copied(log, 3) == raw[1:]
    assert copied(log, 0, 1) == raw[:1]
    assert log.show(5) == written[:2]
    assert ends(log) == (5, 9)
    assert copied(log) == raw
    assert copied(log, 9) == []
    assert [log.last_of(end) for end in (3, 4, 5, 9)] == [written[0], None, *written[1:]]
    with pytest.raises(OffsetOutOfRangeError):
        log.read_raw(6, 100)
    assert not log.takes_one


def test_at_fsync_copies_get_what_is_synced() -> None:
    log = new_log(new_disk(), durability=FSYNC, awaits_copies=True)
    first = fill(log, 2)
    begun(log).run()
    fill(log, 3)
    assert log.end_sync() == []
    assert (ends(log), log.copies_end) == ((0, 5), 2)
    assert copied(log) == [bytes(each.raw) for each in first]


def test_copies_get_what_stands_behind_messages_that_are_lost() -> None:
    disk = new_disk()
    log = new_log(disk, awaits_copies=True)
    fill(log, 3)
    log.show(3)
    log.skip_to(5)
    later = fill(log, 2)
    assert copied(log, 3) == [bytes(later[0].raw)]
    assert log.last_of(5) is None


def test_a_commit_that_is_not_in_memory_is_read_for_copies() -> None:
    log = new_log(new_disk(), awaits_copies=True)
    commit = log.begin_append(0)
    parts = [
        batch(0, 2).moved(0, ID_BASE, 7, 0, goes_on=True, went_before=False),
        batch(2, 2).moved(2, ID_BASE + 2, 7, 0, goes_on=False, went_before=True),
    ]
    for each in parts:
        commit.write(each)
    log.end_append(commit)
    assert ends(log) == (0, 4)
    assert copied(log) == [bytes(each.raw) for each in parts]
    last = log.last_of(4)
    assert last is not None
    assert last.checksum == parts[1].checksum


def test_copies_that_are_too_slow_stop_writing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_module, "UNSEEN_BYTES_MAX", 10)
    log = new_log(new_disk(), awaits_copies=True)
    fill(log, 1)
    with pytest.raises(StorageError, match=r"its copies are too slow: .* wait for a copy"):
        fill(log, 1)
    log.show(1)
    fill(log, 1)


# --- Appending more than should be in memory: nothing is seen before all is there ----------------


LEVELS = [Durability.MEMORY, Durability.WRITE, Durability.FSYNC]


def parts(first: int, *counts: int, size: int = 12) -> list[Batch]:
    """Batches of one commit from this offset on."""
    found = []
    for place, count in enumerate(counts):
        one = batch(first, count, size=size, mixed=place % 2 == 1)
        found.append(
            one.moved(first, ID_BASE + first, 7, 0, goes_on=place < len(counts) - 1,
                      went_before=place > 0)
        )  # fmt: skip
        first += count
    return found


def write(log: Log, *counts: int, size: int = 12) -> LongAppend:
    written = log.begin_append(0)
    for each in parts(log.append_offset, *counts, size=size):
        written.write(each)
    return written


def stored(log: Log) -> list[bytes]:
    """All batches as stored."""
    return [bytes(raw) for raw in log.read_raw(log.start_offset, 1 << 30)]


def test_of_much_only_the_heads_stay_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(long_append, "KEPT_BYTES_MAX", 2000)
    log = new_log(new_disk())
    written = write(log, 10, 10, 100, 100)
    assert [each.is_head for each in written.batches] == 4 * [True]
    assert [each.nbytes for each in written.batches] == [
        len(each.raw) for each in parts(0, 10, 10, 100, 100)
    ]
    assert sum(len(each.raw) for each in written.batches) == 4 * 64


def test_a_kept_batch_does_not_change_with_the_buffer_it_came_in() -> None:
    log = new_log(new_disk())
    written = log.begin_append(0)
    (one,) = parts(0, 3)
    wanted = bytes(one.raw)
    written.write(one)
    one.raw[:] = bytes(len(one.raw))
    log.end_append(written)
    assert stored(log) == [wanted]


@pytest.mark.parametrize("level", LEVELS)
def test_a_crash_leaves_nothing_of_what_was_not_taken_in(level: Durability) -> None:
    for seed in range(30):
        disk = new_disk()
        log = new_log(disk, durability=level)
        fill(log, 3)
        log.sync()
        before = stored(log)
        write(log, 5, 4)
        disk.crash("written" if seed == 0 else SystemChance(seed))
        assert stored(reopen(disk)[0])[: len(before)] == before
        assert len(stored(reopen(disk)[0])) in (1, 3)  # all of it may have come to the disk


def test_what_was_dropped_does_not_come_back_after_a_power_cut() -> None:
    for seed in range(30):
        disk = new_disk()
        log = new_log(disk)
        fill(log, 3)
        log.sync()
        written = write(log, 5, 4)
        log.segments[-1].file.sync()  # as a sync in the background does meanwhile
        log.cancel_append(written)
        assert log.failure is None
        disk.crash(SystemChance(seed))
        assert len(stored(reopen(disk)[0])) == 1


def test_a_full_disk_leaves_nothing_and_the_log_goes_on() -> None:
    disk = new_disk()
    log = new_log(disk)
    fill(log, 3)
    written = log.begin_append(0)
    first, second = parts(3, 5, 4)
    written.write(first)
    disk.fill(10)
    with pytest.raises(DiskFullError):
        written.write(second)
    log.cancel_append(written)
    disk.heal()
    after = fill(log, 2)
    assert stored(reopen(disk)[0])[1:] == [bytes(after[0].raw)]


def test_a_log_takes_no_more_when_what_was_written_cannot_be_cut_off() -> None:
    disk = new_disk()
    log = new_log(disk)
    written = write(log, 5, 4)
    disk.fail("truncate", 1, within=".log", code=errno.EIO)
    log.cancel_append(written)
    with pytest.raises(ReadOnlyError):
        fill(log, 1)
    with pytest.raises(ReadOnlyError):
        log.begin_append(0)
