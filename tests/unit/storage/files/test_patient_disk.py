"""A disk that hangs on command: who waits for it, and what it leaves behind."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.core.errors import DiskHangsError
from penstock.storage.files import patient_disk
from penstock.storage.files.disk import OsLogFile
from penstock.storage.files.patient_disk import PatientDisk


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
    monkeypatch.setattr(patient_disk, "PATIENCE_S", 0.05)
    monkeypatch.setattr(patient_disk, "BUSY_NS", 0)
    yield hanging
    hanging.thaw()


def answers(disk: PatientDisk) -> None:
    deadline = time.monotonic() + 60
    while disk.hand.hangs_ns:
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
                    lambda: disk.remove(str(tmp_path / "log"))):  # fmt: skip
        with pytest.raises(DiskHangsError):
            refused()
    assert not answered.is_set()
    system.thaw()
    assert answered.wait(60)
    answers(disk)
    assert (tmp_path / "log").read_bytes() == b"before"
    file.append(b" and after")
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
    disk.hand.last_ns = 1
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
