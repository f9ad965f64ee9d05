"""Storing messages, of which those with a delay wait in a system topic first."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from penstock.rocketmq.broker import names
from penstock.rocketmq.broker.delays import release
from penstock.rocketmq.broker.delays.timers import Timers
from penstock.rocketmq.broker.state.levels import DelayLevels
from penstock.rocketmq.broker.store.draft import Draft, Placed
from penstock.rocketmq.broker.store.message_store import Done, MessageStore
from penstock.rocketmq.protocol.errors import BodyError
from penstock.rocketmq.protocol.messages import properties
from penstock.rocketmq.protocol.messages.message import TRANSACTION_BITS, SysFlag

_MARK: Final = "DEL"
"""Part of the name of each property that speaks of a delay, so that others cost one look."""
_WHERE_MESSAGES_WAIT: Final = (
    names.SCHEDULE_TOPIC,
    names.TIMER_TOPIC,
    names.HALF_TOPIC,
    names.GIVEN_UP_HALF_TOPIC,
)
_LEVEL = re.compile(r"[+-]?[0-9]{1,10}")
_LEVEL_MAX: Final = (1 << 31) - 1
"""Java reads a level as an int; some ask for the longest delay with the largest one."""


class Publisher:
    """A publisher of messages whose time has come to where they belong."""

    def __init__(self, store: MessageStore, levels: DelayLevels, timers: Timers) -> None:
        self._store = store
        self._levels = levels
        self._timers = timers

    def divert(self, draft: Draft) -> Draft:
        """Return the draft itself if it is for now, else one that waits in a system topic.

        Raises RefusedError for a time that is not possible, BodyError for a level that is not a
        number.
        """
        # What waits there keeps its DELAY (RocketMQ spec 4.6), and would be sent round again.
        if _MARK not in draft.properties or draft.topic in _WHERE_MESSAGES_WAIT:
            return draft
        # Java delays plain and committed messages only: a half message waits for its outcome.
        if draft.sys_flag & TRANSACTION_BITS not in (0, SysFlag.COMMIT):
            return draft
        found = properties.parse(draft.properties)
        level = found.get(properties.DELAY, "0")
        if not _LEVEL.fullmatch(level) or int(level) > _LEVEL_MAX:
            raise BodyError(f"the property DELAY is not a number: {level[:32]!r}")
        if int(level) <= 0:
            return self._timers.diverted(draft, found)
        return release.delayed(self._levels, draft, found, int(level))

    def publish(self, drafts: Sequence[Draft], done: Done) -> None:
        """Store messages of one queue of one topic; those with a delay wait in its queue first."""
        # Several are a batch, and batches are never delayed (RocketMQ spec 2.1).
        if len(drafts) == 1:
            drafts = (self.divert(drafts[0]),)
        self._store.put(drafts, done)

    async def publish_one(self, draft: Draft) -> Placed:
        """Store one message and wait until that is done. Raises StorageError."""
        draft = self.divert(draft)
        return await self._store.append(draft)
