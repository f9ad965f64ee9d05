"""Opening a log: what is torn, damaged, swapped, missing or only reserved is told apart."""

import copy
from collections.abc import Sequence
from itertools import accumulate, combinations

import pytest

from penstock.core.errors import StorageError
from penstock.storage.batch import Batch
from penstock.storage.cache import BlockCache
from penstock.storage.extent import NOTHING, Extent
from penstock.storage.log import Log, LogOptions
from penstock.storage.recovery import opening as recovery
from penstock.storage.recovery.damage import DamageRecord
from penstock.storage.recovery.opening import recover
from penstock.storage.segment import GLANCE_BYTES
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

FIRST = f"{DIRECTORY}/{0:020d}.log"


def ends_of(written: Sequence[Batch]) -> list[int]:
    """The positions at which these batches begin in a file, and the end of the last one."""
    return [0, *accumulate(len(one.raw) for one in written)]


def quarantined(disk: FaultyDisk) -> list[bytes]:
    return [disk.content(path) for path in disk.paths(".bad")]


def test_a_torn_tail_is_cut_off_at_every_length() -> None:
    disk = new_disk()
    written = fill(new_log(disk), 2, 1, 2, mixed=True)
    whole, ends = disk.content(FIRST), ends_of(written)
    for size in range(len(whole) + 1):
        disk = new_disk()
        new_log(disk)
        disk.overwrite(FIRST, whole[:size])
        log, report = reopen(disk)
        good = sum(end <= size for end in ends) - 1
        assert everything(log) == frames(written[:good])
        assert report.torn == size - ends[good]
        assert disk.content(FIRST) == whole[: ends[good]]
        assert quarantined(disk) == []
        more = fill(log, 1)
        assert everything(reopen(disk)[0]) == frames(written[:good] + more)


def test_zeros_that_were_reserved_are_no_torn_tail(caplog: pytest.LogCaptureFixture) -> None:
    disk = new_disk()
    log = new_log(disk, max_bytes_per_file=300)
    written = fill(log, 2, 2, 2, 2)
    log.close()
    paths = disk.paths(".log")
    assert len(paths) > 1
    whole = [disk.content(path) for path in paths]
    for is_indexed in (True, False):
        for path, content in zip(paths, whole, strict=True):
            disk.overwrite(path, content + bytes(5000))
            if not is_indexed:
                disk.remove(path.replace(".log", ".index"))
        log, report = reopen(disk)
        assert everything(log) == frames(written)
        assert (report.torn, report.damaged) == (0, 0)
        assert [disk.content(path) for path in paths] == whole
    assert caplog.text == ""


def test_zeros_where_messages_are_missing_are_damage() -> None:
    disk = new_disk()
    fill(new_log(disk, max_bytes_per_file=300), 2, 2, 2, 2)
    first = disk.paths(".log")[0]
    disk.remove(first.replace(".log", ".index"))
    disk.overwrite(first, bytes(len(disk.content(first))))
    _, report = reopen(disk)
    assert report.damaged == len(disk.content(first))


def test_what_was_torn_within_reserved_zeros_is_cut_off() -> None:
    disk = new_disk()
    first, second = fill(new_log(disk), 2, 2)
    disk.overwrite(FIRST, disk.content(FIRST)[:-10] + bytes(5000))
    log, report = reopen(disk)
    assert everything(log) == frames([first])
    assert report.torn == len(second.raw) - 10 + 5000


