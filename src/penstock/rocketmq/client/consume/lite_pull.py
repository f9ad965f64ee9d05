"""Messages that a program asks for when it wants them: the core of both lite pull consumers.

Queues are pulled in the background, up to the limits, and ``poll`` hands out what has come. What
was handed out counts as done with the next ``poll``, or, without ``auto_commit``, with ``commit``:
so a program that crashes gets again what it was working on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from penstock.rocketmq.client.consume.allocation import Allocate, averagely
from penstock.rocketmq.client.consume.consuming import Consumption, Unit
from penstock.rocketmq.client.consume.filters import Filter
from penstock.rocketmq.client.consume.group import ConsumerKind
from penstock.rocketmq.client.consume.held_queue import HeldQueue
from penstock.rocketmq.client.consume.offsets import QueueBounds
from penstock.rocketmq.client.consume.pulling import Pulled
from penstock.rocketmq.client.consume.received import Received
from penstock.rocketmq.client.errors import NotAssigned
from penstock.rocketmq.client.names import wrap
from penstock.rocketmq.client.network.hub import Hub
from penstock.rocketmq.protocol.membership import PULLS
from penstock.rocketmq.protocol.message_queue import MessageQueue


class LitePull(Consumption):
    """A group whose messages are taken, and may be taken from any place."""

    def __init__(
        self, group: str, hub: Hub, *, allocate: Allocate = averagely, auto_commit: bool = True
    ) -> None:
        super().__init__(group, hub, ConsumerKind(consume_type=PULLS, allocate=allocate))
        self.bounds = QueueBounds(hub)
        self._auto_commit = auto_commit
        self._polled: list[Unit] = []
        self._loop: Unit | None = None
        """The unit of a loop, which has those of its messages that were handed out."""
        self._rest: deque[Received] = deque()
        """The messages of that unit that were not handed out yet."""
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
        unit = self._next(most)
        return [] if unit is None else unit.messages

    def _next(self, most: int) -> Unit | None:
        self._end_loop()
        if self._auto_commit:
            self._accept()
        unit = self.take(most)
        if unit is not None:
            self._polled.append(unit)
        return unit

    def begin_loop(self, most: int) -> bool:
        """Have messages for ``each``, of one queue; False if none has come."""
        unit = self._next(1 if self._tracer is not None else most)  # each has its own trace
        if unit is None:
            return False
        self._loop, self._rest, unit.messages = unit, deque(unit.messages), []
        return True

    def each(self) -> Iterator[Received]:
        """One message after the other, until there are no more or another method hands some out.

        They are counted together: those handed out are done with the next ``begin_loop`` or
        ``poll``, and all but the last with a commit in between.
        """
        unit, rest = self._loop, self._rest
        if unit is None:
            return
        handed_out = unit.messages
        while rest:  # it is emptied when the loop is over
            message = rest.popleft()
            handed_out.append(message)
            yield message

    def _end_loop(self) -> None:
        """Take back what a loop was not given: others may have it."""
        unit, self._loop = self._loop, None
        if unit is not None and self._rest:
            self._ready.appendleft((unit.held, self._rest.copy()))
            self._rest.clear()

    def _settle_loop(self) -> None:
        """All that a loop was given is done but for the last, which it is at."""
        unit = self._loop
        if unit is not None and self._auto_commit and len(unit.messages) > 1:
            unit.held.done(unit.messages[:-1])
            del unit.messages[:-1]

    def forgotten(self, held: HeldQueue) -> None:
        if self._loop is not None and self._loop.held is held:
            self._settle_loop()
            self._loop = None
            self._rest.clear()
        super().forgotten(held)

    def _accept(self) -> None:
        polled, self._polled = self._polled, []
        for unit in polled:
            self.finished(unit)

    async def commit(self) -> None:
        self._settle_loop()
        await super().commit()

    async def commit_polled(self) -> None:
        """Commit all that was polled; the brokers know it when this returns."""
        self._end_loop()
        self._accept()
        await self.commit()

    def give_up_polled(self) -> None:
        """Leave what was polled and is not done to whoever has its queues next."""
        self._settle_loop()
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
        self._end_loop()
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
            self.own(queue),
            offset,
            wanted,
            most=most,
            suspend_s=suspend_s,
            timeout_s=suspend_s + self.hub.config.request_timeout,
        )
