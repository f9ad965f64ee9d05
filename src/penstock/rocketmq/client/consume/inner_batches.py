"""Batches that a broker of 5.x stores as one message each, in topics with ``queue.type=BatchCQ``.

Consumers take them apart. Such a message has as many queue offsets as it holds messages.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from penstock.rocketmq.client.produce.compression import decompress
from penstock.rocketmq.protocol.messages import batch_body
from penstock.rocketmq.protocol.messages.message import StoredMessage, SysFlag

_BATCH: Final = int(SysFlag.NEED_UNWRAP | SysFlag.INNER_BATCH)
_TAKEN_OFF: Final = ~(_BATCH | SysFlag.COMPRESSED)


def unwrapped(records: Iterable[StoredMessage], first: int) -> Iterator[StoredMessage]:
    """All messages, those of batches from queue offset ``first`` on. Raises BodyError.

    A pull from the middle of a batch gets all of it.
    """
    for stored in records:
        if stored.sys_flag & _BATCH == _BATCH:
            yield from (each for each in _inner(stored) if each.queue_offset >= first)
        else:
            yield stored


def _inner(stored: StoredMessage) -> Iterator[StoredMessage]:
    body = stored.body
    if stored.sys_flag & SysFlag.COMPRESSED:
        body = decompress(body, stored.sys_flag)
    for ahead, message in enumerate(batch_body.decode(body)):
        yield replace(
            stored, body=message.body, properties=message.properties, flag=message.flag,
            queue_offset=stored.queue_offset + ahead, sys_flag=stored.sys_flag & _TAKEN_OFF,
        )  # fmt: skip
