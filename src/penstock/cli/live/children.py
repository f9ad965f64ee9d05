"""Child programs: started with their output in a file, watched, and stopped in order.

A child has its own session, so a Ctrl-C in the terminal reaches only us and each child gets exactly
one signal. Should we be killed, the children end too (``parent_watch``).
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import IO, Any

from penstock.cli.live.display import Board, Display
from penstock.cluster.blocking import Daemon
from penstock.cluster.upstream_errors import UnreachableError
from penstock.core.clock import SYSTEM_CLOCK
from penstock.core.errors import PenstockError

# A daemon that goes takes those connected to it along; after this time it is seen to be gone too.
_GRACE_S = 0.5


class Children:
    """The children of one command. ``all`` is in the order in which they were started."""

    def __init__(self, board: Board, display: Display) -> None:
        self.all: list[Child] = []
        self.ready: set[str] = set()
        self.finished: set[str] = set()
        self._board = board
        self._display = display
        self._reports = Reports()
        self._talkers: set[str] = set()
        self._silent: set[str] = set()
        self._errors: dict[str, str] = {}

    def start_talker(
        self,
        name: str,
        module: str,
        arguments: Sequence[str],
        log: Path,
        handle: Callable[[dict[str, Any]], None],
    ) -> Child:
        """Start a child that reports; ``check`` calls ``handle`` with each report.

        ``state="ready"`` puts it among ``ready``, ``finished=True`` among ``finished``: from then
        on it may end. ``error`` is why it is about to end before its time.
        """
        child = start(name, module, arguments, log, talks=True)
        self.all.append(child)
        self._talkers.add(name)

        def note(facts: dict[str, Any]) -> None:
            if facts.get("state") == "ready":
                self.ready.add(name)
            if facts.get("finished"):
                self.finished.add(name)
            if "error" in facts:
                self._errors[name] = str(facts["error"])
            handle(facts)

        assert child.process.stdout is not None
        self._reports.follow(child.process.stdout, note, lambda: self._silent.add(name))
        return child

    def check(self) -> None:
        """Handle what was reported. Raises ServiceError that names a child lost, a daemon first."""
        self._reports.deliver()
        if not self._lost():
            return
        time.sleep(_GRACE_S)
        self._reports.deliver()
        lost = self._lost()[0]
        for service in self._board.services:
            if service.name == lost.name:
                service.state = "failed"
        if lost.name in self._errors:
            raise ServiceError(f"{lost.name}: {self._errors[lost.name]}")
        lost.require_alive()

    def stop(self) -> None:
        """End the children, the last started first; a KeyboardInterrupt kills those left."""
        for name in stop_all(self.all):
            self._display.note(f"{name} did not stop by itself and was killed")
        for service in self._board.services:
            if service.state != "failed":
                service.state = "stopped"

    def _lost(self) -> list[Child]:
        """Children that ended, or said that they will, before their time; daemons first."""
        lost = [child for child in self.all if self._is_lost(child)]
        return sorted(lost, key=lambda child: child.name in self._talkers)

    def _is_lost(self, child: Child) -> bool:
        if child.name in self._errors:
            return True
        if not child.ended or child.name in self.finished:
            return False
        # One that ended well may have said that it finished, in a report still to come.
        return child.process.returncode != 0 or child.name in self._silent | self._daemons()

    def _daemons(self) -> set[str]:
        return {child.name for child in self.all} - self._talkers


def report(**facts: Any) -> None:
    """Tell the parent; used in the child."""
    sys.stdout.write(json.dumps(facts) + "\n")
    sys.stdout.flush()


def parse(line: str) -> dict[str, Any] | None:
    """One report, or None for anything else, such as what a library prints or half a line."""
    try:
        facts = json.loads(line)
    except ValueError:
        return None
    return facts if isinstance(facts, dict) else None


class Reports:
    """The reports of several children, collected by a thread each; used in the parent."""

    def __init__(self) -> None:
        self._queue: SimpleQueue[Callable[[], None]] = SimpleQueue()

    def follow(
        self,
        stream: IO[str],
        handle: Callable[[dict[str, Any]], None],
        at_end: Callable[[], None] | None = None,
    ) -> None:
        """Have ``deliver`` call ``handle`` with each report of this stream, then ``at_end``."""

        def read() -> None:
            with stream:
                for line in stream:
                    facts = parse(line)
                    if facts is not None:
                        self._queue.put(partial(handle, facts))
            if at_end is not None:
                self._queue.put(at_end)

        threading.Thread(target=read, daemon=True).start()

    def deliver(self) -> None:
        """Call the handlers for what has come, in this thread."""
        while not self._queue.empty():
            self._queue.get()()


_PARENT_WATCH = "penstock.cli.live.parent_watch"
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
            [sys.executable, "-m", _PARENT_WATCH, str(os.getpid()), module, *arguments],
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
