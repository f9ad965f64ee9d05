"""A batch whose messages differ in layout: it is stored from its bytes, in one walk over them, with
no object for each message.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from penstock.core.units import MILLISECOND
from penstock.rocketmq.broker.store.draft import Draft
from penstock.rocketmq.protocol.ids import Host
from penstock.rocketmq.protocol.messages.message import Packer
from penstock.rocketmq.protocol.messages.properties import BYTES_MAX, VALUE_END
from penstock.storage.batch import Buffer, Dialect, Positions

Sent = tuple[int, bytes, bytes]
"""Flag, body and properties of a message of a batch."""
_END = VALUE_END.encode()


class MixedBatch:
    """The messages of one batch send, as records of a topic (see ``stored_records``)."""

    __slots__ = ("_base", "_common", "_messages", "_packer", "_sizes", "count", "largest", "nbytes",
                 "physical_offset", "queue_offset", "store_ms", "stride", "topic")  # fmt: skip

    dialect: ClassVar[int] = Dialect.ROCKETMQ
    note: ClassVar[bytes] = b""

    def __init__(self, messages: Sequence[Sent], common: Draft, store: Host, base: int) -> None:
        """``common`` holds the fields that all messages share."""
        self._messages = messages
        self._common = common
        self._base = base
        self._packer = packer = Packer(
            common.topic, common.born_host, store, 0, common.sys_flag, common.reconsume_times
        )
        bodies = [len(body) for _, body, _ in messages]
        self._sizes = [
            packer.fixed_bytes + size + len(each[2])
            for size, each in zip(bodies, messages, strict=True)
        ]
        self.topic = common.topic
        self.count = len(messages)
        self.nbytes = sum(bodies)
        self.largest = max(bodies)
        self.stride = self._sizes[0] if len(set(self._sizes)) == 1 else 0
        self.queue_offset = 0
        self.physical_offset = 0
        self.store_ms = 0

    def encode(self, first_id: int, timestamp_ns: int) -> tuple[Buffer, Positions | None]:
        """The stored messages back to back, and their positions when their sizes differ."""
        self.physical_offset = self._base + first_id
        self.store_ms = timestamp_ns // MILLISECOND
        frames = self._packer.pack_all(
            self._messages,
            self._common.queue,
            self.queue_offset,
            self.physical_offset,
            self._common.born_ms,
            self.store_ms,
        )
        return frames, None if self.stride else np.cumsum([0, *self._sizes], dtype=np.uint32)


def with_more(messages: Sequence[Sent], more: bytes) -> list[Sent] | None:
    """The messages with these properties added to the own ones of each; None if those of any become
    too long.
    """
    found = []
    for flag, body, text in messages:
        if not text.isascii():
            text = text.decode("utf-8", "replace").encode()
        if text and not text.endswith(_END):
            text += _END
        text += more
        if len(text) > BYTES_MAX:
            return None
        found.append((flag, body, text))
    return found
