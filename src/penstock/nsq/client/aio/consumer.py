"""A consumer for asyncio: a channel of a topic, over the connections to all nodes that have it."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from inspect import isawaitable
from typing import Any, Final, TypeVar

from penstock.core.units import MILLISECOND, SECOND
from penstock.net.tasks import spawn
from penstock.nsq.client.aio.connection import Connection
from penstock.nsq.client.consume.delivery import Delivery
from penstock.nsq.client.consume.subscription import EVERYONE, Subscription
from penstock.nsq.client.errors import ClientError, NotConnected
from penstock.nsq.client.lookup import ANSWER_MAX, lookup_failed
from penstock.nsq.client.message import Message
from penstock.nsq.protocol import encode

Handler = Callable[[Message], Awaitable[object] | object]
Taken = TypeVar("Taken")

_TURN_NS: Final = 5 * MILLISECOND
"""The time that messages are handed out for before the loop gets its turn, and nodes their FINs."""
_LEAVE_S: Final = 1.0
"""The time in seconds that a node may take to say that it sends no more."""


class Consumer(Subscription[Connection]):
    """A consumer of a topic's channel on given nodes, and on those that nsqlookupd names.

        async with Consumer("t", "c", nsqd_tcp_addresses=["127.0.0.1:4150"]) as consumer:
            async for message in consumer:
                message.finish()

    ``async for`` over the consumer, ``deliveries()`` and ``run(handler)`` are three ways to get at
    messages; use one of them. They end when the consumer is closed, and raise the ClientError that
    leaves no way to go on: a node given directly refuses the subscription the first time, or, when
    they are ``required``, cannot be reached the first time. Otherwise it is tried again after
    ``reconnect_delay`` seconds, then twice that, up to ``lookupd_poll_interval``. Nodes that
    nsqlookupd named are connected to again when it names them again.

    ``max_in_flight`` is a short cut for the option of ``config``.
    """

    _closed: asyncio.Event | None = None
    _loop: asyncio.AbstractEventLoop | None = None
    _timer: asyncio.TimerHandle | None = None
    _timer_at: int | None = None
    _turn_ends = 0

    async def __aenter__(self) -> Consumer:
        self.start()
        return self

    async def __aexit__(self, kind: object, *_: object) -> None:
        """Close; without waiting for answers when the block has ended with an exception."""
        await (self.close() if kind is None else self.close(grace=0))

    def start(self) -> None:
        """Begin to connect, in the background."""
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
            self._waiters: deque[asyncio.Future[None]] = deque()
            self._tasks: set[asyncio.Task[None]] = set()
            self._tick()
            self._rescheduled()

    # --- messages --------------------------------------------------------------------------------

    def __aiter__(self) -> AsyncIterator[Message]:
        return self

    async def __anext__(self) -> Message:
        """The next message; ends when the consumer is closed."""
        if self._clock.monotonic_ns() < self._turn_ends:
            message = self._inbox.message()
            if message is not None:
                return message
        message = await self._next(self._inbox.message)
        if message is None:
            raise StopAsyncIteration
        return message

    async def deliveries(self) -> AsyncIterator[Delivery]:
        """Messages as they arrive together, until the consumer is closed: the quick way."""
        while (delivery := await self._next(self._inbox.delivery)) is not None:
            yield delivery

    async def get(self, timeout: float | None = None) -> Message | None:  # noqa: ASYNC109
        """The next message, or None after ``timeout`` seconds or when the consumer is closed."""
        try:
            async with asyncio.timeout(timeout):
                return await self._next(self._inbox.message)
        except TimeoutError:
            return self._inbox.message()  # a time-out of 0 ends before what is there was looked at

    async def get_delivery(self, timeout: float | None = None) -> Delivery | None:  # noqa: ASYNC109
        """The next messages that arrived together, or None as for ``get``."""
        try:
            async with asyncio.timeout(timeout):
                return await self._next(self._inbox.delivery)
        except TimeoutError:
            return self._inbox.delivery()

    async def run(self, handler: Handler, concurrency: int = 1) -> None:
        """Have ``handler`` called with each message, until the consumer is closed.

        A handler is a function, or a coroutine function, of which ``concurrency`` may be under way
        at once. When it returns the message is finished, unless it was answered in there; when it
        raises, the message is requeued and the consumer slows down. One that is still at work when
        the grace of ``close`` is over is cancelled.
        """
        if concurrency < 1:
            raise ValueError(f"concurrency {concurrency} is less than 1")
        self.start()
        workers = [self._spawn(self._work(handler), "worker") for _ in range(concurrency)]
        try:
            outcomes = await asyncio.gather(*workers, return_exceptions=True)
        finally:
            for worker in workers:
                worker.cancel()
        for outcome in outcomes:
            if isinstance(outcome, Exception):  # not a handler's: those were told
                raise outcome
        if self._fatal is not None and not self._closing:
            raise self._fatal

    async def _work(self, handler: Handler) -> None:
        clock, take = self._clock.monotonic_ns, self._inbox.message
        while True:
            message = take() if clock() < self._turn_ends else None
            if message is None:
                try:
                    message = await self._next(take)
                except ClientError:  # ``run`` tells, once
                    return
                if message is None:
                    return
            try:
                result = handler(message)
                if result is not None and isawaitable(result):
                    await result
            except asyncio.CancelledError as error:
                if _is_cancelled():
                    raise
                self._handler_failed(message, error)  # something in there was, not we
            except Exception as error:
                self._handler_failed(message, error)
            else:
                message.finish()

    async def _next(self, take: Callable[[], Taken | None]) -> Taken | None:
        """The result of ``take`` as soon as it has one; None when the consumer is closed."""
        self.start()
        if self._clock.monotonic_ns() >= self._turn_ends:
            if not self._inbox.is_empty:
                await asyncio.sleep(0)
            self._turn_ends = self._clock.monotonic_ns() + _TURN_NS
        while True:
            while self._inbox.spent:
                await self._give_up(self._inbox.spent.popleft())
            found = take()
            if found is not None or self._closing:
                return found
            if self._fatal is not None:
                raise self._fatal
            await self._wait()

    async def _give_up(self, message: Message) -> None:
        try:
            result = self._given_up(message)
            if isawaitable(result):
                await result
        except asyncio.CancelledError as error:
            if _is_cancelled():  # the time of a ``get`` is over: the next one begins with it again
                self._inbox.spent.appendleft(message)
                raise
            self._handler_failed(message, error)
        except Exception as error:
            self._handler_failed(message, error)
        else:
            message.finish()

    async def _wait(self) -> None:
        assert self._loop is not None
        waiter: asyncio.Future[None] = self._loop.create_future()
        self._waiters.append(waiter)
        try:
            await waiter
            self._turn_ends = self._clock.monotonic_ns() + _TURN_NS
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():
                self._arrived(1)  # this one cannot take what it was woken for
            elif waiter in self._waiters:  # a quiet channel that is polled would gather them
                self._waiters.remove(waiter)
            raise

    def _arrived(self, count: int) -> None:
        waiters = self._waiters
        while waiters and count:
            waiter = waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                count -= 1

    # --- the end ---------------------------------------------------------------------------------

    async def close(self, grace: float = 30.0) -> None:
        """Stop receiving, give back what was not handed out, and close.

        Messages handed out may be answered for another ``grace`` seconds; those that are not come
        again after their time-out. A handler that wants this does not await it, as it would wait
        for its own message.
        """
        if self._closed is not None:
            await self._closed.wait()
            return
        self._closed = asyncio.Event()
        self._closing = True
        if self._loop is None:
            self._closed.set()
            return
        self._say_stopping()
        self._flow.close()
        self._rescheduled()
        try:
            await self._leave(grace)
        finally:
            self._closed.set()

    async def _leave(self, grace: float) -> None:
        connections = dict(self._replies)
        self._inbox.give_back()
        self._arrived(EVERYONE)
        for connection, replies in connections.items():
            replies.flush()
            connection.send(encode.CLS)
        try:
            await _all(grace, [connection.idle for connection in connections])
            await _all(_LEAVE_S, [connection.left for connection in connections])
        finally:
            for replies in connections.values():
                replies.flush()
                replies.close()
            # A handler that closes the consumer must not cancel itself.
            tasks = self._tasks - {asyncio.current_task()}
            for task in tasks:
                task.cancel()
            ends = (*tasks, *(connection.close() for connection in connections))
            await asyncio.gather(*ends, return_exceptions=True)

    # --- what the core asks for ------------------------------------------------------------------

    def _spawn(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        task = spawn(work, f"nsq consumer {self.topic}/{self.channel} {name}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _connect_to(self, address: str) -> None:
        self._spawn(self._connect(address), address)

    async def _connect(self, address: str) -> None:
        try:
            connection = await Connection.open(
                address,
                self._config,
                self.topic,
                self.channel,
                on_frame=self._take,
                on_lost=self._lost,
            )
        except ClientError as error:
            self._failed(address, error)
        except (OSError, ValueError) as error:  # nsqlookupd may name anything
            self._failed(address, NotConnected(address, str(error)))
        else:
            if self._closing:
                await connection.close()
                return
            self._joined(connection)
            if not connection.is_open:  # it was lost again before we got here
                self._lost(connection, NotConnected(address, "the server closed the connection"))

    def _ask(self, url: str) -> None:
        self._spawn(self._query(url), url)

    async def _query(self, url: str) -> None:
        from penstock.net.http.client.once import HttpError, get

        seconds = self._discovery.timeout_s
        try:
            answer = await get(url, seconds, headers=self._discovery.headers, max_body=ANSWER_MAX)
        except HttpError as error:
            self._not_answered(url, lookup_failed(url, error.__cause__ or error, error.reason))
        else:
            self._answered(url, answer.status, answer.body)

    def _soon(self, flush: Callable[[], None]) -> None:
        assert self._loop is not None
        self._loop.call_soon(flush)

    def _rescheduled(self) -> None:
        deadline = self._deadline
        if deadline == self._timer_at or self._loop is None:
            return
        self._timer_at = deadline
        if self._timer is not None:
            self._timer.cancel()
        if deadline is not None:
            delay = max(0, deadline - self._clock.monotonic_ns()) / SECOND
            self._timer = self._loop.call_later(delay, self._on_time)

    def _on_time(self) -> None:
        self._timer_at = None
        self._tick()
        self._rescheduled()


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def _all(seconds: float, events: list[asyncio.Event]) -> None:
    """Wait for all of them, but no longer."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await asyncio.gather(*(event.wait() for event in events))


__all__ = ["Consumer", "Handler"]
