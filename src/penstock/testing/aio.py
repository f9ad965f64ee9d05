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
    entered = await asyncio.to_thread(manager.__enter__)
    try:
        yield entered
    except BaseException:
        if not await asyncio.to_thread(manager.__exit__, *sys.exc_info()):
            raise
    else:
        await asyncio.to_thread(manager.__exit__, None, None, None)
