"""Batches of stored messages, as a RocketMQ producer makes a broker write them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from penstock.rocketmq.protocol.ids import Host
from penstock.rocketmq.protocol.messages.message import StoredMessage, encode
from penstock.storage.batch import Batch, Dialect

IPV4 = Host(b"\x0a\x00\x00\x01", 50_000)
IPV6 = Host(bytes(15) + b"\x01", 50_000)
FIRST, FIRST_ID, TIME_NS = 100, 5100, 1_700_000_000_123_456_789


def stored(body: bytes, sys_flag: int = 0, born: Host = IPV4, host: Host = IPV4) -> bytes:
    """A record with this body."""
    return encode(StoredMessage("T", body, 2, 7, 1000, born, host, 5, 6, "TAGS\x01a\x02", 1,
                                sys_flag))  # fmt: skip


def batch_of(frames: Sequence[bytes], queue: int = 2) -> Batch:
    """The batch that holds these records."""
    table = np.cumsum([0, *map(len, frames)], dtype=np.uint32)
    return Batch.build(FIRST, FIRST_ID, TIME_NS, len(frames), 0, frames, table=table,
                       dialect=Dialect.ROCKETMQ, queue=queue)  # fmt: skip
