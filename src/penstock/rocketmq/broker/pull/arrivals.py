"""Waiting for the next message of a topic."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from penstock.rocketmq.broker.store.message_store import MessageStore
from penstock.storage.batch import Batch

WAITING_MAX: Final = 5_000
"""Half of the number of answers that may be under way at once. The others are for short waits."""


class Arrivals:
    """The waiters for the next message of a topic; the store calls here only while some wait."""

    def __init__(self, store: MessageStore) -> None:
        self._store = store
        self._waiting: dict[str, set[asyncio.Future[None]]] = {}
        self._count = 0

    async def wait(self, topic: str, seconds: float) -> bool:
        """Wait for a message, but not longer; False at once when too many wait already."""
        if self._count >= WAITING_MAX:
            return False
        if not self._count:
            self._store.on_append.append(self._appended)
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
                self._store.on_append.remove(self._appended)
        return True

    def wake(self, topic: str) -> None:
        """Wake the waiters of a topic, which may have something that nobody could have before."""
        for future in self._waiting.get(topic, ()):
            if not future.done():
                future.set_result(None)

    def _appended(self, topic: str, batches: Sequence[Batch]) -> None:
        self.wake(topic)
