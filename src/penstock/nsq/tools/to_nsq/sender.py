"""to_nsq's way to one nsqd: many records in a multi-publish, several of those under way."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from penstock.core.names import is_valid_name
from penstock.nsq.client.errors import BadBody, BadMessage

if TYPE_CHECKING:
    from penstock.nsq.client import Config

UNDER_WAY_MAX: Final = 8
"""Portions that are sent and not answered."""
_RECORDS_MAX: Final = 1 << 24  # what is under way is bounded by portions, not by records


class Sender:
    """A publisher of records in order, in tasks of ``group``, which the first failure ends.

    A node that refuses a multi-publish because of its size gets the same records one by one, so
    that those before a record that is too big are published, and the refusal names that one.
    """

    def __init__(
        self,
        address: str,
        topic: str,
        config: Config,
        group: asyncio.TaskGroup,
        advance: Callable[[int], None],
    ) -> None:
        from penstock.nsq.client import Producer

        self._producer = Producer(address, config=config, max_pending=_RECORDS_MAX)
        self._topic = topic
        self._group = group
        self._advance = advance
        self._room = asyncio.Semaphore(UNDER_WAY_MAX)
        # A wrong topic is refused in the words for a single record.
        self._one_by_one = not is_valid_name(topic)

    async def send(self, records: Sequence[bytes]) -> None:
        """Send them, when not too much is under way."""
        await self._room.acquire()
        self._group.create_task(self._publish(records))

    async def close(self) -> None:
        """Close the connection; what is under way is given up."""
        await self._producer.close()

    async def _publish(self, records: Sequence[bytes]) -> None:
        if self._one_by_one or len(records) == 1:
            await self._publish_each(records)
        else:
            try:
                await self._producer.multi_publish(self._topic, records)
            except (BadMessage, BadBody):
                await self._publish_each(records)
        self._advance(sum(map(len, records)) + len(records))
        self._room.release()

    async def _publish_each(self, records: Sequence[bytes]) -> None:
        for record in records:
            await self._producer.publish(self._topic, record)
