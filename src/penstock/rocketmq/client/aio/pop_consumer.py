"""A POP consumer for asyncio."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

from penstock.core.chance import Chance
from penstock.core.clock import SYSTEM_CLOCK, Clock
from penstock.rocketmq.client.aio.hub import AioHub
from penstock.rocketmq.client.config import Config, config_at
from penstock.rocketmq.client.consume.filters import Filter, filter_of
from penstock.rocketmq.client.consume.popping import MESSAGES_MAX, Popped, Popper
from penstock.rocketmq.client.errors import ClientError, Stopped
from penstock.rocketmq.client.views import ClientView


class PopConsumer(ClientView):
    """A consumer of messages that nobody else has at present; each is acknowledged.

        async with PopConsumer("billing", "orders", "127.0.0.1:9876") as consumer:
            messages = await consumer.receive()
            await consumer.ack(*messages)

    A message that is not acknowledged within ``invisible`` seconds comes again. With ``orderly``
    a queue gives no more until all that was received of it is acknowledged, or comes again.
    """

    def __init__(
        self,
        group: str,
        topic: str,
        namesrv_addr: str = "",
        *,
        wanted: str | Filter = "*",
        invisible: float = 60.0,
        orderly: bool = False,
        config: Config | None = None,
        clock: Clock = SYSTEM_CLOCK,
        chance: Chance | None = None,
    ) -> None:
        self._hub: AioHub = AioHub(config_at(namesrv_addr, config), clock, chance)
        self._core = Popper(group, topic, filter_of(wanted), self._hub, is_orderly=orderly)
        self._invisible = invisible

    async def __aenter__(self) -> PopConsumer:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def receive(
        self, max_messages: int = MESSAGES_MAX, *, wait: float = 15.0
    ) -> list[Popped]:
        """Receive up to ``max_messages``; none after ``wait`` seconds without one."""
        return await self._hub.run(self._core.receive(max_messages, self._invisible, wait))

    async def __aiter__(self) -> AsyncIterator[Popped]:
        """One message after the other, until the consumer is closed."""
        while not self._hub.is_closed:
            try:
                messages = await self.receive()
            except Stopped:
                return
            for message in messages:
                yield message

    async def ack(self, *messages: Popped) -> None:
        """Acknowledge messages; several take one request for each broker. Raises ClientError."""
        await self._hub.run(self._core.ack(*messages))

    async def change_invisible(self, message: Popped, seconds: float) -> None:
        """Hide the message for ``seconds`` from now on; 0 gives it to anybody at once."""
        await self._hub.run(self._core.change_invisible(message, seconds))

    async def close(self) -> None:
        """Leave the group; what was not acknowledged comes again when its time is over."""
        if self._hub.is_closed:
            return
        with contextlib.suppress(ClientError):
            await self._hub.run(self._core.leave())
        await self._hub.end()
