"""A disk that hangs on command: who waits for it, and what it leaves behind."""

from __future__ import annotations

import os
import threading
import time
from _thread import LockType
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from penstock.core.errors import DiskHangsError, StorageError
from penstock.core.units import SECOND
from penstock.storage.files import patient_disk
from penstock.storage.files.disk import OsLogFile
from penstock.storage.files.patient_disk import SMALL_BYTES, PatientDisk


class Hanging:
    """The system's disk, which hangs between ``freeze`` and ``thaw``."""

    def __init__(self) -> None:
        self._flows = threading.Event()
        self.writers: list[str] = []
        self.thaw()

    def freeze(self) -> None:
        self._flows.clear()

    def thaw(self) -> None:
        self._flows.set()

    def pass_through(self) -> None:
        self.writers.append(threading.current_thread().name)
        assert self._flows.wait(60)


@pytest.fixture
def system(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hanging]:
    hanging, write = Hanging(), OsLogFile.write

    def slow(self: OsLogFile, position: int, data: bytes | memoryview) -> int:
        hanging.pass_through()
        return write(self, position, data)

    monkeypatch.setattr(OsLogFile, "write", slow)
    monkeypatch.setattr(patient_disk, "BUSY_NS", 0)
    yield hanging
    hanging.thaw()


def answers(disk: PatientDisk) -> None:
    until(lambda: not disk.hand.hangs_ns)


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_a_write_that_hangs_is_left_and_leaves_nothing(tmp_path: Path, system: Hanging) -> None:
    disk = PatientDisk()
    file = disk.open(str(tmp_path / "log"))
    disk.hand.watch()
    answered = threading.Event()
    disk.hand.answers.append(answered.set)
    file.append(b"before")
    system.freeze()
    with pytest.raises(DiskHangsError, match=r"log: the disk has not answered for 0\.\d s"):
        file.append(b"lost")
    assert file.size == len(b"before")
    for refused in (lambda: file.append(b"x"), file.sync, lambda: disk.open(str(tmp_path / "new")),
                    lambda: disk.replace_file(str(tmp_path / "new"), b"x"),
                    lambda: file.rewrite(0), lambda: disk.remove(str(tmp_path / "log")),
                    lambda: disk.make_directory(str(tmp_path / "new")),
                    lambda: disk.rename(str(tmp_path / "log"), str(tmp_path / "new")),
                    lambda: disk.remove_tree(str(tmp_path)),
                    lambda: disk.sync_directory(str(tmp_path))):  # fmt: skip
        with pytest.raises(DiskHangsError):
            refused()
    assert not answered.is_set()
    system.thaw()
    assert answered.wait(60)
    answers(disk)
    assert (tmp_path / "log").read_bytes() == b"before"
    file.append(b" and after")
    file.rewrite(0)
    assert (tmp_path / "log").read_bytes() == b"before and after"
    disk.hand.rest()


