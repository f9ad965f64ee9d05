"""Use of the machine by the process: memory, processor, files.

The figures are those that Linux and glibc keep. Where one cannot be had it is 0 (or, for the limit
of open files, none): a figure that is missing must not stop anybody from looking at the others.
"""

from __future__ import annotations

import ctypes
import functools
import mmap
import os
import resource
from typing import Any, NamedTuple


class Memory(NamedTuple):
    """Bytes: what lies in RAM, and what is mapped."""

    resident: int
    virtual: int


def memory() -> Memory:
    """The memory of this process now."""
    try:
        with open("/proc/self/statm") as file:
            virtual, resident = file.read().split()[:2]
    except OSError:  # not Linux
        return Memory(0, 0)
    return Memory(int(resident) * mmap.PAGESIZE, int(virtual) * mmap.PAGESIZE)


def cpu_seconds() -> float:
    """Processor time that all threads took, in the program and in the kernel for it."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def open_files() -> int:
    """File handles in use: logs, sockets, all."""
    try:
        return len(os.listdir("/proc/self/fd")) - 1  # one is that of the listing
    except OSError:
        return 0


def open_files_max() -> int | None:
    """The most open files that are allowed; None when there is no limit."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if limit == resource.RLIM_INFINITY else limit


class _Mallinfo2(ctypes.Structure):
    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks",
                     "uordblks", "fordblks", "keepcost")
    )  # fmt: skip


def free_heap() -> int:
    """Bytes that the C library's allocator keeps for later use; 0 without glibc 2.33."""
    mallinfo = _c_function("mallinfo2", _Mallinfo2)
    return int(mallinfo().fordblks) if mallinfo else 0


def release_free_heap() -> bool:
    """Give those bytes back to the system; False when there was nothing to give or no way to."""
    trim = _c_function("malloc_trim", ctypes.c_int)
    return bool(trim(ctypes.c_size_t(0))) if trim else False


@functools.cache
def _c_function(name: str, result: Any) -> Any:
    try:
        function = getattr(ctypes.CDLL(None), name)
    except (OSError, AttributeError):
        return None
    function.restype = result
    return function
