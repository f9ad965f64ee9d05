"""Runs a tool as a process: ours forked from one that has the code loaded, or somebody else's.

Python's start would take most of the time of three hundred runs. So ours are forked off a server
that has the modules imported (`multiprocessing`'s fork server) and enter where the command does.
`PENSTOCK_TOOLS`, a directory of programs, replaces them.
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from multiprocessing.connection import wait
from pathlib import Path

PROGRAMS = os.environ.get("PENSTOCK_TOOLS", "")
OURS = "/programs"
"""What our own commands are called by: `/programs/nsq_tail`."""
MODULES = ("nsq_stat", "nsq_tail", "nsq_to_file", "nsq_to_http", "nsq_to_nsq", "to_nsq")
PRELOADED = ("stat", "tail", "to_nsq", "to_file", "to_http", "nsq_to_nsq", "cluster")

_asking = threading.Lock()
"""A start looks at all processes for those that have ended. Where two threads look at one, only the
first finds its exit code, and the other notes that it was lost.
"""
_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(
    [
        "penstock.net.loop",
        "penstock.nsq.client",
        "penstock.nsq.client.aio",
        "penstock.cli.nsqlookupd",
        *(f"penstock.nsq.tools.{name}" for name in PRELOADED),
    ]
)


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
        if PROGRAMS:
            self._start_program(source)
        else:
            self._process = _context.Process(
                target=_enter, args=(self.words, str(source), str(self._out), str(self._err))
            )
            with _asking:
                self._process.start()

    def _start_program(self, source: Path) -> None:
        with source.open("rb") as stdin, self._out.open("wb") as out, self._err.open("wb") as err:
            self._popen = subprocess.Popen(self.words, stdin=stdin, stdout=out, stderr=err)

    @property
    def stdout(self) -> str:
        return self._out.read_text(errors="replace") if self._out.exists() else ""

    @property
    def stderr(self) -> str:
        return self._err.read_text(errors="replace") if self._err.exists() else ""

    def code(self) -> int | None:
        """The exit code, negative for a signal; None while it runs."""
        if PROGRAMS:
            return self._popen.poll()
        with _asking:
            return self._process.exitcode

    def handles_term(self) -> bool:
        """Whether it has come so far as to handle SIGTERM; not when it has ended."""
        try:
            status = Path(f"/proc/{self.pid}/status").read_text()
        except (FileNotFoundError, ProcessLookupError):
            return False
        caught = re.search(r"^SigCgt:\s*([0-9a-f]+)", status, re.MULTILINE)
        return caught is not None and bool(int(caught[1], 16) >> (signal.SIGTERM - 1) & 1)

    @property
    def pid(self) -> int:
        """Its process id."""
        pid = self._popen.pid if PROGRAMS else self._process.pid
        assert pid is not None
        return pid

    def wait(self, seconds: float) -> int | None:
        """The exit code, waiting for it so long."""
        if not PROGRAMS:
            wait([self._process.sentinel], seconds)
            return self.code()
        try:
            return self._popen.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        if self.code() is None:
            with suppress(ProcessLookupError):  # it ends in this very moment
                os.kill(self.pid, number)

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


def _enter(words: list[str], stdin: str, stdout: str, stderr: str) -> None:
    """In the new process: what the command's entry point does."""
    for number, path, flags in (
        (0, stdin, os.O_RDONLY),
        (1, stdout, os.O_WRONLY | os.O_CREAT),
        (2, stderr, os.O_WRONLY | os.O_CREAT | os.O_APPEND),
    ):
        opened = os.open(path, flags, 0o644)
        os.dup2(opened, number)
        os.close(opened)
    sys.stdin, sys.stdout = os.fdopen(0, "r", closefd=False), os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # under nohup it would be ignored
    sys.argv = words
    module = Path(words[0]).name
    importlib.import_module(f"penstock.cli.{module}").main()
