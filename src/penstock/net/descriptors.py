"""File descriptors whose reads and writes wait, also where they do not by themselves.

Whoever shares a terminal or a pipe may have set O_NONBLOCK on it: ssh leaves a terminal so, and
Node.js the pipes of its children.
"""

from __future__ import annotations

import io
import os
import select
import sys
from typing import Any


def read_some(descriptor: int, nbytes_max: int) -> bytes:
    """The next bytes, once there are some; none at the end. Raises OSError."""
    while True:
        try:
            return os.read(descriptor, nbytes_max)
        except BlockingIOError:
            _wait(descriptor, select.POLLIN)


def write_all(descriptor: int, data: bytes) -> None:
    """Write all of it. Raises OSError."""
    rest = memoryview(data)
    while rest:
        try:
            rest = rest[os.write(descriptor, rest) :]
        except BlockingIOError:
            _wait(descriptor, select.POLLOUT)


def make_output_wait() -> None:
    """Have ``print``, to standard output and standard error, wait for a slow reader."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if _does_not_wait(stream):
            setattr(sys, name, _waiting(stream))


class _WaitingFile(io.FileIO):
    """A file whose writes wait until the descriptor takes something."""

    def write(self, data: Any) -> int:
        while (nbytes := super().write(data)) is None:
            _wait(self.fileno(), select.POLLOUT)
        return nbytes


def _does_not_wait(stream: object) -> bool:
    try:
        return isinstance(stream, io.TextIOWrapper) and not os.get_blocking(stream.fileno())
    except (OSError, ValueError):  # no file, or closed
        return False


def _waiting(stream: io.TextIOWrapper) -> io.TextIOWrapper:
    """A stream like this one, on a file that waits."""
    stream.flush()
    file = io.BufferedWriter(_WaitingFile(stream.fileno(), "wb", closefd=False))
    # One that is not buffered, by PYTHONUNBUFFERED say, is read while the program goes on.
    by_line = stream.line_buffering or stream.write_through
    return io.TextIOWrapper(file, stream.encoding, stream.errors, line_buffering=by_line)


def _wait(descriptor: int, event: int) -> None:
    poll = select.poll()
    poll.register(descriptor, event)
    poll.poll()
