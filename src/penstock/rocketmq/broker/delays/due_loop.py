"""A clockwork that works at deadlines: it sleeps until the next one, and is woken for earlier ones.

What it has achieved is written down soon after, not at once: at most ten times a second, and for at
most half of the time.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from penstock.core.clock import Clock
from penstock.core.errors import StorageError
from penstock.core.units import SECOND
from penstock.net.tasks import spawn

FAR: Final = 1 << 62
"""A deadline in ms that never comes."""
RETRY_MS: Final = 1000
SLEEP_S_MAX: Final = 30.0
"""The longest sleep: some deadlines follow the system's time, which may be set meanwhile."""
CLOSE_S: Final = 5.0
_SAVE_REST_NS: Final = SECOND // 10

logger = logging.getLogger("penstock.mqbroker")


class DueLoop:
    """A loop that calls ``step`` at the time that its last call returned, in terms of ``now_ms``.

    A step does the work that is due, a few ms of it. ``save`` is called soon after ``changed``.
    """

    def __init__(
        self,
        name: str,
        clock: Clock,
        now_ms: Callable[[], int],
        step: Callable[[], Awaitable[int]],
        save: Callable[[], Awaitable[None]],
    ) -> None:
        self._name = name
        self._clock = clock
        self._now_ms = now_ms
        self._step = step
        self._save = save
        self._woken = asyncio.Event()
        self._closing = False
        self._changed = False
        self._task: asyncio.Task[None] | None = None
        self._saver: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = spawn(self._run(), self._name)

    def wake(self) -> None:
        """Something may be due earlier than the step knew."""
        self._woken.set()

    def changed(self) -> None:
        """Note that there is something to write down."""
        self._changed = True
        if self._saver is None:
            self._saver = spawn(self._save_soon(), f"{self._name}: saving")

    async def close(self) -> None:
        """Let the step under way come to its end."""
        self._closing = True
        self._woken.set()
        if self._task is not None:
            await asyncio.wait((self._task,), timeout=CLOSE_S)
            self._task.cancel()
        if self._saver is not None:
            self._saver.cancel()

    async def _run(self) -> None:
        while not self._closing:
            # Before the step: what comes while it works wakes the next sleep.
            self._woken.clear()
            due_ms = await self._stepped()
            wait_ms = due_ms - self._now_ms()
            if wait_ms <= 0:
                # More is due, but connections have their turn between slices.
                await asyncio.sleep(0)
                continue
            try:
                async with asyncio.timeout(min(wait_ms / 1000, SLEEP_S_MAX)):
                    await self._woken.wait()
            except TimeoutError:
                pass  # the usual case: the deadline has come

    async def _stepped(self) -> int:
        try:
            return await self._step()
        except StorageError as error:
            logger.error("%s: %s; trying again", self._name, error)
        except Exception:  # without this clockwork nothing would ever be delivered
            logger.exception("%s failed, trying again", self._name)
        return self._now_ms() + RETRY_MS

    async def _save_soon(self) -> None:
        rest_ns = _SAVE_REST_NS
        failing = False
        while self._changed:
            await asyncio.sleep(rest_ns / SECOND)
            self._changed = False
            start = self._clock.monotonic_ns()
            try:
                await self._save()
                failing = False
            except Exception as error:  # whatever it is, it would be doubled after a crash
                self._changed = True
                if not failing:
                    logger.error(
                        "%s: failed to save - %s",
                        self._name,
                        error,
                        exc_info=not isinstance(error, StorageError),
                    )
                failing = True
            # As long as the save took: at most half of the time on a slow disk.
            rest_ns = max(_SAVE_REST_NS, self._clock.monotonic_ns() - start)
        self._saver = None
