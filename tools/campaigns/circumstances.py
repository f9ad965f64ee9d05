"""Faults to inject into a node: failing system calls, a full disk, a clock that is set.

Each is applied to the process before the program begins. The program reaches all files through
`penstock.storage.files.disk` and the time through `penstock.core.clock`, so that is where they act.
"""

from __future__ import annotations

import builtins
import errno
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from penstock.core.clock import SystemClock
from penstock.storage.files import disk

CALLS: Final = {
    "pwrite": ("EIO", "ENOSPC", "TORN"), "write": ("EIO", "ENOSPC"), "fdatasync": ("EIO",),
    "fsync": ("EIO",), "rename": ("EIO", "ENOSPC"), "ftruncate": ("EIO",), "unlink": ("EIO",),
    "mkdir": ("ENOSPC",),
}  # fmt: skip
"""The calls that change files, and the failures of each. `TORN`: half of the bytes are written, and
the process is killed.
"""
KILL: Final = "KILL"
_GROWING: Final = ("pwrite", "write", "mkdir")


class _Calls:
    """The module `os` for `storage.files.disk`, which watches the calls that change files."""

    def __init__(self, before: Callable[[str, tuple[Any, ...]], None]) -> None:
        self._before = before

    def __getattr__(self, name: str) -> Any:
        function = getattr(os, name)
        return self._seen(name, function) if name in CALLS else function

    def open_file(self, *arguments: Any) -> Any:
        """Replace `open`: everything that is written through the file counts as one write."""
        if "w" in arguments[1]:
            return self._seen("write", builtins.open)(*arguments)
        return builtins.open(*arguments)

    def _seen(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **more: Any) -> Any:
            self._before(name, arguments)
            return function(*arguments, **more)

        return call

    def apply(self) -> None:
        """Start to watch the calls."""
        disk.os = self  # type: ignore[assignment,attr-defined]
        disk.open = self.open_file  # type: ignore[attr-defined]


@dataclass(frozen=True)
class Failing:
    """A failure of the n-th call of a kind; 0: of no call. The folder `counts` counts the calls: it
    has a file for each kind with a byte for each call.
    """

    call: str
    number: int
    what: str
    counts: Path

    def __call__(self) -> None:
        files = {
            name: os.open(self.counts / name, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            for name in CALLS
        }
        lock = threading.Lock()
        left = [self.number]

        def before(name: str, arguments: tuple[Any, ...]) -> None:
            os.write(files[name], b".")
            with lock:
                left[0] -= name == self.call
                struck = name == self.call and left[0] == 0
            if struck:
                self._strike(arguments)

        _Calls(before).apply()

    def counted(self) -> Counter[str]:
        """The number of calls of each kind."""
        return Counter({name: (self.counts / name).stat().st_size for name in CALLS})

    def _strike(self, arguments: tuple[Any, ...]) -> None:
        if self.what in (KILL, "TORN"):
            if self.what == "TORN":
                descriptor, data, position = arguments
                os.pwrite(descriptor, data[: len(data) // 2], position)
            os.kill(os.getpid(), signal.SIGKILL)
        code = getattr(errno, self.what)
        raise OSError(code, os.strerror(code))


@dataclass(frozen=True)
class Full:
    """A disk that is full as long as this file exists."""

    mark: Path

    def __call__(self) -> None:
        def before(name: str, _: tuple[Any, ...]) -> None:
            if name in _GROWING and self.mark.exists():
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        _Calls(before).apply()


@dataclass(frozen=True)
class Clock:
    """A wall clock that is ahead by the seconds in this file; behind if they are negative."""

    file: Path

    def set(self, seconds: int) -> None:
        """Set the clock from outside of the process."""
        new = self.file.with_suffix(".new")
        new.write_text(f"{seconds:+d}")
        new.rename(self.file)

    def __call__(self) -> None:
        def wall_ns() -> int:
            return time.time_ns() + int(self.file.read_text()) * 10**9

        SystemClock.wall_ns = staticmethod(wall_ns)
