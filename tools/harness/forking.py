"""Penstock's programs as forks of a process that has imported them.

Of the processor time of a program in most tests nine tenths are Python's start and imports.
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
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from multiprocessing import forkserver
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import BinaryIO, Final
from unittest.mock import patch

from penstock.testing.daemons import Daemon

_CONTEXT: Final = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["tools.harness.preloaded"])
PROGRAMS: Final = frozenset(
    {"mqadmin", "mqbroker", "mqnamesrv", "nsqadmin", "nsqd", "nsqlookupd",
     "nsq_stat", "nsq_tail", "nsq_to_file", "nsq_to_http", "nsq_to_nsq", "to_nsq"}
)  # fmt: skip
_asking = threading.Lock()
"""A start looks at all processes for those that have ended. Where two threads look at one, only the
first finds its exit code, and the other notes that it was lost.
"""

Circumstance = Callable[[], None]
"""What the process does before the program begins, such as a fault to inject; picklable."""


class Forked:
    """A program that was forked, such as ``nsqd``; of ``subprocess.Popen`` what tests use.

    ``words`` is what it finds as ``sys.argv``: the name by which it is called, too.
    """

    def __init__(
        self,
        program: str,
        words: Sequence[str],
        out: BinaryIO,
        err: BinaryIO | None = None,
        stdin: BinaryIO | None = None,
        *,
        folder: Path | None = None,
        circumstances: Sequence[Circumstance] = (),
    ) -> None:
        with open(os.devnull, "rb") as nothing:
            files = (stdin or nothing, out, err or out)
            streams = [Connection(os.dup(each.fileno())) for each in files]
        place = str(folder or Path.cwd())
        # One that is left by a test is ended with the tests, as it is daemonic.
        self._process = _CONTEXT.Process(
            target=_run,
            args=(program, words, place, dict(os.environ), streams, circumstances),
            daemon=True,
        )
        with _asking:
            self._process.start()
        for stream in streams:
            stream.close()
        assert self._process.pid is not None
        self.pid = self._process.pid

    @property
    def returncode(self) -> int | None:
        """The exit code, the negative number of a signal; None while it runs."""
        with _asking:
            return self._process.exitcode

    def poll(self) -> int | None:
        """``returncode``."""
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """The exit code. Raises subprocess.TimeoutExpired."""
        wait([self._process.sentinel], timeout)
        code = self.returncode
        if code is None:
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0)
        return code

    def send_signal(self, number: int) -> None:
        """Send it a signal, unless it has ended."""
        if self.poll() is None:
            with suppress(ProcessLookupError):  # it ends in this very moment
                os.kill(self.pid, number)

    def terminate(self) -> None:
        """SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL."""
        self.send_signal(signal.SIGKILL)


Process = subprocess.Popen[bytes] | Forked


def start_server() -> None:
    """Start the process that all are forked from, to which Ctrl-C is nothing, from its first moment
    on. To be called in the main thread, where a person may press it.
    """
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        forkserver.ensure_running()
    finally:
        signal.signal(signal.SIGINT, before)


def start(
    words: Sequence[str], out: BinaryIO, err: BinaryIO | None = None, *, folder: Path | None = None
) -> Process:
    """Start a program with its output in files: by a fork if it is one of ours."""
    if called := _called(list(words)):
        return Forked(called[0], called, out, err, folder=folder)
    return subprocess.Popen(
        words, stdin=subprocess.DEVNULL, stdout=out, stderr=err or out, cwd=folder
    )


def completed(program: str, *flags: str) -> subprocess.CompletedProcess[str]:
    """What a program of ours says until it ends."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        words = [program, *flags]
        code = Forked(program, words, out, err).wait()
        for file in (out, err):
            file.seek(0)
        return subprocess.CompletedProcess(words, code, out.read().decode(), err.read().decode())


@contextmanager
def daemons_forked() -> Iterator[None]:
    """Have the daemons of ``penstock.testing`` forked until the end of the block."""
    with patch.object(Daemon, "_launch", lambda self, log: start(self.command(), log)):
        yield


def _called(words: Sequence[str]) -> list[str]:
    """``sys.argv`` of the program of ours that the words start; empty if it is another's."""
    at = 2 if words[:2] == [sys.executable, "-m"] else 0
    folder, _, name = words[at].rpartition("." if at else "/")
    ours = folder == ("penstock.cli" if at else str(Path(sys.executable).parent))
    return [name, *words[at + 1 :]] if ours and name in PROGRAMS else []


def _run(
    program: str, words: Sequence[str], folder: str, variables: Mapping[str, str],
    streams: Sequence[Connection], circumstances: Sequence[Circumstance],
) -> None:  # fmt: skip
    """Be the program."""
    for number, stream in enumerate(streams):
        os.dup2(stream.fileno(), number)
        stream.close()
    sys.stdin, sys.stdout = os.fdopen(0, "r", closefd=False), os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # under nohup it would be ignored
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(variables)
    time.tzset()
    for circumstance in circumstances:
        circumstance()
    sys.argv = list(words)
    importlib.import_module(f"penstock.cli.{program}").main()
