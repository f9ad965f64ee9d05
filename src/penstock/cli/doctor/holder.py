"""The process that has a directory locked."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

_LOCKS: Final = Path("/proc/locks")


def holder_of(directory: str, locks: Path = _LOCKS) -> str:
    """The holder of the lock on a directory, in words; Linux alone says which process it is."""
    inode = str(os.stat(directory).st_ino)
    try:
        lines = locks.read_text().splitlines()
    except OSError:
        lines = []
    for line in lines:
        # "1: FLOCK ADVISORY WRITE 1234 08:01:5678 0 EOF": process, device and inode
        fields = line.split()
        if len(fields) > 5 and fields[1] == "FLOCK" and fields[5].rpartition(":")[2] == inode:
            return f"process {fields[4]}{_command(fields[4])}"
    return "another process"


def _command(pid: str) -> str:
    try:
        words = Path("/proc", pid, "cmdline").read_bytes().decode("utf-8", "replace").split("\0")
    except OSError:
        return ""
    return f" ({' '.join(words[:3]).strip()})"
