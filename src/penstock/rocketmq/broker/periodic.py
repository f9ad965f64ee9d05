"""A service of the broker that does one thing every so often."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from penstock.core.errors import PenstockError
from penstock.net.tasks import spawn

logger = logging.getLogger("penstock.mqbroker")


class Periodic:
    """``work`` every ``seconds``, the first time after as many; ``name`` is for the log.

    When it fails that is logged, and it has its turn again.
    """

    def __init__(self, name: str, seconds: float, work: Callable[[], None]) -> None:
        self._name = name
        self._seconds = seconds
        self._work = work
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = spawn(self._run(), self._name)

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._seconds)
            try:
                self._work()
            except PenstockError as error:
                logger.error("%s: %s; trying again", self._name, error)
            except Exception:  # without it something would never be done any more
                logger.exception("%s failed, trying again", self._name)