def test_every_flipped_bit_costs_its_batch_at_most() -> None:
    disk = new_disk()
    log = new_log(disk)
    written = [*fill(log, 2, 1, 2, mixed=True), batch(5, 2, timestamp=9)]
    log.append(written[-1:])
    whole, ends = disk.content(FIRST), ends_of(written)
    for bit in range(8 * len(whole)):
        disk = new_disk()
        new_log(disk)
        disk.overwrite(FIRST, whole)
        disk.flip(FIRST, bit)
        at = sum(end <= bit // 8 for end in ends) - 1
        hit = written[at]
        log, report = reopen(disk)
        assert everything(log) == frames(written[:at] + written[at + 1 :])
        if hit is written[-1]:
            assert report.torn == len(hit.raw)
            assert log.next_offset == hit.first_offset
            continue
        (copy,), (damage,) = quarantined(disk), log.damage.pending
        assert len(copy) == report.damaged == len(hit.raw)
        assert damage.copy == f"{0:020d}.log-{ends[at]}.bad"
        assert (damage.first, damage.next) == (hit.first_offset, hit.next_offset)
        assert log.next_offset == 7
        assert disk.content(FIRST)[ends[at] : ends[at + 1]] == copy


def test_damage_in_a_finished_segment_is_not_read_again_once_it_is_known() -> None:
    disk = new_disk()
    written = fill(new_log(disk, max_bytes_per_file=250), *[1] * 4)
    disk.flip(FIRST, 8 * (len(disk.content(FIRST)) - 1))
    for damaged in (len(written[1].raw), 0):
        log, report = reopen(disk)
        assert (report.torn, report.damaged) == (0, damaged)
        assert everything(log) == frames([written[0], *written[2:]])
        log.sync()


def test_offsets_rise_although_the_newest_segment_lost_its_name() -> None:
    disk = new_disk()
    log = new_log(disk)
    fill(log, 5)
    log.segments[0].file.close()
    disk.replace_file(f"{DIRECTORY}/{2:020d}.log", b"")  # claims offsets that another one has
    log, _ = reopen(disk)
    assert log.next_offset == 5
    assert all(log.batch_at(offset) for offset in range(5))
    written = fill(log, 1)
    assert everything(reopen(disk)[0])[5] == frames(written)[5]


def test_a_segment_that_could_not_be_made_hides_nothing_after_a_restart() -> None:
    disk = new_disk()
    log = new_log(disk, max_bytes_per_file=300)
    written = fill(log, 1, 1)
    disk.fail("remove", within=f"{2:020d}.index")  # of an earlier segment, as the new one is made
    with pytest.raises(StorageError):
        fill(log, 9)
    written += fill(log, 1)  # which fits into the first one
    assert disk.list(DIRECTORY).count(f"{2:020d}.log") == 1
    written += fill(log, 9)
    log, _ = reopen(disk)
    assert everything(log) == frames(written)
    found = [log.batch_at(offset) for offset in range(log.next_offset)]
    assert [each and each.first_offset for each in found] == [0, 1, 2, *[3] * 9]


def test_overlapping_segments_give_each_offset_once() -> None:
    disk = new_disk()
    written = fill(new_log(disk), 3)
    disk.replace_file(f"{DIRECTORY}/{1:020d}.log", bytes(batch(1, 2).raw) + bytes(batch(3).raw))
    log, report = reopen(disk)
    assert everything(log) == frames([*written, batch(3)])
    assert all(log.batch_at(offset) for offset in range(4))
    assert report.damaged == len(batch(1, 2).raw)


@pytest.mark.parametrize("spoil", [b"", b"PSI1", bytes(100)])
def test_a_damaged_index_is_not_believed(spoil: bytes) -> None:
    disk = new_disk()
    log = new_log(disk)
    written = fill(log, 1, 2)
    log.close()
    (index,) = disk.paths(".index")
    disk.replace_file(index, spoil)
    log, report = reopen(disk)
    assert report.scanned == log.nbytes
    assert everything(log) == frames(written)


def test_an_index_of_an_earlier_time_is_read_on_from() -> None:
    disk = new_disk()
    log = new_log(disk)
    written = fill(log, 1, 2)
    log.sync(checkpoint=True)
    known = log.nbytes
    written += fill(log, 1)
    log, report = reopen(disk)
    assert report.scanned == log.nbytes - known
    assert everything(log) == frames(written)


def test_an_index_that_knows_more_than_the_file_holds_is_removed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    disk = new_disk()
    log = new_log(disk)
    fill(log, 1, 2)
    log.close()
    disk.cut(FIRST, 150)
    assert lost(recovered(disk, NOTHING)) == [(1, 3)]
    assert disk.paths(".index") == []
    assert "shorter than its index says" in caplog.text


def test_a_killed_recovery_leaves_no_index_that_knows_half(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(recovery, "WINDOW_BYTES", 300)
    disk = new_disk()
    written = fill(new_log(disk, max_bytes_per_file=3000), *[1] * 40)
    disk.fail("read", 4, within=".log")
    with pytest.raises(StorageError):
        reopen(disk)
    assert everything(reopen(disk)[0]) == frames(written)


def test_a_full_disk_can_be_started_from(caplog: pytest.LogCaptureFixture) -> None:
    disk = new_disk()
    written = fill(new_log(disk, max_bytes_per_file=250), *[1] * 5)
    disk.flip(FIRST, 600)
    disk.fill()
    log, report = reopen(disk)
    assert everything(log) == frames(written[1:])
    assert report.damaged == len(written[0].raw)
    assert "cannot copy damaged bytes" in caplog.text
    log.close()


# --- messages that should be there ---------------------------------------------------------------


def recovered(disk: FaultyDisk, known: Extent | None, *, is_newest: bool = True) -> Log:
    disk.crash("written")
    damage = DamageRecord(disk, DIRECTORY)
    log, _ = recover(disk, DIRECTORY, ID_BASE, BlockCache(), LogOptions(), damage, known,
                     is_newest=is_newest)  # fmt: skip
    return log


def lost(log: Log) -> list[tuple[int, int]]:
    return [(each.first, each.next) for each in log.damage.pending]


@pytest.mark.parametrize("zeros", [0, 9999])
def test_a_synced_tail_that_is_cut_off_or_zeros_is_lost(zeros: int) -> None:
    disk = new_disk()
    written = fill(new_log(disk), 1, 2, 3)
    disk.cut(FIRST, 150)
    disk.overwrite(FIRST, bytes(zeros), 150)
    log = recovered(disk, Extent(0, 6, 6))
    assert lost(log) == [(1, 6)]
    assert everything(log) == frames(written[:1])
    assert log.next_offset == 6, "no offset is given twice"
    more = fill(log, 1)
    log = recovered(disk, Extent(0, 6, 7))
    assert lost(log) == [(1, 6)], "and it is not reported twice"
    assert everything(log) == frames([written[0], *more])


def test_a_tail_that_was_not_synced_is_counted_and_not_pending() -> None:
    disk = new_disk()
    fill(new_log(disk), 1, 2, 3)
    disk.cut(FIRST, 150)
    log = recovered(disk, Extent(0, 1, 6))
    assert (lost(log), log.damage.lost_messages, log.next_offset) == ([], 5, 6)


def test_a_hole_in_what_was_never_synced_is_counted_and_not_pending() -> None:
    disk = new_disk()
    fill(new_log(disk), 1, 2, 3)
    disk.overwrite(FIRST, bytes(40), 100)  # as a power cut leaves it soon after the topic was made
    again = copy.deepcopy(disk)
    log = recovered(disk, NOTHING)
    assert (lost(log), log.damage.lost_messages, log.next_offset) == ([], 2, 6)
    assert lost(recovered(again, None)) == [(1, 3)], "nobody knows whether it was synced"


def test_each_segment_that_is_gone_is_missed() -> None:
    whole = new_disk()
    log = new_log(whole, max_bytes_per_file=150)
    fill(log, *[1] * 5)
    log.close()
    for gone in range(5):
        disk = copy.deepcopy(whole)
        disk.remove(f"{DIRECTORY}/{gone:020d}.log")
        log = recovered(disk, Extent(0, 5, 5))
        assert lost(log) == [(gone, gone + 1)]
        assert log.next_offset == 5
        log.damage.accept(log.start_offset)
        assert lost(recovered(disk, log.extent)) == []


def test_a_log_of_which_all_is_gone_goes_on_where_it_was() -> None:
    disk = new_disk()
    fill(new_log(disk), 4)
    disk.remove(FIRST)
    log = recovered(disk, Extent(2, 4, 4))
    assert (lost(log), log.next_offset) == ([(2, 4)], 4)


def test_what_was_deleted_on_purpose_is_not_missed() -> None:
    disk = new_disk()
    fill(new_log(disk, max_bytes_per_file=150), *[1] * 5)
    disk.remove(FIRST)
    assert lost(recovered(disk, Extent(1, 5, 5))) == []
    disk.remove(f"{DIRECTORY}/{1:020d}.log")
    assert lost(recovered(disk, Extent(1, 5, 5), is_newest=False)) == []


@pytest.mark.parametrize("is_newest", [True, False])
def test_what_a_power_cut_brings_back_of_deleted_segments_is_deleted(is_newest: bool) -> None:
    disk = new_disk()
    written = fill(new_log(disk, max_bytes_per_file=150), *[1] * 5)
    disk.remove(f"{DIRECTORY}/{1:020d}.log")
    log = recovered(disk, Extent(2, 5, 5), is_newest=is_newest)
    assert (lost(log), log.start_offset) == ([], 2)
    assert everything(log) == frames(written[2:])
    assert not disk.paths(f"{0:020d}.log")
    assert lost(recovered(disk, log.extent)) == []


def test_gaps_of_an_earlier_versions_log_are_known_from_the_first_start_on() -> None:
    disk = new_disk()
    fill(new_log(disk, max_bytes_per_file=150), *[1] * 5)
    disk.remove(f"{DIRECTORY}/{2:020d}.log")
    assert lost(recovered(disk, NOTHING)) == []
    assert lost(recovered(disk, Extent(0, 5, 5))) == []


def test_a_torn_tail_is_copied_before_it_is_cut(caplog: pytest.LogCaptureFixture) -> None:
    disk = new_disk()
    written = fill(new_log(disk), 2, 1)
    disk.overwrite(FIRST, b"torn\0\0", len(disk.content(FIRST)))
    reopen(disk)
    (path,) = disk.paths(".torn")
    assert disk.content(path) == b"torn"
    assert f"quarantine/{path.rpartition('/')[2]} and cut off" in caplog.text
    disk.overwrite(FIRST, b"torn", len(disk.content(FIRST)))
    disk.crash("written")
    disk.fill()
    log, report = reopen(disk)
    assert report.torn == 4
    assert disk.content(FIRST).endswith(b"torn"), "what cannot be copied stays"
    disk.heal()
    more = fill(log, 1)
    assert everything(reopen(disk)[0]) == frames([*written, *more])


def test_zeros_within_what_the_index_speaks_of_are_seen_at_the_start() -> None:
    """After a clean stop, this is the only part of an indexed segment that is read."""
    disk = new_disk()
    log = new_log(disk)
    written = fill(log, *[1] * 20, size=90)
    log.close()
    whole = disk.content(FIRST)
    start = sum(len(one.raw) for one in written[:15])
    assert len(whole) - start > GLANCE_BYTES
    disk.overwrite(FIRST, bytes(len(whole) - start), start)
    log = recovered(disk, Extent(0, 20, 20))
    assert lost(log) == [(15, 20)]
    assert everything(log) == frames(written[:15])
    assert disk.paths(".index") == []
    more = fill(log, 1)
    log.close()
    assert everything(recovered(disk, Extent(0, 21, 21))) == frames([*written[:15], *more])


def test_bodies_of_zeros_are_no_damage() -> None:
    disk = new_disk()
    log = new_log(disk)
    written = fill(log, 1, 1, size=2000)
    log.close()
    assert not disk.content(FIRST)[-600:].strip(b"\0_")
    log = recovered(disk, Extent(0, 2, 2))
    assert (lost(log), everything(log)) == ([], frames(written))


def test_damage_that_is_met_when_it_is_read_is_reported_once() -> None:
    disk = new_disk()
    log = new_log(disk)
    written = fill(log, 1, 1, 1)
    log.close()
    log = recovered(disk, Extent(0, 3, 3))
    start = len(written[0].raw)
    disk.flip(FIRST, 8 * (start + 70))
    assert everything(log) == frames([written[0], written[2]])
    assert lost(log) == [(1, 2)]
    assert quarantined(disk) == [disk.content(FIRST)[start : start + len(written[1].raw)]]
    log = recovered(disk, Extent(0, 3, 3))
    assert everything(log) == frames([written[0], written[2]])
    assert (lost(log), log.damage.lost_messages) == ([(1, 2)], 1)


def swap(disk: FaultyDisk, one: str, other: str) -> None:
    contents = disk.content(one), disk.content(other)
    for path, content in zip((other, one), contents, strict=True):
        disk.remove(path)
        disk.open(path).append(content)


@pytest.mark.parametrize("is_indexed", [True, False])
@pytest.mark.parametrize("pair", [*combinations(range(5), 2)])
def test_two_segments_swapped_cost_no_other(pair: tuple[int, int], is_indexed: bool) -> None:
    disk = new_disk()
    log = new_log(disk, max_bytes_per_file=250)
    written = [one for size in (30, 5, 60, 12, 45) for one in fill(log, 1, 1, size=size)]
    if is_indexed:
        log.close()
    paths = disk.paths(".log")
    assert len(paths) > max(pair) + 1
    one, other = (paths[number] for number in pair)
    swap(disk, one, other)
    log, _ = reopen(disk)
    kept = [
        batch for batch in written
        if not (in_file(one, batch, paths) or in_file(other, batch, paths))
    ]  # fmt: skip
    assert everything(log) == frames(kept)


def in_file(path: str, one: Batch, paths: Sequence[str]) -> bool:
    """Whether this batch was written to this segment."""
    firsts = [int(each.rpartition("/")[2].removesuffix(".log")) for each in paths]
    at = paths.index(path)
    return firsts[at] <= one.first_offset < firsts[at + 1]


@pytest.mark.parametrize("pair", [(0, 2), (0, 1)])
def test_two_indexes_swapped_cost_nothing(
    pair: tuple[int, int], caplog: pytest.LogCaptureFixture
) -> None:
    disk = new_disk()
    log = new_log(disk, max_bytes_per_file=250)
    written = fill(log, *[1] * 9)
    log.close()
    one, other = (disk.paths(".index")[number] for number in pair)
    swap(disk, one, other)
    log, _ = reopen(disk)
    assert everything(log) == frames(written)
    assert not log.damage.pending
    assert caplog.text.count("another segment's, reading the segment instead") == 2


def test_a_segment_of_another_queue_costs_itself_alone() -> None:
    disk = new_disk()
    written = fill(new_log(disk, max_bytes_per_file=250), *[1] * 9)
    paths = disk.paths(".log")
    stranger = Batch.build(0, ID_BASE + 77, 0, 1, 8, [b"stranger"])
    disk.remove(paths[0])
    disk.open(paths[0]).append(bytes(stranger.raw))
    log, _ = reopen(disk)
    kept = [one for one in written if not in_file(paths[0], one, paths)]
    assert everything(log) == frames(kept)


@pytest.mark.parametrize("size", [12, 9000])
def test_index_files_that_were_swapped_cost_nothing(size: int) -> None:
    disks = new_disk(), new_disk()
    written, indexes = [], []
    for number, disk in enumerate(disks):
        log = reopen(disk, id_base=ID_BASE + number * (1 << 40))[0]
        batches = [
            Batch.build(o, log.id_base + o, 1, 1, size + number, [b"x" * (size + number)])
            for o in range(100)
        ]
        log.append(batches)
        log.close()
        written.append(frames(batches))
        indexes.append(disk.content(disk.paths(".index")[0]))
    for number, disk in enumerate(disks):
        disk.replace_file(disk.paths(".index")[0], indexes[1 - number])
        log, report = reopen(disk)
        assert everything(log) == written[number]
        assert not log.damage.pending
        assert report.scanned == log.nbytes
