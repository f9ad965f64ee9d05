"""The data path: its queues, its lock, its files; when segments go and what is missing of a log."""

from __future__ import annotations

import pytest

from penstock.core.errors import DiskFullError, LockedError, ReadOnlyError, StorageError
from penstock.storage.extent import missing
from penstock.storage.log import LogOptions
from penstock.storage.retention import Retention
from penstock.storage.store import Store
from penstock.testing.disk import FaultyDisk
from tools.harness.small_logs import ID_BASE, publish, read_from


@pytest.fixture
def disk() -> FaultyDisk:
    return FaultyDisk("/data")


def opened(disk: FaultyDisk) -> Store:
    return Store(disk, "/data", LogOptions())


def test_queues_and_their_messages_come_back(disk: FaultyDisk) -> None:
    made = opened(disk)
    assert made.queues() == []
    names = [("..", 0), ("clicks", 0), ("clicks", 12), ("a.b-c_d", 0)]
    for number, (topic, queue) in enumerate(names):
        log, journal, report = made.open_queue(topic, queue, ID_BASE + number)
        assert (journal.records, report.scanned) == ([], 0)
        publish(log, f"{topic} {queue}".encode())
        journal.append([b"cursor %d" % number])
    disk.crash("written")
    made = opened(disk)
    assert sorted(made.queues()) == sorted(names)
    for number, (topic, queue) in enumerate(names):
        log, journal, _ = made.open_queue(topic, queue, 0)
        assert log.id_base == ID_BASE + number
        assert read_from(log, 0) == {0: f"{topic} {queue}".encode()}
        assert journal.records == [b"cursor %d" % number]
    assert {path.split("/")[3] for path in disk.paths() if path.startswith("/data/topics/")} == {
        f"{topic}@{queue}" for topic, queue in names
    }


def test_a_data_path_that_cannot_be_read_is_not_kept_locked(disk: FaultyDisk) -> None:
    disk.fail("list")
    with pytest.raises(StorageError):
        opened(disk)
    assert opened(disk).queues() == []


def test_what_is_no_queue_is_passed_over(disk: FaultyDisk) -> None:
    for name in ("x", "x@", "x@y", "x@-1", "lost+found"):
        disk.make_directory(f"/data/topics/{name}")
    opened(disk).open_queue("real", 3, ID_BASE)
    disk.crash("written")
    assert opened(disk).queues() == [("real", 3)]


def test_a_deletion_that_a_crash_interrupts_is_finished_by_the_next_start(
    disk: FaultyDisk, caplog: pytest.LogCaptureFixture
) -> None:
    log, journal, _ = opened(disk).open_queue("gone", 0, ID_BASE)
    publish(log, b"a")
    journal.close()
    disk.fail("remove", 2, times=-1)
    log.delete()
    assert "left for the next start to remove - /data/topics/gone@0.deleted/" in caplog.text
    assert disk.paths() != []
    disk.crash("written")
    disk.fail("remove")
    made = opened(disk)
    assert made.queues() == []
    assert "failed to remove a deleted log - /data/topics/gone@0.deleted/" in caplog.text
    again, journal, _ = made.open_queue("gone", 0, ID_BASE)
    journal.close()
    assert again.next_offset == 0
    again.delete()
    assert disk.paths() == []


def test_a_deletion_that_cannot_begin_leaves_all_as_it_was(disk: FaultyDisk) -> None:
    log, _, _ = opened(disk).open_queue("t", 0, ID_BASE)
    publish(log, b"a")
    disk.fail("rename")
    with pytest.raises(StorageError):
        log.delete()
    disk.crash("written")
    log, _, _ = opened(disk).open_queue("t", 0, ID_BASE)
    assert read_from(log, 0) == {0: b"a"}


def test_a_deletion_that_can_neither_be_finished_nor_taken_back_takes_no_more_messages(
    disk: FaultyDisk,
) -> None:
    """The next start removes the log: it would remove them, too."""
    log, _, _ = opened(disk).open_queue("t", 0, ID_BASE)
    publish(log, b"a")
    disk.fail("sync_directory")
    disk.fail("rename", 2)
    with pytest.raises(StorageError):
        log.delete()
    assert not log.takes_one
    with pytest.raises(ReadOnlyError):
        publish(log, b"b")


def test_a_deleted_queue_is_gone(disk: FaultyDisk) -> None:
    made = opened(disk)
    log, journal, _ = made.open_queue("gone", 0, ID_BASE)
    publish(log, b"a")
    journal.close()
    log.delete()
    assert made.queues() == []
    assert disk.paths() == []
    log, journal, _ = made.open_queue("gone", 0, 99)
    assert (log.next_offset, log.id_base, journal.records) == (0, 99, [])


def test_the_path_is_locked_until_close(disk: FaultyDisk) -> None:
    made = opened(disk)
    with pytest.raises(LockedError):
        opened(disk)
    made.close()
    opened(disk).close()
    with pytest.raises(StorageError):
        Store(disk, "/elsewhere", LogOptions())


def test_files_of_the_data_path(disk: FaultyDisk) -> None:
    made = opened(disk)
    assert made.read_file("nsqd.dat") is None
    made.replace_file("nsqd.dat", b"{}")
    made.replace_file("nsqd.dat", b"{1}")
    assert made.read_file("nsqd.dat") == b"{1}"
    assert disk.synced("/data/nsqd.dat") == 3
    assert disk.content("/data/nsqd.dat") == b"{1}"


