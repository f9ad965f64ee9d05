"""The holder of a lock is named as far as the system knows it."""

from __future__ import annotations

import os
from pathlib import Path

from penstock.cli.doctor.holder import holder_of
from penstock.storage.files.disk import DirectoryLock


def test_the_process_that_holds_the_lock(tmp_path: Path) -> None:
    lock = DirectoryLock(str(tmp_path))
    assert holder_of(str(tmp_path)).startswith(f"process {os.getpid()} (")
    lock.release()
    assert holder_of(str(tmp_path)) == "another process"


def test_a_process_that_cannot_be_seen_has_its_number_alone(tmp_path: Path) -> None:
    locks = tmp_path / "locks"
    inode = tmp_path.stat().st_ino
    locks.write_text(f"1: POSIX ADVISORY WRITE 1 08:01:{inode} 0 EOF\n"
                     f"2: FLOCK ADVISORY WRITE 999999999 08:01:{inode} 0 EOF\n")  # fmt: skip
    assert holder_of(str(tmp_path), locks) == "process 999999999"


def test_a_system_that_lists_no_locks(tmp_path: Path) -> None:
    assert holder_of(str(tmp_path), tmp_path / "no") == "another process"
