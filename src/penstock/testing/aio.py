"""Daemons for tests that run on an event loop, which starting and stopping must not block."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import AbstractContextManager, asynccontextmanager
from typing import TypeVar

Entered = TypeVar("Entered")


@asynccontextmanager
async def in_thread(manager: AbstractContextManager[Entered]) -> AsyncIterator[Entered]:
    """A context manager whose beginning and end run in a thread, so that the loop goes on.

    async with in_thread(run_nsqd()) as nsqd:
        ...
    """
    entered = await _entered(manager)
    try:
        yield entered
    except BaseException:
        if not await asyncio.to_thread(manager.__exit__, *sys.exc_info()):
            raise
    else:
        await asyncio.to_thread(manager.__exit__, None, None, None)


async def _entered(manager: AbstractContextManager[Entered]) -> Entered:
    """Enter the manager in a thread, and return what it gives.

    A thread cannot be stopped: what has begun when the caller is cancelled is ended again, as
    nobody else would end it.
    """
    entering = asyncio.get_running_loop().run_in_executor(None, manager.__enter__)
    try:
        return await asyncio.shield(entering)
    except asyncio.CancelledError:
        await asyncio.wait([entering])
        if entering.exception() is None:
            await asyncio.to_thread(manager.__exit__, *sys.exc_info())
        raise
