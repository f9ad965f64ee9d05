"""Penstock's programs, forked off a process that has their code imported.

Of the processor time of a daemon in a test nine tenths are Python's start and imports. So one
process does both, and each program is a fork of it, which enters where the command does: with the
words, folder, environment and streams that are given. It is a process like any other, with an exit
code of its own, and can be killed. Programs that are not ours start as ever.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import pkgutil
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, AnyStr, BinaryIO, Final, NamedTuple

ROOT: Final = Path(__file__).parent.parent
_OURS: Final = "penstock.cli."
COMMANDS: Final = (
    *("mqadmin", "mqbroker", "mqnamesrv", "nsqadmin", "nsqd", "nsqlookupd"),
    *("nsq_stat", "nsq_tail", "nsq_to_file", "nsq_to_http", "nsq_to_nsq", "to_nsq"),
)
_UNUSED: Final = tuple(
    f"penstock.{name}"
    for name in ("spark", "arrow", "testing", "cli.pipeline", "cli.demo", "cli.penstock")
)
"""What daemons and tools do not import, and what takes long."""
_NUMBER: Final = struct.Struct("=i")
_REQUEST_SIZE_MAX: Final = 1 << 20
_STREAMS: Final = 3
_AT_START: Final = ("PYTHON", "LD_", "MALLOC_", "GLIBC_", "OPENBLAS_", "FAKETIME")
"""Variables that a program heeds as it starts, by their first letters."""

_starting = threading.Lock()


# --- asking for a start --------------------------------------------------------------------------


class Forked(subprocess.Popen[AnyStr]):
    """One of our programs, started by a fork."""

    _status: socket.socket

    def _execute_child(self, args: Sequence[str], *more: Any) -> None:
        cwd, env, *_ = more[4:]
        p2cread, _, _, c2pwrite, _, errwrite = pipes = more[9:15]
        streams: list[int] = [
            at if each == -1 else each for at, each in enumerate((p2cread, c2pwrite, errwrite))
        ]
        module, words = program_of(args)
        start = {
            "module": module,
            "words": words,
            "cwd": os.fspath(cwd or Path.cwd()),
            "env": dict(os.environ if env is None else env),
        }
        self._status, theirs = socket.socketpair()
        with theirs:
            request = json.dumps(start).encode()
            with _starting:
                nursery = _nursery()
            socket.send_fds(nursery, [request], [*streams, theirs.fileno()])
        self.pid = _NUMBER.unpack(self._status.recv(_NUMBER.size, socket.MSG_WAITALL))[0]
        self._child_created = True
        self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]

    def _try_wait(self, wait_flags: int) -> tuple[int, int]:
        """Its process id and status as of ``waitpid``, which knows children of the caller alone."""
        flags = socket.MSG_DONTWAIT if wait_flags else 0
        try:
            data = self._status.recv(_NUMBER.size, flags | socket.MSG_WAITALL)
        except BlockingIOError:
            return 0, 0
        self._status.close()
        return self.pid, _NUMBER.unpack(data)[0] if data else signal.SIGKILL

    def _internal_poll(self, _deadstate: int | None = None) -> int | None:
        lock = self._waitpid_lock  # type: ignore[attr-defined]
        if self.returncode is None and lock.acquire(False):
            try:
                if self.returncode is None:
                    pid, status = self._try_wait(os.WNOHANG)
                    if pid:
                        self._handle_exitstatus(status)  # type: ignore[attr-defined]
            finally:
                lock.release()
        return self.returncode


def popen(words: Sequence[str], **options: Any) -> subprocess.Popen[Any]:
    """``subprocess.Popen``, by a fork where the words start a program of ours."""
    return (Forked if _can_fork(words, options) else subprocess.Popen)(words, **options)


def program_of(words: Sequence[str]) -> tuple[str, list[str]]:
    """The module of the program that the words start, empty if it is not ours; and the others."""
    first, *rest = map(str, words)
    if first == sys.executable and rest[:1] == ["-m"]:
        return rest[1] if rest[1].startswith(_OURS) else "", rest[2:]
    folder, _, name = first.rpartition("/")
    is_ours = folder == str(Path(sys.executable).parent) and name in COMMANDS
    return f"{_OURS}{name}" if is_ours else "", rest


def _can_fork(words: Sequence[str], options: Mapping[str, Any]) -> bool:
    env = options.get("env") or os.environ
    return (
        sys.platform == "linux"
        and bool(program_of(words)[0])
        and {name for name in options if options[name] is not None}
        <= {"cwd", "env", "stdin", "stdout", "stderr", "text"}
        and _at_start(env) == _at_start(os.environ) == _FIRST
    )


def _at_start(env: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in env.items() if name.startswith(_AT_START)}


_FIRST: Final = _at_start(os.environ)


@cache
def _nursery() -> socket.socket:
    """Where starts are asked for: of a process that kills all it has started once we close this."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    command = [sys.executable, "-m", __name__, str(theirs.fileno())]
    null = subprocess.DEVNULL
    with theirs:
        process = subprocess.Popen(
            command, cwd=ROOT, stdin=null, stdout=null, pass_fds=[theirs.fileno()]
        )

    def end() -> None:
        ours.close()
        process.wait()

    atexit.register(end)
    return ours


