"""Clients of one node of a pair, whatever its dialect: they go on until they are stopped."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from contextlib import AbstractAsyncContextManager, suppress
from typing import Any, ClassVar, Final

from .pair_story import Side

RETRY_S: Final = 0.05


class PairClients(ABC):
    """Producers and consumers of a node while it is primary, each with connections to itself."""

    ends: ClassVar[tuple[type[Exception], ...]] = (OSError,)
    """Errors after which a client connects again."""

    def __init__(self, side: Side, works: Iterable[Callable[[Any], Awaitable[None]]]) -> None:
        """Each of ``works`` is a client; it takes its connection."""
        self.side = side
        self._tasks = [asyncio.create_task(self._again(each)) for each in works]

    @abstractmethod
    def connected(self) -> AbstractAsyncContextManager[Any]:
        """A new connection to the node."""

    @abstractmethod
    async def drain(self, owes: Coroutine[Any, Any, None]) -> None:
        """Consume all that comes until ``owes`` is through."""

    async def stop(self) -> None:
        """End all of them. Raises what one of them has failed with."""
        for task in self._tasks:
            task.cancel()
        for ended in await asyncio.gather(*self._tasks, return_exceptions=True):
            if isinstance(ended, Exception):
                raise ended

    async def _again(self, work: Callable[[Any], Awaitable[None]]) -> None:
        while True:
            with suppress(*self.ends):
                async with self.connected() as connection:
                    await work(connection)
            await asyncio.sleep(RETRY_S)
