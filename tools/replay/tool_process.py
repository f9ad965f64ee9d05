"""Runs a tool as a process: ours forked from one that has the code loaded, or somebody else's.

`PENSTOCK_TOOLS`, a directory of programs, replaces ours.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
from pathlib import Path

from tools.harness.forking import Forked, Process

PROGRAMS = os.environ.get("PENSTOCK_TOOLS", "")
OURS = "/programs"
"""What our own commands are called by: `/programs/nsq_tail`."""


class ToolProcess:
    """One run; its outputs are files in `folder`."""

    def __init__(self, command: str, folder: Path, stdin: bytes, *, stdin_stays: bool) -> None:
        self.words = _words(command)
        self._out = folder / "stdout"
        self._err = folder / "stderr"
        source = folder / "stdin"
        self._open_end = -1
        if stdin_stays:
            os.mkfifo(source)
            self._open_end = os.open(source, os.O_RDWR)
            os.write(self._open_end, stdin)
        else:
            source.write_bytes(stdin)
        with source.open("rb") as given, self._out.open("wb") as out, self._err.open("ab") as err:
            self._process: Process = (
                subprocess.Popen(self.words, stdin=given, stdout=out, stderr=err)
                if PROGRAMS
                else Forked(Path(self.words[0]).name, self.words, out, err, given)
            )
        self.pid = self._process.pid

    @property
    def stdout(self) -> str:
        return self._out.read_text(errors="replace") if self._out.exists() else ""

    @property
    def stderr(self) -> str:
        return self._err.read_text(errors="replace") if self._err.exists() else ""

    def code(self) -> int | None:
        """The exit code, negative for a signal; None while it runs."""
        return self._process.poll()

    def handles_term(self) -> bool:
        """Whether it has come so far as to handle SIGTERM; not when it has ended."""
        try:
            status = Path(f"/proc/{self.pid}/status").read_text()
        except (FileNotFoundError, ProcessLookupError):
            return False
        caught = re.search(r"^SigCgt:\s*([0-9a-f]+)", status, re.MULTILINE)
        return caught is not None and bool(int(caught[1], 16) >> (signal.SIGTERM - 1) & 1)

    def wait(self, seconds: float) -> int | None:
        """The exit code, waiting for it so long."""
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self._process.send_signal(number)

    def states(self) -> set[str]:
        """The letters of its threads in /proc: S while one waits for something, T while it is
        stopped.
        """
        threads = Path(f"/proc/{self.pid}/task").glob("*/stat")
        return {thread.read_text().rpartition(") ")[2][0] for thread in threads}

    def end(self) -> None:
        """Make sure that it does not run any more."""
        if self.code() is None:
            self.signal(signal.SIGKILL)
            self.wait(10)
        if self._open_end >= 0:
            os.close(self._open_end)


def _words(command: str) -> list[str]:
    program, *words = [word.replace("\0", " ") for word in shlex.split(command)]
    if PROGRAMS:
        return [str(Path(PROGRAMS) / program), *words]
    return [f"{OURS}/{program}", *words]
