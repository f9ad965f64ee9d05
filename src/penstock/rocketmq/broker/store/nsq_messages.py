"""NSQ's messages as RocketMQ's consumers get them: stored messages, made when they are read.

Such a message has no tag and one property, a ``UNIQ_KEY`` made from its id: NSQ's id, the
milliseconds since the start of the month in UTC where Java's clients have theirs (RocketMQ spec
3.4), and zeros. So a key leads back to its message without an index.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final

from penstock.broker import dialects
from penstock.core.units import MILLISECOND
from penstock.rocketmq.protocol.ids import Host
from penstock.rocketmq.protocol.messages import properties
from penstock.rocketmq.protocol.messages.message import StoredMessage, encode
from penstock.storage.batch import Batch

_KEY: Final = re.compile(r"([0-9A-F]{16})0000[0-9A-F]{8}0000")


def frames(
    batch: Batch,
    first: int,
    next_: int,
    *,
    topic: str,
    queue: int,
    queue_offset: int,
    physical: int,
    host: Host,
) -> list[bytes]:
    """The stored messages of log offsets ``[first, next_)`` of an NSQ batch.

    ``queue_offset`` and ``physical`` are of the first of them, ``host`` is where they are stored.
    NSQ does not say where a message was born, so it is born where, and when, it was stored.
    """
    ms = batch.timestamp_ns // MILLISECOND
    # As in the keys of Java's clients, which have the ms of the month in eight digits
    # (RocketMQ spec 3.4).
    since_month = _ms_of_month(ms)
    first_id = batch.first_id + first - batch.first_offset
    found = []
    for place, body in enumerate(dialects.bodies(batch, first, next_)):
        text = properties.join({properties.UNIQUE_KEY: unique_key(first_id + place, since_month)})
        found.append(
            encode(
                StoredMessage(topic, body, queue, queue_offset + place, physical + place, host,
                              host, ms, ms, text)
            )
        )  # fmt: skip
    return found


def unique_key(message_id: int, ms_of_month: int) -> str:
    """The key of the message with this NSQ id."""
    return f"{message_id:016X}0000{ms_of_month:08X}0000"


def id_of(key: str) -> int | None:
    """The NSQ id in a key; None when it is not one of ours."""
    found = _KEY.fullmatch(key)
    return int(found[1], 16) if found is not None else None


def _ms_of_month(ms: int) -> int:
    start = datetime.fromtimestamp(ms // 1000, UTC).replace(
        day=1, hour=0, minute=0, second=0, microsecond=0
    )
    return ms - int(start.timestamp()) * 1000
