"""Our daemons as processes that begin where all is imported already.

A daemon imports for 0.2 to 0.4 s of processor time before it serves, several times what most tests
need of it. So those of `penstock.testing.daemons` are forked here from one process that has
imported their modules and done nothing else: each has a pid, signals, memory and an end of its own,
and runs the same ``main`` with the same words, variables and files. What a fork cannot show, the
start itself, is tested by real programs (``REAL`` in `conftest.py`).

    python -m tests.programs.forking FD     # the process that forks, at the other end of a socket
"""

from __future__ import annotations

import gc
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from select import select
from tempfile import TemporaryFile
from threading import RLock
from typing import IO, Final

ROOT: Final = Path(__file__).parents[2]
MODULES: Final = (
    "numpy", "uvloop", "penstock.cli.nsqd", "penstock.cli.nsqlookupd", "penstock.cli.nsqadmin",
    "penstock.cli.mqnamesrv", "penstock.cli.mqbroker", "penstock.cli.shared.dialects",
    "penstock.cli.shared.broker_opening", "penstock.cli.shared.rocketmq_port",
    "penstock.cli.shared.starting", "penstock.nsq.nsqd.copies.starting",
    "penstock.nsq.nsqlookupd.daemon", "penstock.admin.daemon", "penstock.rocketmq.namesrv.daemon",
)  # fmt: skip
"""What the daemons import when they start; whatever else they need they import themselves."""
_MESSAGE_MAX: Final = 1 << 18
_LOOK_S: Final = 0.05


class Forked:
    """A program that was forked, as ``subprocess.Popen`` shows one."""

    def __init__(self, forks: Forks, pid: int) -> None:
        self._forks = forks
        self.pid = pid
        self.returncode: int | None = None

    def poll(self, wait_s: float = 0) -> int | None:
        """The exit code, the negative number of a signal; None while it runs."""
        if self.returncode is None:
            self.returncode = self._forks.ended(self.pid, wait_s)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """The exit code. Raises ``subprocess.TimeoutExpired``."""
        ends = None if timeout is None else time.monotonic() + timeout
        while self.poll(_LOOK_S) is None:
            if ends is not None and timeout is not None and time.monotonic() >= ends:
                raise subprocess.TimeoutExpired(f"process {self.pid}", timeout)
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send it a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """SIGKILL."""
        self.send_signal(signal.SIGKILL)


class Forks:
    """The process that forks, started when it is first needed."""

    def __init__(self) -> None:
        self._lock = RLock()
        self._socket: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._codes: dict[int, int] = {}

    def run(
        self, module: str, flags: Sequence[str], out: IO[bytes], err: IO[bytes] | None = None
    ) -> Forked:
        """Run the ``main`` of a module with this output, here and with what the environment is.

        Errors go there as well, unless they have a file of their own.
        """
        order = {"module": module, "flags": list(flags), "at": str(Path.cwd())}
        with self._lock:
            connection = self._connection()
            data = json.dumps({**order, "environment": dict(os.environ)}).encode()
            files = [out.fileno(), (err or out).fileno()]
            socket.send_fds(connection, [data], files)
            while (pid := self._take(connection)) is None:
                pass
            return Forked(self, pid)

    def completed(self, module: str, *flags: str) -> subprocess.CompletedProcess[str]:
        """What ``subprocess.run`` would return of it, with all that it said.

        Raises ``subprocess.TimeoutExpired`` after a minute.
        """
        with TemporaryFile() as out, TemporaryFile() as err:
            program = self.run(module, flags, out, err)
            try:
                code = program.wait(60)
            finally:
                program.kill()
            said = []
            for file in (out, err):
                file.seek(0)
                said.append(file.read().decode())
        return subprocess.CompletedProcess([module, *flags], code, *said)

    def ended(self, pid: int, wait_s: float) -> int | None:
        """Its exit code, waited for so long; None while it runs."""
        with self._lock:
            connection = self._connection()
            while pid not in self._codes and select([connection], [], [], wait_s)[0]:
                self._take(connection)
            return self._codes.get(pid)

    def close(self) -> None:
        """End it; daemons that still run stay."""
        if self._socket is not None and self._process is not None:
            self._socket.close()
            self._process.wait()

    def _take(self, connection: socket.socket) -> int | None:
        """Take the next message: the pid of what was forked, or None and the end of another."""
        message = connection.recv(_MESSAGE_MAX)
        assert message, "the process that forks has ended"
        content = json.loads(message)
        pid = int(content["pid"])
        if "code" not in content:
            self._codes.pop(pid, None)  # the number of one before it
            return pid
        self._codes[pid] = content["code"]
        return None

    def _connection(self) -> socket.socket:
        if self._socket is None:
            self._socket, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with other:
                words = [sys.executable, "-m", __name__, str(other.fileno())]
                self._process = subprocess.Popen(
                    words, stdin=subprocess.DEVNULL, cwd=ROOT, pass_fds=[other.fileno()]
                )
        return self._socket


forks: Final = Forks()
"""The one of this process."""


def serve(connection: socket.socket) -> str | None:
    """Fork programs as they are asked for. Returns None at the end, and in each of these
    processes the module that it is to run.
    """
    woken, waker = socket.socketpair()
    for each in (woken, waker):
        each.setblocking(False)
    signal.set_wakeup_fd(waker.fileno())
    signal.signal(signal.SIGCHLD, lambda *_: None)
    with selectors.DefaultSelector() as ready, woken, waker, connection:
        ready.register(connection, selectors.EVENT_READ)
        ready.register(woken, selectors.EVENT_READ)
        while True:
            for key, _ in ready.select():
                if key.fileobj is woken:
                    woken.recv(4096)
                    _tell_ends(connection)
                    continue
                data, logs, _, _ = socket.recv_fds(connection, _MESSAGE_MAX, 2)
                if not data:
                    return None
                order = json.loads(data)
                pid = os.fork()
                if pid == 0:
                    signal.set_wakeup_fd(-1)
                    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                    _become(order["flags"], order["at"], order["environment"], logs)
                    return str(order["module"])
                for log in logs:
                    os.close(log)
                connection.send(json.dumps({"pid": pid}).encode())


def _tell_ends(connection: socket.socket) -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if not pid:
            return
        code = os.waitstatus_to_exitcode(status)
        connection.send(json.dumps({"pid": pid, "code": code}).encode())


def _become(flags: Sequence[str], at: str, environment: Mapping[str, str], logs: list[int]) -> None:
    """Take over words, folder, variables and output."""
    os.chdir(at)
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    sys.argv[1:] = flags
    for number, log in enumerate(logs, 1):
        os.dup2(log, number)
        os.close(log)


def main() -> None:
    """Import what daemons need, and serve."""
    for each in MODULES:
        import_module(each)
    gc.freeze()  # or a look for garbage would copy all pages
    module = serve(socket.socket(fileno=int(sys.argv[1])))
    if module is not None:
        import_module(module).main()


if __name__ == "__main__":
    main()
