"""A lite pull consumer for asyncio: messages are asked for when they are wanted."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable
from typing import TypeVar

from penstock.core.chance import Chance
from penstock.core.clock import SYSTEM_CLOCK, Clock
from penstock.rocketmq.client.aio.hub import AioHub
from penstock.rocketmq.client.config import Config, config_at
from penstock.rocketmq.client.consume.allocation import Allocate, averagely
from penstock.rocketmq.client.consume.filters import Filter, filter_of
from penstock.rocketmq.client.consume.lite_pull import LitePull
from penstock.rocketmq.client.consume.pulling import Pulled
from penstock.rocketmq.client.consume.received import Received
from penstock.rocketmq.client.errors import ClientError, Stopped
from penstock.rocketmq.client.views import ConsumerView
from penstock.rocketmq.protocol.message_queue import MessageQueue

T = TypeVar("T")


class LitePullConsumer(ConsumerView):
    """A consumer that polls, of queues shared with the group's members or chosen by hand.

        async with LitePullConsumer("billing", "127.0.0.1:9876") as consumer:
            consumer.subscribe("orders")           # or: await consumer.assign(queues)
            while messages := await consumer.poll():
                ...

    What a ``poll`` has given is done with the next one; with ``auto_commit`` False, with
    ``commit``.
    """

    def __init__(
        self,
        group: str,
        namesrv_addr: str = "",
        *,
        config: Config | None = None,
        auto_commit: bool = True,
        allocate: Allocate = averagely,
        clock: Clock = SYSTEM_CLOCK,
        chance: Chance | None = None,
    ) -> None:
        self._hub: AioHub = AioHub(config_at(namesrv_addr, config), clock, chance)
        self._core: LitePull = LitePull(
            group, self._hub, allocate=allocate, auto_commit=auto_commit
        )
        self._core.on_arrival = lambda _: self._arrived()
        self._arrival = asyncio.Event()
        self._is_started = False
        self._is_closed = False

    async def __aenter__(self) -> LitePullConsumer:
        return self

    async def __aexit__(self, kind: object, *_: object) -> None:
        """Close; what was polled last is not done when the block has ended with an exception."""
        if kind is not None:
            self._core.give_up_polled()
        await self.close()

    async def start(self) -> None:
        """Join the group, and pull; ``poll`` does so as well. Raises ClientError."""
        if not self._is_started:
            self._is_started = True
            try:
                await self._hub.run(self._core.begin())
            except BaseException:
                self._is_started = False
                raise

    # --- messages --------------------------------------------------------------------------------

    async def poll(
        self,
        timeout: float | None = 5.0,  # noqa: ASYNC109
        max_messages: int | None = None,
    ) -> list[Received]:
        """Messages of one queue, up to ``pull_batch_size``; none after ``timeout`` seconds.

        None waits for ever. Raises ClientError.
        """
        most = max_messages or self._hub.config.pull_batch_size
        return await self._wait_for(lambda: self._core.poll(most), timeout)

    async def _wait_for(
        self,
        ask: Callable[[], T],
        timeout: float | None,  # noqa: ASYNC109
    ) -> T:
        """Ask again and again, until there is something or the time is over."""
        await self.start()
        found = self._asked(ask)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                while not found:
                    self._arrival.clear()
                    await self._arrival.wait()
                    found = self._asked(ask)
        return found

    def _asked(self, ask: Callable[[], T]) -> T:
        if self._is_closed:
            raise Stopped
        return ask()

    def _arrived(self) -> None:
        self._arrival.set()

    async def __aiter__(self) -> AsyncIterator[Received]:
        """One message after the other, until the consumer is closed. A message is done when the
        next one is asked for; one in whose midst the block ends with an exception is not.
        """
        most = self._hub.config.pull_batch_size
        while not self._is_closed:
            try:
                await self._wait_for(lambda: self._core.begin_loop(most), None)
            except Stopped:
                return
            for message in self._core.each():
                yield message
                if self._is_closed:
                    return

    async def commit(self) -> None:
        """Commit all that was polled; the brokers know it when this returns."""
        await self._hub.run(self._core.commit_polled())

    # --- places ----------------------------------------------------------------------------------

    async def assign(self, queues: Iterable[MessageQueue]) -> None:
        """Have these queues, whoever else has them. Raises ClientError."""
        await self._hub.run(self._core.assign(queues))
        await self.start()
        await self._hub.run(self._core.share_now())

    async def topic_queues(self, topic: str) -> list[MessageQueue]:
        """The queues of a topic that can be read. Raises ClientError."""
        return await self._hub.run(self._core.queues_of(topic))

    def seek(self, queue: MessageQueue, offset: int) -> None:
        """Go on there in a queue that it has. Raises NotAssigned."""
        self._core.seek_to(queue, offset)

    async def seek_to_begin(self, queue: MessageQueue) -> None:
        """Go on with the oldest message."""
        self.seek(queue, await self.min_offset(queue))

    async def seek_to_end(self, queue: MessageQueue) -> None:
        """Go on with the next message that comes."""
        self.seek(queue, await self.max_offset(queue))

    async def min_offset(self, queue: MessageQueue) -> int:
        """The offset of the oldest message."""
        return await self._hub.run(self._core.bounds.first(self._core.own(queue)))

    async def max_offset(self, queue: MessageQueue) -> int:
        """The offset that the next message will have."""
        return await self._hub.run(self._core.bounds.end(self._core.own(queue)))

    async def offset_at(self, queue: MessageQueue, timestamp: float) -> int:
        """The offset of the first message stored at this Unix time or later."""
        return await self._hub.run(self._core.bounds.at(self._core.own(queue), timestamp))

    async def committed(self, queue: MessageQueue) -> int | None:
        """The group's offset; None where it has not been."""
        return await self._hub.run(self._core.offsets.read(self._core.own(queue)))

    async def pull(
        self,
        queue: MessageQueue,
        offset: int,
        wanted: str | Filter = "*",
        *,
        max_messages: int = 32,
        suspend: float = 0.0,
    ) -> Pulled:
        """Pull once, of any queue and beside all that; the broker may wait ``suspend`` seconds."""
        wanted = filter_of(wanted)
        return await self._hub.run(self._core.pull(queue, offset, wanted, max_messages, suspend))

    async def close(self) -> None:
        """Commit, and leave the group."""
        if self._is_closed:
            return
        self._is_closed = True
        self._core.stop()
        try:
            if self._is_started:
                await self._hub.run(self._core.leave())
        except ClientError:
            pass
        finally:
            await self._hub.end()
            self._arrived()
