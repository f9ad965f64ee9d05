"""What nsqd does by the clock: deadlines of channels, cursors to the journal, syncs, retention."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from penstock.core.units import MILLISECOND
from penstock.net.tasks import spawn
from penstock.nsq.nsqd.group_retention import GroupRetention

if TYPE_CHECKING:
    from penstock.nsq.nsqd.daemon import Nsqd

logger = logging.getLogger("penstock.nsqd")

TICK_S: Final = 0.01
SAVE_INTERVAL_NS: Final = 100 * MILLISECOND
SAVE_INTERVAL_MAX_NS: Final = 500 * MILLISECOND
"""The longest time between two writes of progress, even if they take more than their share of the
time: messages finished since the last write are delivered again after a kill."""
_SAVE_SHARE: Final = 10  # the journal may take this part of the time


class Housekeeping:
    """The clockwork of an nsqd."""

    def __init__(self, nsqd: Nsqd) -> None:
        self._nsqd = nsqd
        self._groups = GroupRetention(nsqd)
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
                self._tick(self._nsqd.clock.monotonic_ns())
            except Exception:  # without this clockwork no message would ever time out
                logger.exception("housekeeping failed, trying again")

    def _tick(self, now: int) -> None:
        self._deadlines(now)
        if now >= self._save_at:
            self._save(now)
        if now >= self._sync_at:
            self._sync(now)
        self._groups.tick(now)
        self._nsqd.staged_parts.tick(now)

    def _deadlines(self, now: int) -> None:
        for channel in self._nsqd.broker.tick(now):
            channel.dispatch(now)
            if channel.spent.count:
                self._nsqd.dead_letters.move(channel, now)

    def _save(self, now: int) -> None:
        self._nsqd.broker.save()
        spent = self._nsqd.clock.monotonic_ns() - now
        pause = max(SAVE_INTERVAL_NS, min(_SAVE_SHARE * spent, SAVE_INTERVAL_MAX_NS))
        self._save_at = now + spent + pause

    def _sync(self, now: int) -> None:
        self._sync_at = now + self._nsqd.options.sync_timeout
        self._nsqd.broker.trim()
        for topic in self._nsqd.broker.topics.values():
            if topic.log.unsynced_messages:
                self._nsqd.commits.sync(topic)
