"""Writing a log: batches, files, durability, syncs, indexes, single reads, letting go."""

import errno

import pytest

from penstock.core.chance import SystemChance
from penstock.core.errors import (
    ReadOnlyError,
    StorageError,
    TooManyFilesError,
)
from penstock.storage.batch import Batch
from penstock.storage.cache import BlockCache
from penstock.storage.durability import Durability
from penstock.storage.index import BlockIndex
from penstock.storage.log import CHECKPOINT_BYTES, UNWRITTEN_BYTES_MAX, Log, LogOptions
from penstock.storage.recovery.opening import open_log
from penstock.storage.retention import Retention
from penstock.testing.disk import FaultyDisk, FaultyFile
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


@pytest.fixture
def disk() -> FaultyDisk:
    return new_disk()


def segment_starts(log: Log) -> list[int]:
    return [segment.first_offset for segment in log.segments]


# --- writing -----------------------------------------------------------------------------------


@pytest.mark.parametrize("level", [Durability.MEMORY, Durability.FSYNC])
def test_other_levels_take_batches_only(disk: FaultyDisk, level: Durability) -> None:
    assert not new_log(disk, durability=level).takes_one


def test_the_oldest_message_that_is_kept(disk: FaultyDisk) -> None:
    log = new_log(disk, max_bytes_per_file=1000)
    assert log.oldest_ns is None
    written = fill(log, *[5] * 20)
    assert log.oldest_ns == written[0].timestamp_ns
    assert reopen(disk)[0].oldest_ns == written[0].timestamp_ns
    assert log.trim(log.next_offset, 0, Retention())
    batches, at = log.batches_at(log.start_offset)
    assert log.oldest_ns == batches[at].timestamp_ns > written[0].timestamp_ns


def test_batches_must_continue_the_log(disk: FaultyDisk) -> None:
    log = new_log(disk)
    with pytest.raises(AssertionError, match="dense"):
        log.append([batch(1)])
    with pytest.raises(AssertionError, match="base plus the offset"):
        log.append([Batch.build(0, 1, 0, 1, 1, [b"x"])])
    assert log.next_offset == 0


@pytest.mark.parametrize("one_by_one", [False, True])
def test_segments_are_rotated_before_they_grow_too_large(
    disk: FaultyDisk, one_by_one: bool
) -> None:
    size = len(batch(0).raw)
    log = new_log(disk, max_bytes_per_file=3 * size)
    written = [batch(offset) for offset in range(7)]
    for each in written:
        if one_by_one:
            log.append_one(each)
        else:
            log.append([each])
    for current in (log, reopen(disk)[0]):
        assert segment_starts(current) == [0, 3, 6]
        assert current.nbytes == 7 * size
        assert everything(current) == frames(written)


def test_a_batch_larger_than_a_file_gets_a_file_of_its_own(disk: FaultyDisk) -> None:
    log = new_log(disk, max_bytes_per_file=100)
    fill(log, 10, 10)
    assert segment_starts(log) == [0, 10]


# --- durability --------------------------------------------------------------------------------


