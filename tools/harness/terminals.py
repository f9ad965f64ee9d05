"""A command in a real pseudo-terminal, and its screen as a terminal would show it."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import pyte
from pyte.screens import Char

from penstock.core.clock import SYSTEM_CLOCK

END = b"\x06"


PENSTOCK = (sys.executable, "-m", "penstock.cli.penstock")


class Screen:
    """A command, of ``penstock`` if no other is named, in a terminal, and what stands there."""

    def __init__(
        self,
        *arguments: str,
        program: Sequence[str] = PENSTOCK,
        columns: int = 100,
        lines: int = 20,
        wait_s: int = 60,
    ) -> None:
        self.raw = b""
        self._wait_ns = wait_s * 10**9
        self._screen = pyte.Screen(columns, lines)
        self._stream = pyte.ByteStream(self._screen)
        self._master, slave = pty.openpty()
        self._slave = slave
        self._size(columns, lines)
        self.before = termios.tcgetattr(slave)
        self.process = subprocess.Popen(
            [*program, *arguments],
            stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
            env={**os.environ, "TERM": "xterm-256color"},
        )  # fmt: skip

    def type(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def resize(self, columns: int, lines: int) -> None:
        self._screen.resize(lines, columns)
        self._size(columns, lines)
        self.process.send_signal(signal.SIGWINCH)

    def text(self) -> str:
        return "\n".join(line.rstrip() for line in self._screen.display)

    def cells(self) -> list[list[Char]]:
        """What stands there, with its colours."""
        columns, buffer = range(self._screen.columns), self._screen.buffer
        return [[buffer[line][column] for column in columns] for line in range(self._screen.lines)]

    def until(self, reached: Callable[[str], bool]) -> str:
        """The screen once this holds of it."""
        end = SYSTEM_CLOCK.monotonic_ns() + self._wait_ns
        while not reached(self.text()):
            ended = self.process.poll() is not None
            self._read(0.1)
            late = ended or SYSTEM_CLOCK.monotonic_ns() > end
            assert not late or reached(self.text()), self.text()
        return self.text()

    def ended(self) -> int:
        """Wait for the end; the exit code."""
        end = SYSTEM_CLOCK.monotonic_ns() + self._wait_ns
        while self.process.poll() is None:
            assert SYSTEM_CLOCK.monotonic_ns() < end, self.text()
            self._read(0.02)
        os.write(self._slave, END)  # comes behind all that the program wrote
        while not self.raw.endswith(END):
            assert SYSTEM_CLOCK.monotonic_ns() < end, self.text()
            self._read(0.1)
        self.raw = self.raw.removesuffix(END)
        return self.process.returncode

    def modes(self) -> list[object]:
        return termios.tcgetattr(self._slave)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self._slave)
        os.close(self._master)

    def _size(self, columns: int, lines: int) -> None:
        fcntl.ioctl(self._slave, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def _read(self, timeout: float) -> None:
        while select.select([self._master], [], [], timeout)[0]:
            data = os.read(self._master, 65536)
            self.raw += data
            self._stream.feed(data)
            timeout = 0


@contextmanager
def screen(
    *arguments: str,
    program: Sequence[str] = PENSTOCK,
    columns: int = 100,
    lines: int = 20,
    wait_s: int = 60,
) -> Iterator[Screen]:
    shown = Screen(*arguments, program=program, columns=columns, lines=lines, wait_s=wait_s)
    try:
        yield shown
    finally:
        shown.close()
