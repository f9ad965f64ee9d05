"""Commits of several batches: a crash leaves all of each, or nothing."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from penstock.storage.batch import HEADER_BYTES, Batch
from penstock.storage.cache import BlockCache
from penstock.storage.extent import Extent
from penstock.storage.log import Log, LogOptions
from penstock.storage.recovery.damage import DamageRecord
from penstock.storage.recovery.opening import recover
from penstock.storage.recovery.torn_commit import CommitStart, TornCommit
from penstock.testing.disk import FaultyDisk
from tests.unit.storage.logs import DIRECTORY, ID_BASE, everything, fill, frames, new_disk, new_log
from tests.unit.storage.logs import reopen as reopen_without_journal

FIRST = f"{DIRECTORY}/{0:020d}.log"


def commit(first: int, *counts: int) -> list[Batch]:
    """The batches of one commit."""
    batches = []
    for place, count in enumerate(counts):
        bodies = [b"%03d" % offset for offset in range(first, first + count)]
        batches.append(
            Batch.build(first, ID_BASE + first, 1000, count, 3, bodies,
                        goes_on=place < len(counts) - 1, went_before=place > 0)
        )  # fmt: skip
        first += count
    return batches


def look(*batches: Batch) -> CommitStart | None:
    """Look at a segment of these batches."""
    torn = TornCommit()
    position, next_offset = 0, 0
    for batch in batches:
        torn.look(batch, CommitStart(position, next_offset, 0, 0))
        position += len(batch.raw)
        next_offset = batch.next_offset
    return torn.end()


def test_whole_commits_are_not_torn() -> None:
    assert look() is None
    assert look(*commit(0, 1), *commit(1, 2, 1, 1), *commit(5, 1, 1), *commit(7, 3)) is None


@pytest.mark.parametrize("left", [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2)])
@pytest.mark.parametrize("more", [(), (2,), (1, 1)])
def test_any_part_of_a_commit_is_noticed_whatever_follows(
    left: Sequence[int], more: Sequence[int]
) -> None:
    before, three, behind = commit(0, 2, 1), commit(3, 1, 2, 1), commit(7, *more)
    torn = look(*before, *(three[place] for place in left), *behind)
    size = sum(len(batch.raw) for batch in before)
    assert torn is not None
    assert (torn.position, torn.next_offset) == (size, 3)


def test_the_first_of_several_torn_commits_is_found() -> None:
    torn = look(*commit(0, 1), *commit(1, 1, 1)[:1], *commit(2, 1, 1)[1:])
    assert torn is not None
    assert torn.next_offset == 1


def filled(disk: FaultyDisk) -> list[Batch]:
    """Two batches, a commit of four and what comes after it, in one segment."""
    log = new_log(disk)
    batches = fill(log, 2, 1)
    together = commit(3, 2, 1, 3, 1)
    log.append(together)
    return [*batches, *together, *fill(log, 1)]


def reopen(disk: FaultyDisk, synced: int) -> Log:
    """The log as recovery finds it when the journal says up to where it was synced."""
    known = Extent(0, synced, synced)
    damage = DamageRecord(disk, DIRECTORY)
    return recover(disk, DIRECTORY, ID_BASE, BlockCache(), LogOptions(), damage, known)[0]


def test_a_commit_torn_at_any_byte_goes_as_a_whole_and_its_offsets_are_given_again() -> None:
    disk = new_disk()
    batches = filled(disk)
    whole = disk.content(FIRST)
    start = sum(len(batch.raw) for batch in batches[:2])
    end = sum(len(batch.raw) for batch in batches[:6])
    for size in range(start, end):
        disk = new_disk()
        new_log(disk)
        disk.overwrite(FIRST, whole[:size])
        log, report = reopen_without_journal(disk)
        assert everything(log) == frames(batches[:2])
        assert disk.content(FIRST) == whole[:start]
        assert report.torn >= size - start
        assert not log.damage.pending
        more = commit(3, 1, 1)
        log.append(more)
        assert everything(reopen_without_journal(disk)[0]) == frames(batches[:2] + more)


@pytest.mark.parametrize("place", [2, 3, 4, 5])
def test_a_power_cut_that_takes_one_batch_of_a_commit_takes_it_all(place: int) -> None:
    """Sectors arrive in any order, so that whole batches may stand behind one that is not."""
    disk = new_disk()
    batches = filled(disk)
    data = bytearray(disk.content(FIRST))
    body = sum(len(batch.raw) for batch in batches[:place]) + HEADER_BYTES
    data[body : body + 3] = bytes(3)
    disk.overwrite(FIRST, bytes(data))
    log = reopen(disk, synced=3)
    assert everything(log) == frames(batches[:2])
    assert not log.damage.pending
    assert everything(reopen(disk, synced=3)) == frames(batches[:2])


def test_of_a_damaged_commit_that_was_synced_all_that_can_be_read_stays() -> None:
    disk = new_disk()
    batches = filled(disk)
    start = sum(len(batch.raw) for batch in batches[:3])
    disk.flip(FIRST, 8 * (start + HEADER_BYTES))
    log = reopen(disk, synced=11)
    assert everything(log) == frames(batches[:3] + batches[4:])
    assert [(each.first, each.next) for each in log.damage.pending] == [(5, 6)]


def test_a_torn_commit_is_copied_before_it_is_cut_off() -> None:
    disk = new_disk()
    batches = filled(disk)
    start, end = (sum(len(batch.raw) for batch in batches[:count]) for count in (2, 4))
    data = disk.content(FIRST)[start:end]
    disk.cut(FIRST, end)
    reopen(disk, synced=3)
    (copy,) = disk.paths(".torn")
    assert disk.content(copy) == data


def test_a_commit_torn_at_the_end_of_a_finished_segment_leaves_a_gap() -> None:
    disk = new_disk()
    log = new_log(disk, max_bytes_per_file=400)
    batches = fill(log, 2, 1)
    together = commit(3, 2, 2)
    log.append(together)
    after = fill(log, 9, 9)  # in another segment
    assert len(log.segments) > 1
    path = log.segments[0].file.path
    disk.cut(path, len(disk.content(path)) - len(together[1].raw))
    log = reopen(disk, synced=3)
    assert everything(log) == frames(batches + after)
    assert log.next_offset == after[-1].next_offset
    assert not log.damage.pending


class OldestContent:
    """A chance by which a power cut leaves what was durable, and nothing newer."""

    def below(self, limit: int) -> int:
        return limit - 1

    def fraction(self) -> float:
        return 0.0


def test_what_was_cut_off_does_not_come_back() -> None:
    """Or it could seem to be the beginning of the commit that is written in its place."""
    disk = new_disk()
    log = new_log(disk)
    batches = fill(log, 2, 1)
    log.append(commit(3, 2, 1)[:1])
    log.sync()
    disk.crash("written")
    reopen(disk, synced=3)
    disk.crash(OldestContent())
    assert disk.content(FIRST) == b"".join(bytes(batch.raw) for batch in batches)


def test_a_log_takes_nothing_when_the_cut_cannot_be_synced() -> None:
    disk = new_disk()
    log = new_log(disk)
    fill(log, 2, 1)
    log.append(commit(3, 2, 1)[:1])
    disk.crash("written")
    disk.fail("sync", within=".log")
    assert reopen(disk, synced=3).failure is not None


@pytest.mark.parametrize("is_first_lost", [False, True])
def test_what_a_power_cut_took_from_the_start_of_a_log_is_no_damage_later(
    is_first_lost: bool,
) -> None:
    """A commit alone, and one behind a batch that is lost as well: one loss in two pieces."""
    disk = new_disk()
    log = new_log(disk, max_bytes_per_file=300 if is_first_lost else 200)
    if is_first_lost:
        (first,) = fill(log, 2)
    together = commit(log.append_offset, 2, 2)
    log.append(together)
    after = fill(log, 9, 9)
    assert len(log.segments) > 1
    path = log.segments[0].file.path
    if is_first_lost:
        disk.overwrite(path, b"\xff" * len(first.raw))
    disk.cut(path, len(disk.content(path)) - len(together[1].raw))
    end = reopen(disk, synced=0).next_offset
    log = reopen(disk, synced=end)
    assert everything(log) == frames(after)
    assert not log.damage.pending


def test_a_segment_of_damage_alone_is_written_on_however_large_it_is() -> None:
    """The next segment would have its name, and two would write to one file."""
    disk = new_disk()
    log = new_log(disk)
    (first,) = fill(log, 2)
    log.append(commit(2, 2, 2)[:1])
    disk.overwrite(FIRST, b"\xff" * len(first.raw))
    log = reopen(disk, synced=0)
    assert log.segments[0].size == len(first.raw)
    log.options = LogOptions(max_bytes_per_file=len(first.raw))
    more = [*fill(log, 2), *fill(log, 2)]
    assert len({segment.file.path for segment in log.segments}) == len(log.segments)
    assert everything(log) == frames(more)
    assert everything(reopen(disk, synced=0)) == frames(more)


def test_a_part_of_a_commit_goes_although_what_stood_before_it_was_lost() -> None:
    """It was not synced, while the lost messages were."""
    disk = new_disk()
    log = new_log(disk)
    (first,), (second,) = fill(log, 2), fill(log, 2)
    log.append(commit(4, 2, 2)[:1])
    disk.overwrite(FIRST, b"\xff" * len(second.raw), len(first.raw))
    log = reopen(disk, synced=4)
    assert everything(log) == frames([first])
    assert log.next_offset == 4
    after = fill(log, 3)
    assert everything(reopen(disk, synced=4)) == frames([first, *after])