def test_an_error_is_the_writer_s(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> int:
        raise OSError(28, "No space left on device")

    disk = PatientDisk()
    file = disk.open(str(tmp_path / "log"))
    disk.hand.watch()
    with monkeypatch.context() as patch:
        patch.setattr(OsLogFile, "write", fail)
        with pytest.raises(OSError, match="No space left"):
            file.append(b"x")
    file.append(b"y")
    assert (tmp_path / "log").read_bytes() == b"y"


def test_other_threads_wait_for_themselves(tmp_path: Path, system: Hanging) -> None:
    disk = PatientDisk()
    file = disk.open(str(tmp_path / "log"))
    disk.hand.watch()
    thread = threading.Thread(target=lambda: file.append(b"x"), name="other")
    thread.start()
    thread.join(60)
    disk.hand.rest()
    file.append(b"y")
    assert system.writers == ["other", threading.current_thread().name]


def test_writes_that_follow_one_another_are_the_loop_s(
    tmp_path: Path, system: Hanging, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = PatientDisk()
    file = disk.open(str(tmp_path / "log"))
    disk.hand.watch()
    monkeypatch.setattr(patient_disk, "BUSY_NS", 1 << 62)
    disk.hand.small_ns = 1
    file.append(b"x")
    assert system.writers == [threading.current_thread().name]
    system.freeze()
    seen: list[int] = []

    def look() -> None:
        while not disk.hand.held_up_ns():
            time.sleep(0.001)
        seen.append(disk.hand.held_up_ns())
        system.thaw()

    thread = threading.Thread(target=look)
    thread.start()
    file.append(b"y")
    thread.join(60)
    assert seen
    assert disk.hand.held_up_ns() == 0


def test_a_disk_is_a_fault_when_it_was_silent_for_two_seconds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that nobody writes to is looked at by whoever asks."""
    flows = threading.Event()
    flows.set()
    monkeypatch.setattr("os.utime", lambda path: flows.wait(60))
    monkeypatch.setattr(patient_disk, "LOOK_NS", 0)
    disk, path = PatientDisk(), str(tmp_path)
    disk.hand.watch()
    assert disk.problem(path) is None
    flows.clear()
    assert disk.problem(path) is None
    assert disk.hand.hangs_ns
    monkeypatch.setattr(patient_disk, "SILENT_NS", 1)
    assert "the disk has not answered" in str(disk.problem(path))
    flows.set()
    answers(disk)
    assert disk.problem(path) is None


def threads() -> list[threading.Thread]:
    return [each for each in threading.enumerate() if each.name == "penstock-disk"]


def test_the_thread_ends_with_the_rest_and_one_that_hangs_when_the_disk_answers(
    tmp_path: Path, system: Hanging
) -> None:
    before = threads()
    for is_hanging in (False, True):
        disk = PatientDisk()
        file = disk.open(str(tmp_path / "log"))
        disk.hand.watch()
        file.append(b"x")
        [thread] = set(threads()) - set(before)
        if is_hanging:
            system.freeze()
            with pytest.raises(DiskHangsError):
                file.append(b"y")
        disk.hand.rest()
        system.thaw()
        thread.join(60)
        assert not thread.is_alive()
        file.append(b"z")
        disk.hand.watch()  # a new thread does what comes
        file.append(b"z")
        disk.hand.rest()
        until(lambda: threads() == before)
    assert (tmp_path / "log").read_bytes() == b"xzzxzz"


def test_another_thread_writes_behind_what_is_cut_off(tmp_path: Path, system: Hanging) -> None:
    """A large write may begin at the end of a file where the loop has left one."""
    disk = PatientDisk()
    file = disk.open(str(tmp_path / "log"))
    disk.hand.watch()
    system.freeze()
    with pytest.raises(DiskHangsError):
        file.append(b"left by the loop")
    other = threading.Thread(target=lambda: file.write(0, b"mine"), name="other")
    other.start()
    system.thaw()
    other.join(60)
    assert (tmp_path / "log").read_bytes() == b"mine"
    assert system.writers == ["penstock-disk", "other"], "one after the other"
    disk.hand.rest()


def test_a_file_is_closed_behind_a_write_that_hangs(tmp_path: Path, system: Hanging) -> None:
    disk = PatientDisk()
    log, other = disk.open(str(tmp_path / "log")), disk.open(str(tmp_path / "other"))
    disk.hand.watch()
    log.append(b"kept")
    system.freeze()
    with pytest.raises(DiskHangsError):
        log.append(b"left by the loop")
    for file in (log, other):
        file.close()  # without a wait
    system.thaw()
    answers(disk)
    assert (tmp_path / "log").read_bytes() == b"kept"
    with pytest.raises(StorageError, match="Bad file descriptor"):
        log.sync()
    disk.hand.rest()


def test_work_that_ends_as_patience_does_is_done(tmp_path: Path) -> None:
    class Late:
        """A lock that is taken too late each time, as by the clock."""

        def __init__(self, lock: LockType) -> None:
            self.release, self._lock = lock.release, lock

        def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
            if timeout >= 0:
                assert self._lock.acquire(timeout=60)
                self._lock.release()
                return False
            return self._lock.acquire(blocking)

    hand = PatientDisk().hand
    assert hand.do("", lambda: 1, lambda: None) == 1
    hand._done = Late(hand._done)  # type: ignore[assignment]
    assert hand.do("", lambda: 2, lambda: None) == 2
    assert not hand.hangs_ns
    hand.rest()


@pytest.mark.parametrize("size", [SMALL_BYTES, SMALL_BYTES + 1])
def test_the_loop_makes_no_large_write_itself_however_busy_it_is(
    tmp_path: Path, system: Hanging, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    disk = PatientDisk()
    file = disk.open(str(tmp_path / "log"))
    disk.hand.watch()
    monkeypatch.setattr(patient_disk, "BUSY_NS", 1 << 62)
    disk.hand.small_ns = 1
    file.append(bytes(size))
    is_loop = system.writers == [threading.current_thread().name]
    assert is_loop == (size == SMALL_BYTES)
    disk.hand.rest()


def test_a_small_write_among_large_ones_is_not_the_loop_s(
    tmp_path: Path, system: Hanging, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As that of a journal, beside a stream of publishes."""
    disk = PatientDisk()
    log, journal = disk.open(str(tmp_path / "log")), disk.open(str(tmp_path / "journal"))
    disk.hand.watch()
    monkeypatch.setattr(patient_disk, "BUSY_NS", SECOND)
    log.append(bytes(SMALL_BYTES + 1))
    journal.append(b"x")
    assert system.writers == ["penstock-disk"] * 2
    journal.append(b"y")
    assert system.writers[2:] == [threading.current_thread().name]
    disk.hand.rest()


def test_what_is_rare_holds_the_loop_up_and_shows_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk, seen = PatientDisk(), list[int]()
    path = str(tmp_path / "a")
    disk.replace_file(path, b"x")
    disk.hand.watch()
    fsync = os.fsync

    def seeing(fd: int) -> None:
        seen.append(disk.hand.held_up_since_ns)
        fsync(fd)

    monkeypatch.setattr("os.fsync", seeing)
    disk.replace_file(path, b"y")
    assert 0 < seen[0] == seen[1], "of the file and of its folder, which is one time"
    assert not disk.hand.held_up_since_ns
    disk.hand.rest()
    disk.sync_directory(str(tmp_path))
    assert seen[2:] == [0]
