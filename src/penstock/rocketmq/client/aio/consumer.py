"""A push consumer for asyncio: messages are pulled in the background and handed to a handler."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Awaitable, Callable
from inspect import isawaitable
from typing import Final, TypeAlias

from penstock.core.chance import Chance
from penstock.core.clock import SYSTEM_CLOCK, Clock
from penstock.core.units import MILLISECOND
from penstock.net.tasks import spawn
from penstock.rocketmq.client.aio.hub import AioHub
from penstock.rocketmq.client.config import Config, config_at
from penstock.rocketmq.client.consume.allocation import Allocate, averagely
from penstock.rocketmq.client.consume.client_requests import ClientRequests
from penstock.rocketmq.client.consume.consuming import Consumption, Unit
from penstock.rocketmq.client.consume.group import ConsumerKind
from penstock.rocketmq.client.consume.received import Received
from penstock.rocketmq.client.errors import ClientError
from penstock.rocketmq.client.views import ConsumerView

Handler: TypeAlias = Callable[[Received], Awaitable[object] | object]
BatchHandler: TypeAlias = Callable[[list[Received]], Awaitable[object] | object]

_TURN_NS: Final = 5 * MILLISECOND
"""The time that messages are handled for before the loop gets its turn."""


class PushConsumer(ConsumerView):
    """A consumer of topics, as a member of a group.

        async with PushConsumer("billing", "127.0.0.1:9876") as consumer:
            consumer.subscribe("orders", "paid || refunded")
            await consumer.run(handler)

    ``handler(message)`` is a function or a coroutine. When it returns, the message is done; when
    it raises, the message comes again later, and is a dead letter when that was too often. With
    ``orderly`` messages of a queue are handled one after the other, by one member of the group at
    a time, and one that fails is tried again before those behind it.

    ``allocate`` says how queues are shared: all members of a group need the same.
    """

    def __init__(
        self,
        group: str,
        namesrv_addr: str = "",
        *,
        config: Config | None = None,
        orderly: bool = False,
        allocate: Allocate = averagely,
        clock: Clock = SYSTEM_CLOCK,
        chance: Chance | None = None,
    ) -> None:
        self._hub: AioHub = AioHub(config_at(namesrv_addr, config), clock, chance)
        kind = ConsumerKind(is_orderly=orderly, has_retries=True, allocate=allocate)
        self._core: Consumption = Consumption(group, self._hub, kind)
        self._requests = ClientRequests(self._core)
        self._core.on_arrival = self._arrived
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._workers: set[asyncio.Task[None]] = set()
        self._started: asyncio.Future[None] | None = None
        self._closed: asyncio.Event | None = None
        self._turn_ends = 0

    async def __aenter__(self) -> PushConsumer:
        return self

    async def __aexit__(self, kind: object, *_: object) -> None:
        """Close; without waiting for handlers when the block has ended with an exception."""
        await (self.close() if kind is None else self.close(grace=0))

    # --- messages --------------------------------------------------------------------------------

    async def start(self) -> None:
        """Join the group, and pull. Raises ClientError when the filter of a topic is refused."""
        if self._started is None:
            self._started = asyncio.get_running_loop().create_future()
            try:
                await self._hub.run(self._core.begin())
            except BaseException as error:
                self._started.set_exception(error)
                self._started.exception()  # raised here
                self._started = None  # it may be tried again
                raise
            self._started.set_result(None)
        await asyncio.shield(self._started)

    async def run(self, handler: Handler, concurrency: int | None = None) -> None:
        """Have ``handler`` called with each message, until the consumer is closed.

        At most ``concurrency`` messages, by default ``consume_threads``, are handled at once.
        """
        await self._run(lambda messages: handler(messages[0]), 1, concurrency)

    async def run_batches(self, handler: BatchHandler, concurrency: int | None = None) -> None:
        """Handle lists of up to ``consume_message_batch_max_size`` messages of one queue.

        When it raises, all of them come again.
        """
        most = self._hub.config.consume_message_batch_max_size
        await self._run(handler, most, concurrency)

    async def _run(self, handler: BatchHandler, most: int, concurrency: int | None) -> None:
        self._requests.handler = handler
        await self.start()
        count = concurrency or self._hub.config.consume_threads
        workers = {spawn(self._work(handler, most), "rocketmq handler") for _ in range(count)}
        self._workers |= workers
        try:
            outcomes = await asyncio.gather(*workers, return_exceptions=True)
        finally:
            for worker in workers:
                worker.cancel()
            self._workers -= workers
        for outcome in outcomes:
            if isinstance(outcome, Exception):  # not a handler's: those were told
                raise outcome

    async def _work(self, handler: BatchHandler, most: int) -> None:
        clock, core = self._hub.clock.monotonic_ns, self._core
        while self._closed is None:
            if clock() >= self._turn_ends:
                await asyncio.sleep(0)
                self._turn_ends = clock() + _TURN_NS
            unit = core.take(most)
            if unit is None:
                await self._wait()
                continue
            await self._handle(handler, unit)

    async def _handle(self, handler: BatchHandler, unit: Unit) -> None:
        try:
            found = handler(unit.messages)
            if found is not None and isawaitable(found):
                await found
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                if self._closed is None:  # ``run`` was cancelled, and may be called again
                    self._core.give_back(unit)
                else:  # nobody handles it any more: its queue need not stay locked
                    self._core.dismiss(unit)
                raise
            self._core.failed(unit, error)  # something in there was, not we
        except Exception as error:
            self._core.failed(unit, error)
        else:
            self._core.finished(unit)

    async def _wait(self) -> None:
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():
                self._arrived(1)  # this one cannot take what it was woken for
            elif waiter in self._waiters:  # runs that end on a quiet topic would gather them
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

    async def close(self, grace: float | None = None) -> None:
        """Pull no more, wait ``grace`` seconds for handlers, commit, and leave the group.

        A handler that wants this does not await it, as it would wait for itself.
        """
        if self._closed is not None:
            await self._closed.wait()
            return
        self._closed = asyncio.Event()
        self._core.stop()
        self._arrived(len(self._waiters))
        seconds = self._hub.config.await_termination if grace is None else grace
        try:
            await self._finish(seconds)
            if self._started is not None:
                with contextlib.suppress(ClientError):
                    await self._hub.run(self._core.leave())
        finally:
            await self._hub.end()
            self._closed.set()

    async def _finish(self, seconds: float) -> None:
        """Wait for the handlers, or end them."""
        workers = self._workers - {asyncio.current_task()}
        if workers:
            await asyncio.wait(workers, timeout=seconds)
            for worker in workers:
                worker.cancel()
            await asyncio.wait(workers)