def test_a_copy_begins_with_the_ids_and_the_offset_of_another_log(disk: FaultyDisk) -> None:
    made = opened(disk)
    made.begin_queue("t", 0, ID_BASE, 40)
    made.begin_queue("t", 0, ID_BASE + 1, 50)
    log, journal, _ = made.open_queue("t", 0, 0, is_copy=True)
    assert (log.id_base, log.start_offset, log.next_offset) == (ID_BASE + 1, 50, 50)
    assert not log.damage.pending
    publish(log, b"first")
    assert read_from(log, 50) == {50: b"first"}
    journal.append([b"cursor"], log.extent)


def test_a_copy_that_a_power_cut_has_shortened_leaves_no_gap(disk: FaultyDisk) -> None:
    made = opened(disk)
    made.begin_queue("t", 0, ID_BASE, 0)
    log, journal, _ = made.open_queue("t", 0, 0, is_copy=True)
    publish(log, b"synced")
    log.sync()
    synced = disk.synced("/data/topics/t@0/00000000000000000000.log")
    publish(log, b"lost")
    journal.append([b"cursor"], log.extent)
    disk.crash("written")
    disk.cut("/data/topics/t@0/00000000000000000000.log", synced)
    log, _, _ = opened(disk).open_queue("t", 0, 0, is_copy=True)
    assert log.next_offset == 1
    assert not list(log.damage.lost_ranges())


def test_a_queue_is_put_aside_where_none_of_its_name_is(disk: FaultyDisk) -> None:
    made = opened(disk)
    folders = []
    for body in (b"1", b"2"):
        log, journal, _ = made.open_queue("t", 0, ID_BASE)
        publish(log, body)
        log.close()
        journal.close()
        folders.append(made.put_aside("t", 0, "aside/now"))
    assert made.queues() == []
    for folder, body in zip(folders, (b"1", b"2"), strict=True):
        log, _, _ = Store(disk, f"/data/{folder}", LogOptions()).open_queue("t", 0, 0)
        assert read_from(log, 0) == {0: body}


def test_what_a_full_disk_has_left_of_a_new_queue_is_removed(disk: FaultyDisk) -> None:
    """It needs no room then, and nobody was told that the queue is there."""
    made = opened(disk)
    made.open_queue("whole", 0, ID_BASE)
    for room, topic in ((0, "nothing"), (45, "ids")):
        disk.fill(room)
        with pytest.raises(DiskFullError):
            made.open_queue(topic, 0, ID_BASE)
    assert disk.list("/data/topics/nothing@0") == []
    assert disk.list("/data/topics/ids@0") == ["queue.json"]
    disk.crash("written")
    assert opened(disk).queues() == [("whole", 0)]


def test_a_queue_of_an_earlier_version_is_opened_on_a_full_disk(disk: FaultyDisk) -> None:
    """Its ids are written with the version later."""
    made = opened(disk)
    made.open_queue("t", 0, ID_BASE)
    path = "/data/topics/t@0/queue.json"
    old = disk.content(path).replace(b'"version":2', b'"version":1')
    disk.overwrite(path, old)
    disk.crash("written")
    disk.fill()
    log, _, _ = opened(disk).open_queue("t", 0, 0)
    assert (log.id_base, disk.content(path)) == (ID_BASE, old)
    disk.crash("written")
    disk.heal()
    opened(disk).open_queue("t", 0, 0)
    assert b'"version":2' in disk.content(path)


# --- When a consumed segment may go --------------------------------------------------------------


@pytest.mark.parametrize(
    ("retention", "age_ns", "nbytes_without", "expired"),
    [
        (Retention(), 0, 0, True),
        (Retention(time_ns=10), 10, 10**9, False),
        (Retention(time_ns=10), 11, 0, True),
        (Retention(time_ns=10), -5, 10**9, False),  # the wall clock was set back
        (Retention(nbytes=100), 10**18, 99, False),
        (Retention(nbytes=100), 0, 100, True),
        (Retention(time_ns=10, nbytes=100), 10, 99, False),
        (Retention(time_ns=10, nbytes=100), 11, 99, True),
        (Retention(time_ns=10, nbytes=100), 10, 100, True),
    ],
)
def test_expiry(retention: Retention, age_ns: int, nbytes_without: int, expired: bool) -> None:
    assert retention.expired(age_ns, nbytes_without) is expired


# --- The missing parts of a log ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("present", "start", "end", "expected"),
    [
        ([], 0, 0, []),
        ([], 3, 7, [(3, 7)]),
        ([(0, 9)], 3, 7, []),
        ([(0, 4)], 0, 9, [(4, 9)]),
        ([(4, 9)], 2, 9, [(2, 4)]),
        ([(4, 6), (8, 9)], 2, 12, [(2, 4), (6, 8), (9, 12)]),
        ([(1, 2), (20, 30)], 5, 12, [(5, 12)]),
    ],
)
def test_missing_ranges(
    present: list[tuple[int, int]], start: int, end: int, expected: list[tuple[int, int]]
) -> None:
    assert list(missing(present, start, end)) == expected
