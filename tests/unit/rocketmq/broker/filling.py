"""Messages in a node's store, for tests of what is told about them."""

from __future__ import annotations

import asyncio

from penstock.core.errors import StorageError
from penstock.rocketmq.broker.services import Services
from penstock.rocketmq.broker.store.draft import Draft, Placed
from penstock.rocketmq.protocol.fastjson import ObjectKey
from penstock.rocketmq.protocol.messages import properties


async def store(
    services: Services, topic: str, queue: int, *bodies: bytes, **properties_: str
) -> list[Placed]:
    """Store messages with these properties, without delay or counting."""
    text = properties.join(properties_)
    stored: asyncio.Future[list[Placed]] = asyncio.get_running_loop().create_future()

    def done(placed: list[Placed], error: StorageError | None) -> None:
        assert error is None, error
        stored.set_result(placed)

    drafts = [Draft(topic, queue, body, text, born_ms=services.now_ms) for body in bodies]
    services.store.put(drafts, done)
    return await stored


def queue_key(services: Services, topic: str, queue: int) -> ObjectKey:
    """A queue as a key of a map that was read from JSON."""
    broker = services.settings.broker_name
    return (("brokerName", broker), ("queueId", queue), ("topic", topic))
