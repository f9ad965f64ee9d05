"""Drafts as records of a topic: their frames are the stored messages that consumers pull.

A stored message tells its queue offset, its physical offset and when it was stored, so it is built
when it is appended, not before (RocketMQ spec 3.1).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import ClassVar

import numpy as np

from penstock.core.errors import StorageError
from penstock.core.units import MILLISECOND
from penstock.rocketmq.broker.store.draft import Draft
from penstock.rocketmq.protocol.ids import Host
from penstock.rocketmq.protocol.messages.message import pack, packed_size, topic_part
from penstock.rocketmq.protocol.messages.properties import BYTES_MAX
from penstock.storage.batch import Buffer, Dialect, Positions


class StoredRecord:
    """One message, as most sends bring it: ``StoredRecords`` of a single one, in half the time."""

    __slots__ = ("_base", "_draft", "_store", "_text", "_topic", "nbytes", "physical_offset",
                 "queue_offset", "store_ms", "stride")  # fmt: skip

    dialect: ClassVar[int] = Dialect.ROCKETMQ
    note: ClassVar[bytes] = b""
    count: ClassVar[int] = 1

    def __init__(self, draft: Draft, store: Host, base: int) -> None:
        """Encode the properties. Raises StorageError if they are too long."""
        self._draft = draft
        self._store = store
        self._base = base
        self._topic = _topic_part(draft.topic)
        self._text = text = _text_of(draft)
        self.nbytes = len(draft.body)
        self.stride = packed_size(self._topic, draft.body, text, draft.born_host, store)
        self.queue_offset = 0
        self.physical_offset = 0
        self.store_ms = 0

    @property
    def topic(self) -> str:
        return self._draft.topic

    def encode(self, first_id: int, timestamp_ns: int) -> tuple[Buffer, Positions | None]:
        """The stored message."""
        draft = self._draft
        self.physical_offset = self._base + first_id
        self.store_ms = timestamp_ns // MILLISECOND
        frame = pack(
            self._topic, draft.body, self._text, draft.queue, self.queue_offset,
            self.physical_offset, draft.born_host, draft.born_ms, self._store, self.store_ms,
            draft.flag, draft.sys_flag, draft.reconsume_times, draft.prepared_offset,
        )  # fmt: skip
        return frame, None


class StoredRecords:
    """Messages for one queue of one topic. After ``encode`` the places they got can be asked.

    ``base`` is what the id of a message lacks to its physical offset; see ``store.serials``.
    """

    __slots__ = ("_base", "_drafts", "_store", "_texts", "_topic", "count", "nbytes",
                 "physical_offset", "queue_offset", "store_ms", "stride")  # fmt: skip

    dialect: ClassVar[int] = Dialect.ROCKETMQ
    note: ClassVar[bytes] = b""

    def __init__(self, drafts: Sequence[Draft], store: Host, base: int) -> None:
        """All drafts are of one topic and queue. Raises StorageError for too long properties."""
        self._drafts = drafts
        self._store = store
        self._base = base
        self._topic = _topic_part(drafts[0].topic)
        self._texts: list[bytes] = []
        self.count = len(drafts)
        self.nbytes = 0
        self.stride = 0
        self.queue_offset = 0
        self.physical_offset = 0
        self.store_ms = 0
        sizes = set()
        for draft in drafts:
            text = _text_of(draft)
            self._texts.append(text)
            self.nbytes += len(draft.body)
            sizes.add(packed_size(self._topic, draft.body, text, draft.born_host, store))
        if len(sizes) == 1:
            (self.stride,) = sizes

    @property
    def topic(self) -> str:
        return self._drafts[0].topic

    def encode(self, first_id: int, timestamp_ns: int) -> tuple[Buffer, Positions | None]:
        """The stored messages back to back, and their positions when their sizes differ."""
        self.physical_offset = self._base + first_id
        self.store_ms = timestamp_ns // MILLISECOND
        frames = self._frames()
        if self.stride:
            return frames[0] if self.count == 1 else b"".join(frames), None
        return b"".join(frames), np.cumsum([0, *map(len, frames)], dtype=np.uint32)

    def _frames(self) -> list[bytes]:
        topic, store, store_ms = self._topic, self._store, self.store_ms
        queue_offset, physical_offset = self.queue_offset, self.physical_offset
        frames = []
        for draft, text in zip(self._drafts, self._texts, strict=True):
            frames.append(
                pack(topic, draft.body, text, draft.queue, queue_offset, physical_offset,
                     draft.born_host, draft.born_ms, store, store_ms, draft.flag, draft.sys_flag,
                     draft.reconsume_times, draft.prepared_offset)
            )  # fmt: skip
            queue_offset += 1
            physical_offset += 1
        return frames


def _text_of(draft: Draft) -> bytes:
    text = draft.properties.encode("utf-8", "replace")
    if len(text) > BYTES_MAX:
        raise StorageError(f"properties of more than {BYTES_MAX} bytes")
    return text


@lru_cache(maxsize=1024)
def _topic_part(topic: str) -> bytes:
    return topic_part(topic.encode())
