"""The network and the time of an asyncio client."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from inspect import isawaitable
from typing import Any, Final, TypeVar, cast

from penstock.core.chance import Chance
from penstock.core.clock import Clock
from penstock.core.reasons import reason
from penstock.core.units import SECOND
from penstock.net.address import split_host_port
from penstock.net.tasks import spawn
from penstock.rocketmq.client.config import Config
from penstock.rocketmq.client.errors import (
    PAGE,
    ClientError,
    NoNameServer,
    NotConnected,
    Stopped,
)
from penstock.rocketmq.client.network.hub import Hub
from penstock.rocketmq.client.network.jobs import Job, Promise
from penstock.rocketmq.client.network.wire import Wire

T = TypeVar("T")
_PAGE_MAX: Final = 1 << 20
_CLOSE_S: Final = 1.0
_UNSENT_MAX: Final = 1 << 18
"""Bytes of one-way requests that are sent together."""


class Link(asyncio.Protocol):
    """One connection: what its wire has to say goes out, what comes goes into it."""

    def __init__(self, hub: AioHub, wire: Wire) -> None:
        self._hub = hub
        self._wire = wire
        self._transport: asyncio.Transport | None = None
        self.flushes = False
        self.ready = asyncio.Event()
        """Set while the server takes what is sent, and when the connection is over."""
        self.closed = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        # Given up while it was being made: nobody waits for it any more.
        if self._wire.is_lost:
            self._transport.abort()
            return
        self.ready.set()
        tls = transport.get_extra_info("ssl_object")
        self._hub.opened(self._wire, tls.version() if tls is not None else "")

    def data_received(self, data: bytes) -> None:
        try:
            self._wire.receive_data(data)
        except ClientError as error:
            self._hub.lose(self._wire, error)

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        self.ready.set()
        self.closed.set()
        told = reason(error) if error else "the server closed the connection"
        self._hub.lose(self._wire, NotConnected(self._wire.address, told))

    def pause_writing(self) -> None:
        self.ready.clear()

    def resume_writing(self) -> None:
        self.ready.set()

    def flush(self) -> None:
        """Send what the wire has to say."""
        self.flushes = False
        if self._transport is not None and (data := self._wire.take_output()):
            self._transport.write(data)

    @property
    def is_open(self) -> bool:
        return self._transport is not None

    @property
    def is_behind(self) -> bool:
        """True while something that was said is not sent."""
        return self._transport is not None and self._transport.get_write_buffer_size() > 0

    def abort(self) -> None:
        self.ready.set()
        if self._transport is not None:
            self._transport.abort()

    def close(self) -> None:
        """Close when what was said is sent."""
        self.flush()
        if self._transport is not None:
            self._transport.close()


class AioHub(Hub):
    """The core on an event loop: the one in which it is used first."""

    def __init__(self, config: Config, clock: Clock, chance: Chance | None) -> None:
        super().__init__(config, clock, chance)
        self._links: dict[Wire, Link] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at: int | None = None

    async def run(self, coroutine: Coroutine[Any, None, T]) -> T:
        """The result of a coroutine of the core, which is ended when its caller is cancelled, and
        by the end of the hub.
        """
        job = Job(coroutine)
        if job.is_done:
            return job.result()
        self._jobs[job] = None
        try:
            return await future_of(job)
        except asyncio.CancelledError:
            job.cancel(Stopped())
            raise
        finally:
            self._jobs.pop(job, None)

    # --- what the core asks for ------------------------------------------------------------------

    def connect(self, wire: Wire) -> None:
        link = self._links[wire] = Link(self, wire)
        self._spawn(self._open(link, wire), f"rocketmq connection to {wire.address}")

    async def _open(self, link: Link, wire: Wire) -> None:
        from penstock.rocketmq.client.network.tls import context_of

        seconds = self.config.connect_timeout
        try:
            context = context_of(self.config)
            host, port = split_host_port(wire.address)
            async with asyncio.timeout(seconds):
                await asyncio.get_running_loop().create_connection(
                    lambda: link,
                    host or "localhost",
                    port,
                    ssl=context,
                    server_hostname=host if context is not None else None,
                )
        except TimeoutError:
            self.lose(wire, NotConnected(wire.address, f"no connection within {seconds:g} s"))
        except (OSError, ValueError) as error:
            told = f"connect to {wire.address} failed: {reason(error)}"
            self.lose(wire, NotConnected(wire.address, told))
        except ClientError as error:
            self.lose(wire, error)

    def lose(self, wire: Wire, error: ClientError) -> None:
        if (link := self._links.pop(wire, None)) is not None:
            link.abort()
        super().lose(wire, error)

    def flush(self, wire: Wire) -> None:
        link = self._links.get(wire)
        if link is not None and wire.is_open and not link.flushes:
            link.flushes = True
            asyncio.get_running_loop().call_soon(link.flush)

    async def drained(self, address: str) -> None:
        """Wait until this server takes more: what asks for no answer is not waited for else."""
        wire = self._wires.get(address)
        link = self._links.get(wire) if wire is not None else None
        if wire is not None and link is not None:
            if wire.nbytes_said >= _UNSENT_MAX:
                link.flush()
            await link.ready.wait()

    def disconnect(self, wire: Wire) -> None:
        if (link := self._links.pop(wire, None)) is not None:
            link.close()

    def rescheduled(self) -> None:
        deadline = self.deadline
        # Most requests leave the deadline where it is; then the timer stays, too.
        if deadline == self._timer_at:
            return
        self._timer_at = deadline
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if deadline is not None:
            delay = max(0, deadline - self.clock.monotonic_ns()) / SECOND
            self._timer = asyncio.get_running_loop().call_later(delay, self._on_time)

    def _on_time(self) -> None:
        self._timer_at = self._timer = None
        self.tick()
        self.rescheduled()

    def call(self, function: Callable[..., Any], *arguments: Any) -> Promise[Any]:
        promise = Promise[Any]()
        try:
            found = function(*arguments)
        except Exception as error:
            promise.fail(error)
            return promise
        if isawaitable(found):
            self._spawn(_keep(promise, found), "rocketmq callback")
        else:
            promise.keep(found)
        return promise

    def fetch(self, url: str) -> Promise[bytes]:
        promise = Promise[bytes]()
        self._spawn(self._fetch(url, promise), f"GET {url}")
        return promise

    async def _fetch(self, url: str, promise: Promise[bytes]) -> None:
        from penstock.net.http.client.once import HttpError, get

        try:
            answer = await get(url, self.config.request_timeout, max_body=_PAGE_MAX)
        except HttpError as error:
            promise.fail(NoNameServer(f"{url}: {error}", PAGE))
            return
        if answer.status == 200:
            promise.keep(answer.body)
        else:
            promise.fail(NoNameServer(f"{url}: status {answer.status}", PAGE))

    def _spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        task = spawn(work, name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def end(self) -> None:
        """Close, and wait until the connections are."""
        links = [link for link in self._links.values() if link.is_open]
        self.close()
        seconds = _CLOSE_S
        if any(link.is_behind for link in links):  # nobody waits for one-way requests else
            seconds = max(seconds, self.config.send_msg_timeout)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                for link in links:
                    await link.closed.wait()
        for link in links:
            link.abort()

    def close(self) -> None:
        super().close()
        if self._timer is not None:
            self._timer.cancel()
        for task in self._tasks:
            task.cancel()


async def _keep(promise: Promise[Any], found: Any) -> None:
    try:
        promise.keep(await found)
    except asyncio.CancelledError:
        promise.fail(Stopped())
        raise
    except Exception as error:
        promise.fail(error)


def future_of(promise: Promise[T]) -> asyncio.Future[T]:
    """A future with the promise's value or error."""
    future: asyncio.Future[T] = asyncio.get_running_loop().create_future()

    def settle(done: Promise[T]) -> None:
        # Its caller was cancelled meanwhile.
        if future.done():
            return
        if done.error is not None:
            future.set_exception(done.error)
        else:
            future.set_result(done.result())

    promise.then(settle)
    return future
