"""The index of hashes: what is found, and what crashes leave of it."""

from __future__ import annotations

import pytest

from penstock.core.chance import SystemChance
from penstock.core.errors import DiskFullError
from penstock.storage.batch import Batch
from penstock.storage.log import Log
from penstock.storage.queues import hash_index
from penstock.storage.queues.hash_index import DamagedIndexError, HashIndex
from penstock.storage.retention import Retention
from penstock.testing.disk import FaultyDisk
from tests.unit.storage.logs import DIRECTORY, batch, fill, new_disk, new_log, reopen

EVERYTHING = (0, 1 << 62)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks of few rows, files of few chunks."""
    monkeypatch.setattr(hash_index, "CHUNK_ROWS", 8)
    monkeypatch.setattr(hash_index, "FILE_BYTES", 200)


def indexed(*counts: int, **options: object) -> tuple[FaultyDisk, Log, HashIndex]:
    """A log with batches of these counts, and an index of all of them."""
    disk = new_disk()
    log = new_log(disk, **options)
    fill(log, *counts)
    index = HashIndex.open(disk, DIRECTORY, log)
    cover(index, log)
    return disk, log, index


def hash_at(offset: int) -> int:
    """Each message has one key, shared by every tenth."""
    return offset % 10 + 100


def cover(index: HashIndex, log: Log, step: int = 3) -> None:
    """Index all that the log holds."""
    while index.covered < log.next_offset:
        first = index.covered
        batches, place = log.batches_at(first)
        end = min(first + step, batches[place].next_offset)
        numbers = range(end - first)
        hashes = [hash_at(first + number) for number in numbers]
        index.add(hashes, numbers, first, end, batches[place].timestamp_ns)


def found(index: HashIndex, wanted: int, low: int = 0, high: int = 1 << 62) -> list[int]:
    return [offset for chunk in index.candidates(wanted, low, high) for offset in chunk]


def found_after_all(index: HashIndex, log: Log, wanted: int) -> list[int]:
    """The same, when damage is made good as it comes up."""
    while True:
        try:
            cover(index, log)
            return found(index, wanted)
        except DamagedIndexError as error:
            index.rewind(error.offset)


def expected(digit: int, low: int, high: int) -> list[int]:
    return [offset for offset in reversed(range(low, high)) if offset % 10 == digit]


def fill_at(log: Log, timestamp: int) -> None:
    """Append two messages of another time."""
    log.append([batch(log.next_offset, 2, timestamp=timestamp + log.next_offset)])


def test_rows_are_found_newest_first_in_memory_and_in_files() -> None:
    disk = new_disk()
    log = new_log(disk)
    fill(log, *[5] * 40)
    index = HashIndex.open(disk, DIRECTORY, log)
    assert (index.covered, index.last_ns, found(index, 103)) == (0, 0, [])
    cover(index, log)
    assert index.covered == 200
    assert index.last_ns == 1000 + 195
    assert len(disk.paths(".keys")) > 3
    assert 0 < index.pending < 8
    for digit in range(10):
        assert found(index, digit + 100) == expected(digit, 0, 200)
        assert found(index, digit + 100, 37, 121) == expected(digit, 37, 121)
    assert found(index, 99) == []


def test_a_kill_costs_what_was_in_memory_only() -> None:
    disk = new_disk()
    log = new_log(disk)
    fill(log, *[5] * 20)
    cover(HashIndex.open(disk, DIRECTORY, log), log)
    disk.crash("written")
    log, _ = reopen(disk)
    index = HashIndex.open(disk, DIRECTORY, log)
    assert 100 - 8 <= index.covered < 100
    cover(index, log)
    assert found(index, 104) == expected(4, 0, 100)


def test_after_a_flush_nothing_is_to_be_done_again() -> None:
    disk, log, index = indexed(20)
    index.flush()
    index.flush()
    again = HashIndex.open(disk, DIRECTORY, log)
    assert (again.covered, again.pending, again.last_ns) == (20, 0, 1000)
    assert found(again, 107) == [17, 7]


def test_every_cut_of_the_newest_file_is_made_good() -> None:
    disk, log, index = indexed(*[4] * 12)
    index.flush()
    path = disk.paths(".keys")[-1]
    whole = disk.content(path)
    for size in range(len(whole)):
        disk.cut(path, 0)
        disk.overwrite(path, whole[:size])
        again = HashIndex.open(disk, DIRECTORY, log)
        cover(again, log)
        again.flush()
        assert found(again, 101) == expected(1, 0, 48)
        third = HashIndex.open(disk, DIRECTORY, log)
        assert (third.covered, found(third, 101)) == (48, expected(1, 0, 48))


def test_every_flipped_bit_is_found_out() -> None:
    disk, log, index = indexed(*[4] * 12)
    index.flush()
    for path in disk.paths(".keys"):
        for bit in range(0, 8 * len(disk.content(path)), 5):
            disk.flip(path, bit)
            checked = HashIndex.open(disk, DIRECTORY, log)
            assert found_after_all(checked, log, 105) == expected(5, 0, 48)
            checked.flush()


@pytest.mark.parametrize("seed", range(40))
def test_a_power_cut_never_leaves_an_index_of_what_the_log_lost(seed: int) -> None:
    disk = new_disk()
    chance = SystemChance(seed)
    log = new_log(disk)
    fill(log, *[3] * 10)
    job = log.begin_sync()
    assert job is not None
    job.run()
    log.end_sync()
    disk.sync_directory(DIRECTORY)
    fill(log, *[3] * 10)
    index = HashIndex.open(disk, DIRECTORY, log)
    cover(index, log)
    index.flush()
    disk.sync_directory(DIRECTORY)
    disk.crash(chance)
    log, _ = reopen(disk)
    for _ in range(chance.below(12)):  # others, at the offsets of the lost ones
        fill_at(log, 500_000)
    index = HashIndex.open(disk, DIRECTORY, log)
    for digit in range(10):
        assert found_after_all(index, log, digit + 100) == expected(digit, 0, log.next_offset)
    index.flush()
    assert HashIndex.open(disk, DIRECTORY, log).covered == log.next_offset


def test_chunks_of_lost_messages_whose_offsets_were_given_again_are_cut_off() -> None:
    disk, log, index = indexed(8)
    fill(log, 8)
    cover(index, log)
    index.flush()
    other = new_disk()  # the same start, other messages behind it
    other.make_directory(DIRECTORY)
    for path in disk.paths(".keys"):
        other.open(path).append(disk.content(path))
    log = new_log(other)
    fill(log, 8)
    fill_at(log, 500_000)
    assert HashIndex.open(other, DIRECTORY, log).covered == 8


def test_a_full_disk_costs_nothing_but_time() -> None:
    disk = new_disk()
    log = new_log(disk)
    fill(log, *[4] * 10)
    index = HashIndex.open(disk, DIRECTORY, log)
    disk.leaves_partial_writes = True
    disk.fill(30)
    with pytest.raises(DiskFullError):
        cover(index, log)
    assert (index.covered, index.pending) == (0, 0)
    assert found(index, 103) == []
    disk.heal()
    cover(index, log)
    index.flush()
    assert found(HashIndex.open(disk, DIRECTORY, log), 103) == expected(3, 0, 40)


def test_files_go_with_the_log() -> None:
    disk, log, index = indexed(*[4] * 30, max_bytes_per_file=400)
    files = len(disk.paths(".keys"))
    log.trim(60, 1 << 60, Retention())
    assert 0 < log.start_offset <= 60
    index.trim(log.start_offset)
    assert len(disk.paths(".keys")) < files
    assert found(index, 109, log.start_offset) == expected(9, log.start_offset, 120)
    start = log.start_offset
    again = HashIndex.open(disk, DIRECTORY, log)
    assert found(again, 109, start) == expected(9, start, again.covered)


def test_an_index_that_the_log_has_left_behind_begins_anew() -> None:
    disk, log, index = indexed(*[4] * 4, max_bytes_per_file=400)
    index.flush()
    fill(log, *[4] * 26)
    log.trim(100, 1 << 60, Retention())
    assert log.start_offset > 16
    index = HashIndex.open(disk, DIRECTORY, log)
    assert (index.covered, disk.paths(".keys")) == (log.start_offset, [])
    cover(index, log)
    assert found(index, 109) == expected(9, log.start_offset, 120)


def test_an_index_whose_first_files_went_with_the_log_can_be_left_behind_too() -> None:
    disk, log, index = indexed(*[4] * 30, max_bytes_per_file=400)
    index.flush()
    log.trim(60, 1 << 60, Retention())
    index.trim(log.start_offset)
    assert disk.paths(".keys")
    assert not any(path.endswith(f"{0:020d}.keys") for path in disk.paths(".keys"))
    fill(log, *[4] * 30)  # and nobody adds them to the index before it is opened again
    log.trim(200, 1 << 60, Retention())
    assert log.start_offset > index.covered
    index = HashIndex.open(disk, DIRECTORY, log)
    assert (index.covered, disk.paths(".keys")) == (log.start_offset, [])
    cover(index, log)
    assert found(index, 109) == expected(9, log.start_offset, 240)


def test_files_that_vanish_during_a_search_hold_only_what_is_gone() -> None:
    _, _, index = indexed(*[4] * 30)
    steps = index.candidates(109, *EVERYTHING)
    first = next(steps) + next(steps)
    index.trim(100)
    rest = [offset for chunk in steps for offset in chunk]
    kept = first + rest
    assert kept == expected(9, 0, 120)[: len(kept)]
    assert kept[-1] <= 109


def test_what_is_added_during_a_search_is_not_found_twice() -> None:
    _, log, index = indexed(*[4] * 5)
    assert index.pending
    steps = index.candidates(109, *EVERYTHING)
    kept = next(steps)
    fill(log, *[4] * 5)
    cover(index, log)
    kept += [offset for chunk in steps for offset in chunk]
    assert kept == expected(9, 0, 20)


def test_a_lost_file_is_damage() -> None:
    disk, log, index = indexed(*[4] * 30)
    lost = disk.paths(".keys")[1]
    disk.remove(lost)
    with pytest.raises(DamagedIndexError, match="is damaged") as caught:
        found(index, 101)
    index.rewind(caught.value.offset)
    assert disk.paths(".keys") == [lost.replace(lost[-25:], f"{0:020d}.keys")]
    cover(index, log)
    assert found(index, 101) == expected(1, 0, 120)


def test_messages_without_keys_are_covered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hash_index, "CHUNK_MESSAGES", 10)
    disk = new_disk()
    log = new_log(disk)
    fill(log, *[4] * 8)
    index = HashIndex.open(disk, DIRECTORY, log)
    for first in range(0, 32, 4):
        index.add((), (), first, first + 4, 1000 + first)
    assert index.covered == 32
    assert HashIndex.open(disk, DIRECTORY, log).covered >= 20


def test_files_of_another_log_are_made_again() -> None:
    disks = new_disk(), new_disk()
    logs = [reopen(disk, id_base=number << 40)[0] for number, disk in enumerate(disks, 1)]
    contents = []
    for number, (disk, log) in enumerate(zip(disks, logs, strict=True)):
        for offset in range(60):
            frame = [b"body"]
            log.append([Batch.build(offset, log.id_base + offset, 7, 1, 4, frame)])
        index = HashIndex.open(disk, DIRECTORY, log)
        for offset in range(60):
            index.add([100 + (offset + number) % 10], [0], offset, offset + 1, 7)
        index.flush()
        contents.append({path: disk.content(path) for path in disk.paths(".keys")})
    (disk, log), theirs = (disks[0], logs[0]), contents[1]
    for path in contents[0]:
        disk.replace_file(path, theirs[path])
    assert found_after_all(HashIndex.open(disk, DIRECTORY, log), log, 103) == expected(3, 0, 60)