def test_level_memory_writes_later_but_before_much_has_gathered(disk: FaultyDisk) -> None:
    log = new_log(disk, durability=Durability.MEMORY, mem_queue_size=10)
    fill(log, 2, 2)
    assert (log.nbytes, log.offset_at(1002)) == (0, 2)
    fill(log, 2)
    assert log.nbytes > 0, "half of the memory queue"
    log = new_log(new_disk(), durability=Durability.MEMORY)
    fill(log, 1, size=UNWRITTEN_BYTES_MAX // 2)
    assert log.nbytes == 0
    fill(log, 1, size=UNWRITTEN_BYTES_MAX // 2)
    assert log.nbytes > UNWRITTEN_BYTES_MAX


def test_one_sync_at_a_time_and_none_for_nothing(disk: FaultyDisk) -> None:
    log = new_log(disk)
    job = log.begin_sync()
    assert job is not None  # the files are new
    job.run()
    log.end_sync()
    assert log.begin_sync() is None
    fill(log, 3)
    assert log.unsynced_messages == 3
    job = log.begin_sync()
    assert job is not None
    fill(log, 2)
    assert log.begin_sync() is None
    job.run()
    log.end_sync()
    assert log.unsynced_messages == 2
    log.sync()
    assert log.begin_sync() is None
    log.sync()


def test_after_a_failed_sync_nothing_is_taken_any_more(disk: FaultyDisk) -> None:
    log = new_log(disk)
    written = fill(log, 1)
    disk.fail("sync")
    with pytest.raises(StorageError):
        log.sync()
    assert log.failure is not None
    with pytest.raises(ReadOnlyError, match="read-only after a failed sync"):
        fill(log, 1)
    log.sync()  # tries nothing
    assert log.begin_sync() is None
    assert everything(log) == frames(written)
    log.close()


def test_a_sync_for_which_no_file_could_be_opened_is_done_again(disk: FaultyDisk) -> None:
    log = new_log(disk, max_bytes_per_file=150)
    written = fill(log, 1, 1)
    disk.fail("sync_directory", code=errno.EMFILE)
    with pytest.raises(TooManyFilesError):
        log.sync()
    assert log.failure is None
    assert log.unsynced_messages == 2
    written += fill(log, 1)
    log.sync()
    assert log.unsynced_messages == 0
    disk.crash(SystemChance(3))
    assert everything(reopen(disk)[0]) == frames(written)


def test_a_sync_writes_the_index_of_finished_segments(disk: FaultyDisk) -> None:
    log = new_log(disk, max_bytes_per_file=250)
    fill(log, *[1] * 5)
    assert disk.paths(".index") == []
    log.sync()
    assert len(disk.paths(".index")) == len(log.segments) - 1
    log.sync(checkpoint=True)
    assert len(disk.paths(".index")) == len(log.segments)


def test_the_newest_segment_is_indexed_now_and_then(disk: FaultyDisk) -> None:
    log = new_log(disk)
    fill(log, 1, size=CHECKPOINT_BYTES)
    log.sync()
    (path,) = disk.paths(".index")
    _, size, next_offset, _ = BlockIndex.decode(disk.content(path), log.id_base)
    assert (size, next_offset) == (log.nbytes, 1)
    fill(log, 1)
    log.sync()
    assert BlockIndex.decode(disk.content(path), log.id_base)[1] < log.nbytes


def test_an_index_that_cannot_be_written_does_no_harm(
    disk: FaultyDisk, caplog: pytest.LogCaptureFixture
) -> None:
    log = new_log(disk)
    written = fill(log, 1)
    disk.fill()
    log.sync(checkpoint=True)
    assert log.failure is None
    assert "cannot write an index file" in caplog.text
    disk.heal()
    written += fill(log, 1)
    assert everything(reopen(disk)[0]) == frames(written)


def test_closing_on_a_failing_disk_closes_the_files_too(disk: FaultyDisk) -> None:
    log = new_log(disk)
    fill(log, 1)
    disk.fail("sync")
    with pytest.raises(StorageError):
        log.close()
    with pytest.raises(AssertionError, match="closed twice"):
        log.segments[0].file.close()


# --- reading -----------------------------------------------------------------------------------


def test_a_read_error_is_told_and_not_remembered(disk: FaultyDisk) -> None:
    log = new_log(disk, mem_queue_size=0)
    written = fill(log, 1, 1)
    disk.fail("read")
    with pytest.raises(StorageError):
        log.batches_at(0)
    assert everything(log) == frames(written)


def noted_reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Sizes of what is read of files from now on."""
    sizes: list[int] = []
    read = FaultyFile.read

    def noting(file: FaultyFile, position: int, nbytes: int) -> bytes:
        sizes.append(nbytes)
        return read(file, position, nbytes)

    monkeypatch.setattr(FaultyFile, "read", noting)
    return sizes


def test_one_batch_here_and_there_is_read_without_its_neighbours(
    disk: FaultyDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = LogOptions(mem_queue_size=2, max_bytes_per_file=3000)
    log, _ = open_log(disk, DIRECTORY, ID_BASE, BlockCache(6000), options)
    written = fill(log, *[1, 2] * 40)
    bodies = frames(written)
    sizes = noted_reads(monkeypatch)
    for offset in [*range(0, 120, 7), *range(0, 119, 31)] * 2:
        found = log.batch_at(offset)
        assert found is not None
        assert bytes(found.slice(offset, offset + 1)) == bodies[offset]
    assert 10 < len([size for size in sizes if size < 150]) < 30  # single batches
    assert len([size for size in sizes if size > 150]) == len(log.segments)  # to find them


def test_a_block_that_has_room_is_read_once(
    disk: FaultyDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = new_log(disk, mem_queue_size=0)
    written = fill(log, *[1] * 100)
    sizes = noted_reads(monkeypatch)
    for offset in range(98, -1, -1):
        found = log.batch_at(offset)
        assert found is not None
        assert found.raw == written[offset].raw
    assert len(sizes) == 1


def test_a_block_in_the_cache_is_used(disk: FaultyDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    log = new_log(disk, mem_queue_size=0)
    fill(log, 1, 1, 1)
    log.batches_at(0)
    sizes = noted_reads(monkeypatch)
    assert log.batch_at(0) is not None
    assert log.batch_at(2) is not None
    assert sizes == []


def test_single_reads_leave_damage_out(disk: FaultyDisk) -> None:
    log = new_log(disk, mem_queue_size=0)
    written = fill(log, 1, 1, 1, 1, 1)
    size = len(written[0].raw)
    path = log.segments[0].file.path
    disk.flip(path, 8 * (size + 80))  # in the body of offset 1
    disk.overwrite(path, b"PSB1\0\0\0\0", 2 * size)  # a length that leads nowhere
    found = [log.batch_at(offset) for offset in range(4)]
    assert [batch and batch.first_offset for batch in found] == [0, None, None, 3]
    disk.cut(path, size + 10)
    assert log.batch_at(3) is not None  # from the cache
    log, _ = reopen(disk)
    assert log.batch_at(3) is None
    assert new_log(new_disk()).batch_at(0) is None


def test_single_reads_do_not_trust_an_outline(disk: FaultyDisk) -> None:
    options = LogOptions(mem_queue_size=0, max_bytes_per_file=300)
    log, _ = open_log(disk, DIRECTORY, ID_BASE, BlockCache(1200), options)
    written = fill(log, 1, 1, 1, 1, 1, 1, 1)
    assert log.batch_at(0) is not None
    assert log.batch_at(4) is not None  # there is no room for the bytes of both blocks
    path = log.segments[0].file.path
    disk.overwrite(path, bytes(written[0].raw), len(written[0].raw))  # undamaged, but another
    assert log.batch_at(1) is None
    assert log.batch_at(2) is not None


# --- letting go --------------------------------------------------------------------------------


def test_retention_keeps_consumed_segments(disk: FaultyDisk) -> None:
    log = new_log(disk, max_bytes_per_file=150)
    fill(log, *[1] * 4)  # published at 1000 to 1003, a segment each
    size = len(batch(0).raw)
    assert log.trim(4, 1010, Retention(time_ns=10)) == 0
    assert log.trim(4, 1011, Retention(time_ns=10)) == 1
    assert log.trim(4, 10**6, Retention(nbytes=3 * size)) == 0
    assert log.trim(4, 10**6, Retention(nbytes=2 * size)) == 1
    assert log.nbytes == 2 * size


def test_after_trimming_a_power_cut_cannot_take_the_end_of_the_log() -> None:
    for seed in range(30):
        disk = new_disk()
        log = new_log(disk, max_bytes_per_file=150)
        fill(log, 1, 1)
        log.sync()
        fill(log, 1, 1)
        log.trim(3, 0, Retention())
        disk.crash(SystemChance(seed))
        assert reopen(disk)[0].next_offset >= 3


def test_deletion_is_complete_and_durable(disk: FaultyDisk) -> None:
    log = new_log(disk)
    fill(log, 1)
    disk.make_directory(f"{DIRECTORY}/quarantine")
    disk.replace_file(f"{DIRECTORY}/quarantine/x.bad", b"x")
    log.delete()
    assert disk.paths() == []
    for seed in range(8):
        disk.crash(SystemChance(seed))
        assert not [path for path in disk.paths() if path.startswith(f"{DIRECTORY}/")]


# --- cost --------------------------------------------------------------------------------------


# --- how much lies ahead -------------------------------------------------------------------------


@pytest.mark.parametrize("file_bytes", [300, 1 << 20])
def test_bytes_from_an_offset_on(disk: FaultyDisk, file_bytes: int) -> None:
    log = new_log(disk, max_bytes_per_file=file_bytes)
    fill(log, *[1] * 20)
    options = LogOptions(max_bytes_per_file=file_bytes)
    for current in (log, reopen(disk, options)[0]):
        assert current.bytes_from(0) == current.nbytes
        assert current.bytes_from(20) == 0
        assert current.bytes_from(10) == pytest.approx(current.nbytes / 2, rel=0.1)
        steps = [current.bytes_from(offset) for offset in range(21)]
        assert steps == sorted(steps, reverse=True)


def test_a_first_segment_of_which_nothing_can_be_read_counts_whole(disk: FaultyDisk) -> None:
    log = new_log(disk, max_bytes_per_file=300)
    fill(log, *[1] * 20)
    log.close()
    first, second = disk.paths(".log")[:2]
    for path in (first, first.replace(".log", ".index"), second.replace(".log", ".index")):
        disk.remove(path)
    disk.overwrite(second, b"x" * len(disk.content(second)))
    damaged = reopen(disk, LogOptions(max_bytes_per_file=300))[0]
    steps = [damaged.bytes_from(offset) for offset in range(21)]
    assert steps == sorted(steps, reverse=True)
    assert steps[0] == damaged.nbytes


def test_what_is_not_written_yet_counts_too(disk: FaultyDisk) -> None:
    log = new_log(disk, durability=Durability.MEMORY)
    fill(log, 3)
    assert log.nbytes == 0
    assert log.bytes_from(0) > 0
