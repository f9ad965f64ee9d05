"""Commits: telling how far the queues of a member are done."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from penstock.rocketmq.client.consume.held import HeldQueue
from penstock.rocketmq.client.consume.offsets import Offsets
from penstock.rocketmq.client.errors import ClientError
from penstock.rocketmq.client.events import tell
from penstock.rocketmq.client.network.hub import Hub
from penstock.rocketmq.client.network.jobs import all_of


class Commits:
    """Writes offsets that have changed; one that fails is told in the log, and tried again."""

    def __init__(self, hub: Hub, group: str, offsets: Offsets) -> None:
        self._hub = hub
        self._group = group
        self._offsets = offsets

    async def write(self, queues: Iterable[HeldQueue]) -> None:
        """Commit these queues, side by side."""
        changed = [held for held in queues if held.commit_offset != held.committed]
        await all_of([self._hub.spawn(self._write(held), "commit") for held in changed])

    async def _write(self, held: HeldQueue) -> None:
        offset = held.commit_offset
        try:
            await self._offsets.write({held.queue: offset})
            held.committed = offset
        except (ClientError, OSError) as error:
            tell(
                logging.WARNING, "commit-failed", f"updateConsumeOffsetToBroker exception: {error}",
                group=self._group, topic=held.queue.topic, queue=held.queue,
            )  # fmt: skip
