"""Messages that a program asks for when it wants them: the core of both lite pull consumers.

Queues are pulled in the background, up to the limits, and ``poll`` hands out what has come. What
was handed out counts as done with the next ``poll``, or, without ``auto_commit``, with ``commit``:
so a program that crashes gets again what it was working on.
"""

from __future__ import annotations

from collections.abc import Iterable

from penstock.rocketmq.client.consume.allocation import Allocate, averagely
from penstock.rocketmq.client.consume.consuming import Consumption, Unit
from penstock.rocketmq.client.consume.filters import Filter
from penstock.rocketmq.client.consume.group import Habits
from penstock.rocketmq.client.consume.held import HeldQueue
from penstock.rocketmq.client.consume.offsets import QueueBounds
from penstock.rocketmq.client.consume.pulling import Pulled
from penstock.rocketmq.client.consume.received import Received
from penstock.rocketmq.client.errors import NotAssigned
from penstock.rocketmq.client.names import wrap
from penstock.rocketmq.client.network.hub import Hub
from penstock.rocketmq.protocol.message_queue import MessageQueue


class LitePull(Consumption):
    """A group whose messages are taken, and may be taken from any place."""

    def __init__(
        self, group: str, hub: Hub, *, allocate: Allocate = averagely, auto_commit: bool = True
    ) -> None:
        super().__init__(group, hub, Habits(consume_type="CONSUME_ACTIVELY", allocate=allocate))
        self.bounds = QueueBounds(hub)
        self._auto_commit = auto_commit
        self._polled: list[Unit] = []
        self._is_begun = False

    async def begin(self) -> None:
        await super().begin()
        self._is_begun = True

    def own(self, queue: MessageQueue) -> MessageQueue:
        """The queue as servers know it."""
        return queue._replace(topic=wrap(self.hub.config.namespace, queue.topic))

    # --- messages --------------------------------------------------------------------------------

    def poll(self, most: int) -> list[Received]:
        """Messages that have come, of one queue; an empty list if none has."""
        if self._auto_commit:
            self._accept()
        unit = self.take(most)
        if unit is None:
            return []
        self._polled.append(unit)
        return unit.messages

    def _accept(self) -> None:
        polled, self._polled = self._polled, []
        for unit in polled:
            self.finished(unit)

    async def commit_polled(self) -> None:
        """Commit all that was polled; the brokers know it when this returns."""
        self._accept()
        await self.commit()

    def give_up_polled(self) -> None:
        """Leave what was polled and is not done to whoever has its queues next."""
        polled, self._polled = self._polled, []
        for unit in polled:
            self.dismiss(unit)

    async def leave(self) -> None:
        if self._auto_commit:
            self._accept()
        await super().leave()

    # --- places ----------------------------------------------------------------------------------

    async def assign(self, queues: Iterable[MessageQueue]) -> None:
        """Have these queues, whoever else has them; nothing is shared from now on."""
        self.assigned = {self.own(queue) for queue in queues}
        for topic in {queue.topic for queue in self.assigned}:
            await self.hub.routes.of(topic)
        if self._is_begun:
            await self.share_now()

    def held_queue(self, queue: MessageQueue) -> HeldQueue:
        """A queue that is assigned to this consumer. Raises NotAssigned."""
        held = self.held.get(self.own(queue))
        if held is None:
            raise NotAssigned(f"The message queue is not in assigned list, message queue: {queue}")
        return held

    def seek_to(self, queue: MessageQueue, offset: int) -> None:
        """Go on there. Raises NotAssigned."""
        held = self.held_queue(queue)
        for unit in [unit for unit in self._polled if unit.held is held]:
            self._polled.remove(unit)
            self.dismiss(unit)
        self.seek(held, offset)

    async def queues_of(self, topic: str) -> list[MessageQueue]:
        """The queues of a topic that can be read. Raises ClientError."""
        self.hub.begin()
        route = await self.hub.routes.of(wrap(self.hub.config.namespace, topic))
        return [queue._replace(topic=topic) for queue in route.readable]

    async def pull(
        self, queue: MessageQueue, offset: int, wanted: Filter, most: int, suspend_s: float
    ) -> Pulled:
        """Pull once, beside all that: no offset is kept. Raises ClientError."""
        self.hub.begin()
        return await self.puller.pull(
            self.own(queue), offset, wanted, most=most, suspend_s=suspend_s,
            timeout_s=suspend_s + self.hub.config.request_timeout,
        )  # fmt: skip
