"""Start and end of a daemon: its event loop, and one graceful stop by SIGINT or SIGTERM.

    async def main() -> int:
        daemon = await Daemon.start(options)
        await stop_requested()
        await daemon.close()
        return 0

    sys.exit(run(main()))

A second signal while stopping changes nothing, so that what is being saved is saved whole. Long
work before the daemon serves, which lets the loop look at no signal, goes into ``interruptible``.
"""

from __future__ import annotations

import asyncio
import atexit
import gc
import os
import signal
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final

from penstock.core.late_import import load_late
from penstock.net.gate import raise_file_limit
from penstock.net.service_manager import ServiceManager
from penstock.net.tasks import spawn

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)

_STDERR: Final = 2
# Behind the first answers: numpy alone is a third of nsqd's start (ARCHITECTURE.md).
_SETTLE_S: Final = 0.1
# CPython 3.11 looks after every 700, which is every few messages of a busy loop.
_YOUNG_MAX: Final = 50_000
"""New objects among which garbage is looked for: of what a busy loop makes, nearly all dies young.
"""

_stop: asyncio.Event | None = None


class StopRequested(BaseException):
    """SIGINT or SIGTERM came inside ``interruptible``; ``run`` makes exit code 0 of it."""


def run(main: Coroutine[Any, Any, int | None]) -> int:
    """Run ``main`` to its end and return its exit code (None counts as 0).

    uvloop is used where it is installed; the environment's PENSTOCK_LOOP=asyncio turns it off. As
    in Go, the process may from now on open as many files as the system lets it.
    """
    raise_file_limit()
    _open_standard_streams()
    # What is left at the end goes with the process: Python need not look through it for garbage.
    atexit.register(gc.freeze)
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        try:
            return runner.run(_with_signals(main)) or 0
        except StopRequested:
            return 0


def _open_standard_streams() -> None:
    """Give stdin, stdout and stderr, where they are closed, to /dev/null, as Go does: a socket that
    got one of their numbers would be taken for it, and uvloop aborts when it closes such a one.
    """
    while (number := os.open(os.devnull, os.O_RDWR)) <= _STDERR:
        pass
    os.close(number)


class Turn:
    """The end of a role of a daemon, which goes on in another one; to be made inside the loop.

    ``before`` is the turn by which this role has begun.
    """

    def __init__(self, before: Turn | None = None) -> None:
        self.asked = asyncio.Event()
        self._is_over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._before = before
        self.is_first = before is None
        """True of the turn that ends the role in which the daemon was started."""

    def ask(self) -> asyncio.Future[None]:
        """End this role; the future is done once the daemon serves in the next one."""
        self.asked.set()
        return self._is_over

    def serves(self) -> None:
        """The daemon serves in this role."""
        before, self._before = self._before, None
        if before is not None:
            before._is_over.set_result(None)


async def stop_requested(turned: asyncio.Event | None = None) -> bool:
    """Wait until SIGINT or SIGTERM came, or ``request_stop`` was called; only inside ``run``.

    When this is called the daemon serves, and when it returns it ends: the service manager gets
    a notice of both. False if
    ``turned`` was set before: the daemon is to go on as another one.
    """
    if _stop is None:
        raise RuntimeError("stop_requested() needs a main started by penstock.net.loop.run()")
    manager = ServiceManager.of(os.environ)
    manager.ready(asyncio.get_running_loop())
    if turned is not None:
        waits = [spawn(each.wait(), "stop") for each in (_stop, turned)]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for each in waits:
            each.cancel()
        if not _stop.is_set():
            return False
    await _stop.wait()
    manager.stopping()
    return True


def request_stop() -> None:
    """Ask the running daemon to end as a signal would; calling it again is harmless."""
    if _stop is not None:
        _stop.set()


@contextmanager
def interruptible() -> Iterator[None]:
    """SIGINT and SIGTERM raise StopRequested inside, at whatever point: as kill -9 would, but with
    time to clean up. Outside of ``run`` signals are somebody else's matter, and this does nothing.
    """
    if _stop is None:
        yield
        return
    before = {number: signal.signal(number, _interrupt) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise StopRequested


def settle() -> None:
    """Settle a daemon that serves: behind its first answers it imports what was left for later, and
    the garbage collector forgets what is there.
    """
    asyncio.get_running_loop().call_later(_SETTLE_S, _settle)


def _settle() -> None:
    load_late()
    gc.collect()  # what is there now stays
    # Whatever a start has made would be looked through at each full collection.
    gc.freeze()


async def _with_signals(main: Coroutine[Any, Any, int | None]) -> int | None:
    global _stop
    loop = asyncio.get_running_loop()
    _stop = asyncio.Event()
    for number in _SIGNALS:
        loop.add_signal_handler(number, request_stop)
    loop.call_later(_SETTLE_S, gc.set_threshold, _YOUNG_MAX)
    try:
        return await main
    finally:
        _stop = None


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    if os.environ.get("PENSTOCK_LOOP", "") == "asyncio":
        return None
    try:
        import uvloop
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory
