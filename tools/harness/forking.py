"""Penstock's programs as forks of a process that has imported them.

Of the processor time of a daemon in most tests nine tenths are Python's start and imports.
multiprocessing's fork server does both once; each program is a fork of it, which enters where the
command does: with the words, folder, variables and files that are given. It is a process like any
other, with its own pid, signals, memory and exit code. What a fork does not show is the start
itself: tests that are about it, and programs that are not ours, use ``subprocess``.
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import BinaryIO, Final

_CONTEXT: Final = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["tools.harness.preloaded"])
_OURS: Final = "penstock.cli."
_NOT_LOADED: Final = "penstock.cli.penstock"


class Forked:
    """A program that was forked; of ``subprocess.Popen`` what tests use."""

    def __init__(self, module: str, words: Sequence[str], out: BinaryIO, err: BinaryIO) -> None:
        streams = [Connection(os.dup(each.fileno()), readable=False) for each in (out, err)]
        # A daemonic process is ended with the tests, if they have left it.
        self._process = _CONTEXT.Process(
            target=_run, args=(module, words, os.getcwd(), dict(os.environ), *streams), daemon=True
        )
        self._process.start()
        for each in streams:
            each.close()
        assert self._process.pid is not None
        self.pid = self._process.pid

    @property
    def returncode(self) -> int | None:
        """The exit code, the negative number of a signal; None while it runs."""
        return self._process.exitcode

    def poll(self) -> int | None:
        """``returncode``."""
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """The exit code. Raises subprocess.TimeoutExpired."""
        self._process.join(timeout)
        code = self.returncode
        if code is None:
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0)
        return code

    def send_signal(self, number: int) -> None:
        """Send it a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL."""
        self.send_signal(signal.SIGKILL)


Program = subprocess.Popen[bytes] | Forked


def start(words: Sequence[str], out: BinaryIO, err: BinaryIO | None = None) -> Program:
    """Start a program with its output in files: by a fork if it is one of ours."""
    module, rest = _program(words)
    if module:
        return Forked(module, rest, out, err or out)
    return subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=out, stderr=err or out)


def _program(words: Sequence[str]) -> tuple[str, Sequence[str]]:
    """The module of the program that the words start, empty if it is not ours; and the others."""
    first, *rest = words
    if first == sys.executable and rest[0] == "-m":
        module, rest = rest[1], rest[2:]
    else:
        folder, _, name = first.rpartition("/")
        module = f"{_OURS}{name}" if folder == str(Path(sys.executable).parent) else ""
    return module if module.startswith(_OURS) and module != _NOT_LOADED else "", rest


def _run(
    module: str, words: Sequence[str], folder: str, variables: Mapping[str, str],
    out: Connection, err: Connection,
) -> None:  # fmt: skip
    """Be the program."""
    for number, stream in ((1, out), (2, err)):
        os.dup2(stream.fileno(), number)
        stream.close()
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(variables)
    time.tzset()
    program = importlib.import_module(module)
    sys.argv = [str(program.__file__), *words]
    program.main()
