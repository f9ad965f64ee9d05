"""Reading queues: their bounds, the offset at a time, and what they hold."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

from penstock.rocketmq.client.admin.offsets import end_offset, first_offset, offset_at
from penstock.rocketmq.client.consume.filters import Filter
from penstock.rocketmq.client.consume.offsets import server_of
from penstock.rocketmq.client.consume.pulling import Pulled, Puller
from penstock.rocketmq.mqadmin.admin import Admin
from penstock.rocketmq.protocol.message_queue import MessageQueue, queue_order
from penstock.rocketmq.protocol.requests import TOOLS_GROUP

_PULL_TIMEOUT_S: Final = 10.0


class Reader:
    """A reader of queues, as the group of upstream's tools."""

    def __init__(self, admin: Admin, group: str = TOOLS_GROUP) -> None:
        self._admin = admin
        self._puller = Puller(admin.hub, group)

    async def queues(self, topic: str) -> list[MessageQueue]:
        """The queues of a topic that can be read, in their order."""
        return sorted((await self._admin.route(topic)).readable(topic), key=queue_order)

    async def first(self, queue: MessageQueue) -> int:
        """The first offset that the queue still has."""
        return await first_offset(self._admin, await self._server(queue), queue)

    async def end(self, queue: MessageQueue) -> int:
        """The offset that the next message will have."""
        return await end_offset(self._admin, await self._server(queue), queue)

    async def at(self, queue: MessageQueue, timestamp_ms: int) -> int:
        """The first offset that was stored at this time or later."""
        return await offset_at(self._admin, await self._server(queue), queue, timestamp_ms)

    async def pull(self, queue: MessageQueue, offset: int, wanted: Filter, most: int) -> Pulled:
        """The next messages of a queue from an offset on."""
        return await self._puller.pull(queue, offset, wanted, most=most, timeout_s=_PULL_TIMEOUT_S)

    async def pulls(
        self, queue: MessageQueue, start: int, end: int, expression: str, most: int
    ) -> AsyncIterator[Pulled]:
        """Pulls from one offset up to another, each on from where the one before ended."""
        wanted = Filter(expression)
        while start < end:
            found = await self.pull(queue, start, wanted, most)
            yield found
            start = found.next_offset

    async def _server(self, queue: MessageQueue) -> str:
        return await server_of(self._admin.hub, queue)
