"""Messages in a node's store: put there, read again, refused by a disk, forbidden to be read."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from penstock.core.errors import StorageError
from penstock.rocketmq.broker.services import Services
from penstock.rocketmq.broker.state.group_table import GroupConfig
from penstock.rocketmq.broker.state.topic_table import WRITE
from penstock.rocketmq.broker.store.draft import Draft, Placed
from penstock.rocketmq.protocol.fastjson import ObjectKey
from penstock.rocketmq.protocol.messages import properties
from penstock.rocketmq.protocol.messages.message import StoredMessage, decode
from penstock.rocketmq.protocol.registration import TopicConfig


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


def stored(services: Services, topic: str, queue: int = 0) -> list[StoredMessage]:
    """All messages of a queue."""
    low, end = services.store.bounds(topic, queue)
    return [decode(each.frame)[0] for each in services.store.read(topic, queue, low, end, 1 << 30)]


def queue_key(services: Services, topic: str, queue: int) -> ObjectKey:
    """A queue as a key of a map that was read from JSON."""
    broker = services.settings.broker_name
    return (("brokerName", broker), ("queueId", queue), ("topic", topic))


class FailingPuts:
    """Makes puts to some topics fail, or never end, until ``mend``."""

    def __init__(self, services: Services, *topics: str, hang: bool = False) -> None:
        self._services = services
        self._put = services.store.put
        self.count = 0

        def put(drafts: Any, done: Any) -> None:
            if drafts[0].topic not in topics:
                self._put(drafts, done)
                return
            self.count += 1
            if not hang:
                done([], StorageError("no space left"))

        services.store.put = put  # type: ignore[method-assign]

    def mend(self) -> None:
        self._services.store.put = self._put  # type: ignore[method-assign]


PLACES = ("topic", "group", "broker")
"""Each of them may withdraw the permission to read."""


def forbid_reading(services: Services, place: str) -> None:
    """Let group G no longer read topic T, which has one queue."""
    if place == "topic":
        services.topics.put(TopicConfig("T", 1, 1, WRITE), 2)
    elif place == "group":
        services.groups.put(GroupConfig("G", consume_enable=False), 2)
    else:
        services.settings.broker_permission = WRITE


async def until(condition: Callable[[], object]) -> None:
    """Wait until something holds. Raises TimeoutError."""
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110 - what is waited for tells nobody
            await asyncio.sleep(0.002)
