"""Waiting until there is something to pop, without popping it (reference 2.7, NOTIFICATION)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from penstock.rocketmq.broker.answering import answers
from penstock.rocketmq.broker.pop import POLL_MS_MAX, checked
from penstock.rocketmq.protocol.codes import RequestCode
from penstock.rocketmq.protocol.command import Command
from penstock.storage.batch import Batch

if TYPE_CHECKING:
    from penstock.rocketmq.broker.message_store import MessageStore
    from penstock.rocketmq.broker.node import Node
    from penstock.rocketmq.remoting import Connection

WAITING_MAX: Final = 10_000


@answers(RequestCode.NOTIFICATION)
async def notification(node: Node, connection: Connection, request: Command) -> Command:
    """Whether a group has messages to pop, as soon as some come or when the time is over."""
    topic, group = checked(node, connection, request)
    poll_ms = min(max(0, request.int64("pollTime")), POLL_MS_MAX)
    if request.boolean("order"):
        return await _in_order(node, request, (topic, group), poll_ms)
    polling_full = False
    if poll_ms and not _has_messages(node, topic, group):
        polling_full = not await node.arrivals.wait(topic, poll_ms / 1000)
    return _answer(request, _has_messages(node, topic, group), polling_full)


def _answer(request: Command, has_messages: bool, polling_full: bool) -> Command:
    return request.answer(
        ext={"hasMsg": str(has_messages).lower(), "pollingFull": str(polling_full).lower()}
    )


async def _in_order(node: Node, request: Command, key: tuple[str, str], poll_ms: int) -> Command:
    """Whether a queue has messages of which no batch is out, as soon as one has."""
    attempt, queue = request.optional("attemptId") or None, request.int32("queueId")
    ordered = node.pops.ordered

    def has_messages() -> bool:
        config = node.topics.get(key[0])
        queues = range(config.read_queues if config is not None else 0)
        return any(ordered.has_messages(key, each, attempt)
                   for each in queues if queue < 0 or queue == each)  # fmt: skip

    loop = asyncio.get_running_loop()
    end = loop.time() + poll_ms / 1000
    while not has_messages() and loop.time() < end:
        free_ms = ordered.table.free_ms(key, node.now_ms)
        seconds = end - loop.time()
        if free_ms is not None:
            seconds = min(seconds, max(1, free_ms - node.now_ms) / 1000)
        if not await node.arrivals.wait(key[0], seconds):
            return _answer(request, has_messages(), True)
    return _answer(request, has_messages(), False)


def _has_messages(node: Node, topic: str, group: str) -> bool:
    return any(next_ > first for first, next_, _ in node.pops.waiting(topic, group))


class Arrivals:
    """Those who wait for the next message of a topic; the store tells us only while some do."""

    def __init__(self, store: MessageStore) -> None:
        self._store = store
        self._waiting: dict[str, set[asyncio.Future[None]]] = {}
        self._count = 0

    async def wait(self, topic: str, seconds: float) -> bool:
        """Wait for a message, but not longer; False at once when too many wait already."""
        if self._count >= WAITING_MAX:
            return False
        if not self._count:
            self._store.appended.append(self._appended)
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiting = self._waiting.setdefault(topic, set())
        waiting.add(future)
        self._count += 1
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await future
        finally:
            waiting.discard(future)
            if not waiting and self._waiting.get(topic) is waiting:
                del self._waiting[topic]
            self._count -= 1
            if not self._count:
                self._store.appended.remove(self._appended)
        return True

    def wake(self, topic: str) -> None:
        """There may be something to have of a topic that nobody could have before."""
        for future in self._waiting.get(topic, ()):
            if not future.done():
                future.set_result(None)

    def _appended(self, topic: str, batches: Sequence[Batch]) -> None:
        self.wake(topic)
