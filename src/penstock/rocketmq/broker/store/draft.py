"""A message on its way into the store, before it has its place there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from penstock.rocketmq.protocol.ids import NO_HOST, Host
from penstock.rocketmq.protocol.messages.message import StoredMessage


@dataclass(slots=True)
class Draft:
    """A message to be stored; times in ms, ``properties`` as text (``protocol.properties``)."""

    topic: str
    queue: int
    body: bytes
    properties: str = ""
    flag: int = 0
    sys_flag: int = 0
    born_ms: int = 0
    born_host: Host = NO_HOST
    reconsume_times: int = 0
    prepared_offset: int = 0

    @classmethod
    def of(cls, stored: StoredMessage) -> Draft:
        """A copy of a stored message, to be changed and put again."""
        return cls(
            stored.topic,
            stored.queue,
            stored.body,
            stored.properties,
            stored.flag,
            stored.sys_flag,
            stored.born_ms,
            stored.born_host,
            stored.reconsume_times,
            stored.prepared_offset,
        )


class Placed(NamedTuple):
    """The place where a message was stored. ``message_id`` is the offset id (RocketMQ spec 3.4)."""

    queue_offset: int
    physical_offset: int
    store_ms: int
    message_id: str
