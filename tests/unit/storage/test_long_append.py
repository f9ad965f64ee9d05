"""Appending more than should be in memory: nothing is seen before all is there."""

from __future__ import annotations

import errno

import pytest

from penstock.core.chance import SystemChance
from penstock.core.errors import DiskFullError, ReadOnlyError
from penstock.storage import long_append
from penstock.storage.batch import Batch
from penstock.storage.durability import Durability
from penstock.storage.log import Log
from penstock.storage.long_append import LongAppend
from tests.unit.storage.logs import ID_BASE, batch, fill, new_disk, new_log, reopen

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


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("kept", [1 << 20, 100])
def test_what_was_written_is_seen_when_it_is_taken_in(
    level: Durability, kept: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(long_append, "KEPT_BYTES_MAX", kept)
    disk = new_disk()
    log = new_log(disk, durability=level)
    fill(log, 3)
    log.sync()
    before = stored(log)
    written = write(log, 5, 4, 3)
    assert stored(log) == before
    log.end_append(written)
    log.sync()
    wanted = before + [bytes(each.raw) for each in parts(3, 5, 4, 3)]
    assert stored(log) == wanted
    after = fill(log, 2)
    log.sync()
    assert stored(log) == [*wanted, bytes(after[0].raw)]
    again, report = reopen(disk)
    assert stored(again) == [*wanted, bytes(after[0].raw)]
    assert report.torn == report.damaged == 0


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


def test_a_full_segment_is_followed_by_another() -> None:
    disk = new_disk()
    log = new_log(disk, max_bytes_per_file=500)
    fill(log, 3)
    written = log.begin_append(1000)
    for each in parts(3, 20, 20):
        written.write(each)
    log.end_append(written)
    assert [segment.first_offset for segment in log.segments] == [0, 3]
    assert len(stored(reopen(disk)[0])) == 3
