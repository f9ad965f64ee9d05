"""Child programs: started with their output in a file, watched, and stopped in order.

A child has its own session, so a Ctrl-C in the terminal reaches only us and each child gets exactly
one signal. Should we be killed, the children end too (``leash``).
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from penstock.cluster.blocking import Daemon
from penstock.cluster.errors import UnreachableError
from penstock.core.clock import SYSTEM_CLOCK
from penstock.core.errors import PenstockError

_LEASH = "penstock.cli.live.leash"
_STOP_TIMEOUT_S = 30
_LOG_TAIL_LINES = 5
_POLL_S = 0.02


class ServiceError(PenstockError):
    """A child did not start, or ended although it should not."""


class Child:
    """One child program."""

    def __init__(self, name: str, process: subprocess.Popen[str], log: Path) -> None:
        self.name = name
        self.process = process
        self.log = log

    @property
    def ended(self) -> bool:
        return self.process.poll() is not None

    def require_alive(self) -> None:
        """Raise ServiceError with the end of its log when it is gone."""
        if self.ended:
            raise ServiceError(
                f"{self.name} ended with code {self.process.returncode}{self.tail()}"
            )

    def tail(self) -> str:
        """The last lines of its log, indented, to put behind a sentence."""
        lines = self.log.read_text(errors="replace").splitlines()[-_LOG_TAIL_LINES:]
        return "".join(f"\n    {line}" for line in lines) + f"\n  whole log: {self.log}"

    def tell(self, text: str) -> None:
        """Write a line to its standard input; a child that is gone does not mind."""
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(text + "\n")
            self.process.stdin.flush()

    def stop(self) -> bool:
        """Ask it to end and wait. False when it had to be killed."""
        if not self.ended:
            self.process.terminate()
        try:
            self.process.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()
            return False
        finally:
            if self.process.stdin is not None:
                with contextlib.suppress(BrokenPipeError):
                    self.process.stdin.close()
        return True

    def kill(self) -> None:
        """End it at once."""
        self.process.kill()
        self.process.wait()


def start(
    name: str, module: str, arguments: Sequence[str], log: Path, *, talks: bool = False
) -> Child:
    """Start ``python -m module``. With ``talks`` its standard input and output are pipes."""
    pipe = subprocess.PIPE if talks else None
    with log.open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", _LEASH, str(os.getpid()), module, *arguments],
            stdin=pipe or subprocess.DEVNULL,
            stdout=pipe or output,
            stderr=output,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,
        )
    return Child(name, process, log)


def wait_for_ping(child: Child, address: str, timeout_s: float = 30) -> None:
    """Return when the daemon answers ``/ping``. Raises ServiceError when it does not."""
    deadline_ns = SYSTEM_CLOCK.monotonic_ns() + int(timeout_s * 1e9)
    while SYSTEM_CLOCK.monotonic_ns() < deadline_ns:
        child.require_alive()
        if _pings(address):
            return
        time.sleep(_POLL_S)
    raise ServiceError(f"{child.name} does not answer on {address}{child.tail()}")


def stop_all(children: Sequence[Child]) -> list[str]:
    """Stop children, the last started first; the names of those that had to be killed.

    A KeyboardInterrupt meanwhile kills those that are left, and is raised.
    """
    try:
        return [child.name for child in reversed(children) if not child.stop()]
    except KeyboardInterrupt:
        for child in children:
            child.kill()
        raise


def _pings(address: str) -> bool:
    try:
        with Daemon(address, 1.0) as daemon:
            return daemon.ask("GET", "/ping").body == b"OK"
    except UnreachableError:
        return False
