"""The life of a tool: its event loop, its signals, its end.

    def run(argv: Sequence[str]) -> int:
        flags = parse(TailFlags, argv, "nsq_tail")
        return run_tool(lambda stop: tail(flags, stop))

    async def tail(flags, stop):
        async with Consumer(...) as consumer, closed_on(stop, consumer):
            async for delivery in consumer.deliveries(): ...

INT and TERM ask the tool to end: it takes no more, has ``GRACE_S`` to finish what is in flight, and
its exit code is 0. A second one ends it at once.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, Protocol

from penstock.net.tasks import spawn
from penstock.nsq.tools import lines
from penstock.nsq.tools.errors import die_of, exit_code

GRACE_S: Final = 30.0
"""The time in seconds that messages in flight may take to be finished after a signal."""

_LINGER_S: Final = 1.0

STOP_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


class Stop:
    """The flag that the tool was asked to end."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    @property
    def requested(self) -> bool:
        """True if the tool was asked to end."""
        return self._event.is_set()

    def request(self) -> None:
        """Ask it to end, as INT and TERM do."""
        self._event.set()

    async def wait(self) -> None:
        """Wait until the tool is asked to end."""
        await self._event.wait()


class Closable(Protocol):
    """A consumer, for one."""

    async def close(self, grace: float = 30.0) -> None:
        """Take no more, wait ``grace`` seconds for what is under way, and close."""
        ...


def run_tool(
    serve: Callable[[Stop], Coroutine[Any, Any, int | None]],
    *,
    stop_signals: Sequence[signal.Signals] = STOP_SIGNALS,
) -> int:
    """Run a tool's main coroutine to its end; the exit code (None counts as 0).

    An exception becomes one line on stderr and its exit code: see ``errors``.
    """
    from penstock.net import loop

    lines.install()
    try:
        return loop.run(_with_signals(serve, stop_signals))
    except (Exception, BaseExceptionGroup) as error:
        return exit_code(error)


@asynccontextmanager
async def until(stop: Stop, grace: float = 0.0) -> AsyncIterator[None]:
    """A context whose body ends ``grace`` s after the tool is asked to, wherever it waits."""

    async def long_stopped() -> None:
        await stop.wait()
        await asyncio.sleep(grace)

    async with _ended_by(long_stopped()):
        yield


@asynccontextmanager
async def closed_on(stop: Stop, *consumers: Closable) -> AsyncIterator[None]:
    """A context that closes these when the tool is asked to end, which ends their iteration.

    A body that hangs elsewhere, as in a write that nobody reads, is ended a little later.
    """

    async def close_all() -> None:
        await stop.wait()
        await asyncio.gather(*(consumer.close(grace=GRACE_S) for consumer in consumers))

    async def long_closed() -> None:
        await asyncio.wait((closing,))
        await asyncio.sleep(_LINGER_S)

    closing = spawn(close_all(), "close on a signal")
    try:
        async with _ended_by(long_closed()):
            yield
    finally:
        if not stop.requested:
            closing.cancel()
        # Not awaited itself, which would raise its cancellation here.
        await asyncio.wait((closing,))


@asynccontextmanager
async def _ended_by(waiting: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """The body runs to its end, or until ``waiting`` comes to its own."""

    def end(watch: asyncio.Task[None]) -> None:
        if not watch.cancelled():
            limit.reschedule(asyncio.get_running_loop().time())

    try:
        async with asyncio.timeout(None) as limit:
            watch = spawn(waiting, "end of the tool")
            watch.add_done_callback(end)
            try:
                yield
            finally:
                watch.remove_done_callback(end)
                watch.cancel()
    except TimeoutError:
        # It came from the body, and is the caller's.
        if not limit.expired():
            raise


async def _with_signals(
    serve: Callable[[Stop], Coroutine[Any, Any, int | None]], numbers: Sequence[signal.Signals]
) -> int | None:
    stop = Stop()
    loop = asyncio.get_running_loop()
    for number in numbers:
        loop.add_signal_handler(number, _signalled, stop, number)
    return await serve(stop)


def _signalled(stop: Stop, number: signal.Signals) -> None:
    if stop.requested:
        die_of(number)
    stop.request()