@contextmanager
def daemons_forked() -> Iterator[None]:
    """Have the daemons of ``penstock.testing.daemons`` forked until the end of the block."""
    import pytest

    from penstock.testing.daemons import Daemon

    def launch(self: Daemon, log: BinaryIO) -> subprocess.Popen[bytes]:
        return popen(self.command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Daemon, "_launch", launch)
        yield


# --- the process that forks ----------------------------------------------------------------------


class _Start(NamedTuple):
    """What is to be started, and the descriptors of its streams and of its status."""

    module: str
    words: list[str]
    cwd: str
    env: dict[str, str]
    descriptors: list[int]


def _preload() -> None:
    import penstock

    def walk(path: Any, prefix: str) -> None:
        for found in pkgutil.iter_modules(path, prefix):
            if found.name in _UNUSED or found.name.endswith("__main__"):
                continue
            module = importlib.import_module(found.name)
            if found.ispkg:
                walk(module.__path__, f"{found.name}.")

    walk(penstock.__path__, "penstock.")
    gc.collect()
    gc.freeze()  # a collection in a fork would copy every page that has an object


def _serve(control: socket.socket) -> _Start:
    """Fork until nobody can ask for it any more; returns in each fork, with what it is to be."""
    wake, woken = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(woken)
    running: dict[int, int] = {}
    while True:
        ready, _, _ = select.select([control.fileno(), wake], [], [])
        if wake in ready:
            with suppress(BlockingIOError):
                os.read(wake, 1 << 16)
            _reap(running)
        if control.fileno() not in ready:
            continue
        data, descriptors, _, _ = socket.recv_fds(control, _REQUEST_SIZE_MAX, _STREAMS + 1)
        if not data:
            for pid in running:
                os.kill(pid, signal.SIGKILL)
            os._exit(0)
        pid = os.fork()
        if not pid:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            for each in (wake, woken, control.detach(), *running.values()):
                os.close(each)
            return _Start(**json.loads(data), descriptors=descriptors)
        running[pid] = descriptors.pop()
        os.write(running[pid], _NUMBER.pack(pid))
        for each in descriptors:
            os.close(each)


def _reap(running: dict[int, int]) -> None:
    """Say how those have ended that did."""
    for pid, descriptor in [*running.items()]:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            with suppress(OSError):  # nobody waits for it any more
                os.write(descriptor, _NUMBER.pack(status))
            os.close(descriptor)
            del running[pid]


def _become(start: _Start) -> None:
    """Be the program; its exit code is that of the process."""
    *streams, status = start.descriptors
    for number, each in enumerate(streams):
        os.dup2(each, number)
    for each in (*streams, status):
        os.close(each)
    os.chdir(start.cwd)
    os.environ.clear()
    os.environ.update(start.env)
    module = importlib.import_module(start.module)
    sys.argv = [str(module.__file__), *start.words]
    try:
        module.main()
    except SystemExit as ended:
        if isinstance(ended.code, str):
            print(ended.code, file=sys.stderr)
        _end.code = 1 if isinstance(ended.code, str) else ended.code or 0
    else:
        _end.code = 0


class _End:
    """The end of a fork, once its threads have ended and its own ``atexit`` functions have run: to
    take thousands of modules apart takes longer than most tests have it run. What a program does
    not catch ends it as ever.
    """

    code: int | None = None

    def __call__(self) -> None:
        if self.code is not None:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(self.code)


_end = _End()


def main() -> None:
    """Serve the process that has started this one."""
    atexit.register(_end)  # the first that is registered is the last to run
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a Ctrl-C is for the tests, which end it
    with ExitStack() as stack:
        control = stack.enter_context(socket.socket(fileno=int(sys.argv[1])))
        _preload()
        start = _serve(control)
    _become(start)


if __name__ == "__main__":
    main()
