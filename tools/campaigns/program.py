"""The program of a node in a forked process, which saves the start of Python and the imports."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from multiprocessing import forkserver
from pathlib import Path
from typing import Final

import penstock.cli.mqbroker
import penstock.cli.nsqd
import penstock.cli.shared.broker_opening
import penstock.cli.shared.dialects
import penstock.cli.shared.rocketmq_port
import penstock.cli.shared.starting
import penstock.nsq.nsqd.daemon
import penstock.nsq.nsqd.data_path
import penstock.nsq.nsqd.options
import penstock.rocketmq.broker.daemon  # the program imports these when it needs them

Circumstance = Callable[[], None]
"""A fault to inject into the process before the program begins. It must be picklable."""

_FORKS: Final = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload([__name__])
_MAINS: Final = {"nsqd": penstock.cli.nsqd.main, "mqbroker": penstock.cli.mqbroker.main}


def start_forks() -> None:
    """Start the process that all are forked from, to which Ctrl-C is nothing, from its first moment
    on, nor to those that it forks until they are programs. To be called in the main thread.
    """
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        forkserver.ensure_running()
    finally:
        signal.signal(signal.SIGINT, before)


def _run(
    program: str, arguments: Sequence[str], log: Path, circumstances: Sequence[Circumstance]
) -> None:
    os.setsid()  # Ctrl-C is for the campaign
    output = os.open(log, os.O_WRONLY | os.O_APPEND)
    os.dup2(output, 1)
    os.dup2(output, 2)
    for circumstance in circumstances:
        circumstance()
    sys.argv = [program, *arguments]
    _MAINS[program]()


class Forked:
    """A running program with the interface of a `subprocess.Popen`."""

    def __init__(
        self,
        arguments: Sequence[str],
        log: Path,
        circumstances: Sequence[Circumstance],
        program: str = "nsqd",
    ) -> None:
        self._process = _FORKS.Process(target=_run, args=(program, arguments, log, circumstances))
        self._process.start()
        assert self._process.pid is not None
        self.pid: int = self._process.pid

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired("the program", timeout or 0)
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self._process.kill()
