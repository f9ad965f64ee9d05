"""The cases of `storage/test_os_disk.py` that need a port or a process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from penstock.core.errors import LockedError
from penstock.storage.files.disk import OsDisk

_HOLDER = """
import sys
from penstock.storage.files.disk import OsDisk
lock = OsDisk().lock(sys.argv[1])
print("held", flush=True)
sys.stdin.read()
"""


def test_one_process_at_a_time_holds_a_directory(tmp_path: Path) -> None:
    disk = OsDisk()
    holder = subprocess.Popen(
        [sys.executable, "-c", _HOLDER, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(LockedError, match="possibly in use by another instance"):
            disk.lock(str(tmp_path))
        holder.kill()  # the lock goes with the process, however it ends
    disk.lock(str(tmp_path)).release()
