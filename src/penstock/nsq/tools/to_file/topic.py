"""One topic: its consumer and its files. What is on stable storage is finished, nothing else."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from penstock.core.units import SECOND
from penstock.net.tasks import spawn
from penstock.nsq.client.errors import ClientError
from penstock.nsq.tools.errors import ToolError
from penstock.nsq.tools.lifecycle import Stop, closed_on
from penstock.nsq.tools.to_file.topic_files import Say, WriteFailed, Writer

if TYPE_CHECKING:
    from penstock.nsq.client import Consumer, Delivery


class Topic:
    """A topic's consumer and its files, one piece of work at a time. Threads do the work, so
    that a slow disk keeps no other topic waiting.
    """

    def __init__(self, consumer: Consumer, writer: Writer, *, sync_interval: int, say: Say) -> None:
        """``sync_interval`` is in nanoseconds."""
        self._consumer = consumer
        self._writer = writer
        self._sync_interval_s = sync_interval / SECOND
        self._say = say
        self._waiting: deque[tuple[int, Delivery]] = deque()
        """Deliveries not finished yet, each with what the writer will have counted by its end."""
        self._lock = asyncio.Lock()
        self._ending = asyncio.Event()
        self._broken = False

    async def run(self, stop: Stop) -> None:
        """Consume until the tool is asked to end; all is finished and closed then.

        Raises ClientError when a node given by its address cannot be used, and ToolError, its
        reason already logged, when files cannot be written.
        """
        ticking = spawn(self._tick_by_tick(), name="sync interval")
        refusal = None
        try:
            async with self._consumer, closed_on(stop, self):
                refusal = await self._consume()
        finally:
            self._ending.set()
        await ticking
        await self._work(self._writer.close_file)
        if self._broken:
            raise ToolError
        if refusal is not None:
            raise refusal

    async def close(self, grace: float = 30.0) -> None:
        """Finish what is written, take no more, and let ``run`` come to its end."""
        self._ending.set()
        # Together: the consumer waits for what is in flight, and the sync is what finishes it.
        await asyncio.gather(self._consumer.close(grace=grace), self._work(self._writer.sync))

    async def close_file(self) -> None:
        """Sync and close the file; the next message opens another."""
        await self._work(self._writer.close_file)

    async def _consume(self) -> ClientError | None:
        """Run until the consumer is closed, or a node refuses for good, which is returned."""
        try:
            async for delivery in self._consumer.deliveries():
                await self._take(delivery)
        except ClientError as error:
            await self._work(self._writer.sync)
            return error
        except asyncio.CancelledError:
            await self._give_up()
            raise
        return None

    async def _take(self, delivery: Delivery) -> None:
        bodies = delivery.bodies()
        async with self._lock:
            self._waiting.append((self._writer.written + len(bodies), delivery))
            # A node that has reached our RDY waits for FINs, and those wait for a sync.
            sync = self._consumer.is_starved or self._ending.is_set()
            await self._work_alone(partial(self._writer.take, bodies, sync=sync))

    async def _tick_by_tick(self) -> None:
        while True:
            try:
                async with asyncio.timeout(self._sync_interval_s):
                    await self._ending.wait()
                return
            except TimeoutError:
                await self._work(self._writer.tick)

    async def _work(self, work: Callable[[], None]) -> None:
        async with self._lock:
            await self._work_alone(work)

    async def _work_alone(self, work: Callable[[], None]) -> None:
        """Let the writer work, and finish what is durable after it."""
        if not self._broken:
            try:
                # Not in the loop: a disk that hangs must not keep heartbeats from being answered.
                await asyncio.to_thread(work)
            except WriteFailed as error:
                self._say(logging.CRITICAL, str(error))
                self._broken = True
        while self._waiting and self._waiting[0][0] <= self._writer.durable:
            self._waiting.popleft()[1].finish()
        if self._broken:
            await self._give_up()

    async def _give_up(self) -> None:
        """Let others have what is not durable, and consume no more."""
        self._broken = True
        while self._waiting:
            self._waiting.popleft()[1].requeue(0.0, backoff=False)
        await self._consumer.close(grace=0.0)
