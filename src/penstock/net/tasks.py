"""The only place that starts a task.

asyncio keeps no strong reference to a task and hides its exception until it is collected; ``spawn``
keeps the one and reports the other.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

logger = logging.getLogger("penstock.net.tasks")
_running: set[asyncio.Task[Any]] = set()


def spawn(coroutine: Coroutine[Any, Any, T], name: str) -> asyncio.Task[T]:
    """Run ``coroutine`` beside its caller; an exception nobody awaited is logged under ``name``."""
    task = asyncio.get_running_loop().create_task(coroutine, name=name)
    _running.add(task)
    task.add_done_callback(_finished)
    return task


def _finished(task: asyncio.Task[Any]) -> None:
    _running.discard(task)
    if not task.cancelled() and (error := task.exception()) is not None:
        logger.error("task %s failed", task.get_name(), exc_info=error)
