"""Work by the clock: deadlines of channels, cursors to the journal, syncs, retention."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from penstock.broker.broker import Broker
from penstock.core.clock import Clock
from penstock.core.units import MILLISECOND
from penstock.net.tasks import spawn
from penstock.node.commits import Commits
from penstock.node.dead_letters import DeadLetters
from penstock.node.group_retention import GroupRetention

logger = logging.getLogger("penstock.node")

# Go scans every 100 ms, and a new channel only after up to 5 s (NSQ spec 3.7).
TICK_S: Final = 0.01
SAVE_INTERVAL_NS: Final = 100 * MILLISECOND
SAVE_INTERVAL_MAX_NS: Final = 500 * MILLISECOND
"""The longest time between two writes of progress, even if they take more than their share of the
time: messages finished since the last write are delivered again after a kill."""
_SAVE_SHARE: Final = 10  # the journal may take this part of the time


class Housekeeping:
    """The clockwork of a node."""

    def __init__(
        self,
        broker: Broker,
        commits: Commits,
        dead_letters: DeadLetters,
        groups: GroupRetention,
        clock: Clock,
        sync_timeout: int,
    ) -> None:
        self.ticks: list[Callable[[int], None]] = [groups.tick]
        """Called every ``TICK_S`` with the time (monotonic ns), to look if something is due."""
        self._broker = broker
        self._commits = commits
        self._dead_letters = dead_letters
        self._clock = clock
        self._sync_timeout = sync_timeout
        self._task: asyncio.Task[None] | None = None
        self._save_at = 0
        self._sync_at = 0

    def start(self) -> None:
        self._task = spawn(self._run(), "housekeeping")

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            try:
                self._tick(self._clock.monotonic_ns())
            except Exception:  # without this clockwork no message would ever time out
                logger.exception("housekeeping failed, trying again")

    def _tick(self, now: int) -> None:
        self._deadlines(now)
        if now >= self._save_at:
            self._save(now)
        if now >= self._sync_at:
            self._trim_and_sync(now)
        for tick in self.ticks:
            tick(now)

    def _deadlines(self, now: int) -> None:
        for channel in self._broker.tick(now):
            channel.dispatch(now)
            if channel.state.spent.count:
                self._dead_letters.move(channel, now)

    def _save(self, now: int) -> None:
        self._broker.save()
        spent = self._clock.monotonic_ns() - now
        pause = max(SAVE_INTERVAL_NS, min(_SAVE_SHARE * spent, SAVE_INTERVAL_MAX_NS))
        self._save_at = now + spent + pause

    def _trim_and_sync(self, now: int) -> None:
        self._sync_at = now + self._sync_timeout
        self._broker.trim()
        # The answer to a producer goes out within a short sync, so topics may be made meanwhile.
        for topic in list(self._broker.topics.values()):
            if topic.log.unsynced_messages:
                self._commits.sync(topic)
