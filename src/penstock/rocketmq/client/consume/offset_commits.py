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
    """A writer of offsets that have changed; a failure is logged, and tried again."""

    def __init__(self, hub: Hub, group: str, offsets: Offsets) -> None:
        self._hub = hub
        self._group = group
        self._offsets = offsets
        self._begun: set[tuple[str, str]] = set()
        """Brokers and topics at which the group has committed."""

    async def write(self, queues: Iterable[HeldQueue]) -> None:
        """Commit these queues, side by side, but the first one of a topic at a broker alone.

        With it Java's broker makes the group's table, and of two that come at once it may lose one
        (``ConsumerOffsetManager.commitOffset`` in 4.9 and 5.3).
        """
        changed = [held for held in queues if held.commit_offset != held.committed]
        first: dict[tuple[str, str], HeldQueue] = {}
        for held in changed:
            if _place(held) not in self._begun:
                first.setdefault(_place(held), held)
        await self._write_all(first.values())
        await self._write_all(held for held in changed if first.get(_place(held)) is not held)

    async def _write_all(self, queues: Iterable[HeldQueue]) -> None:
        await all_of([self._hub.spawn(self._write(held), "commit") for held in queues])

    async def _write(self, held: HeldQueue) -> None:
        offset = held.commit_offset
        try:
            await self._offsets.write({held.queue: offset})
            held.committed = offset
            self._begun.add(_place(held))
        except (ClientError, OSError) as error:
            tell(
                logging.WARNING, "commit-failed", f"updateConsumeOffsetToBroker exception: {error}",
                group=self._group, topic=held.queue.topic, queue=held.queue,
            )  # fmt: skip


def _place(held: HeldQueue) -> tuple[str, str]:
    return held.queue.brokerName, held.queue.topic
