"""A batch whose messages are all of one layout, as producers mostly send them: it becomes stored
messages as a table of bytes, a column at a time, with no object for each message.

One layout means that body and properties have the same sizes in every message and that what the
broker takes out of the properties stands at the same place. Any other batch is decoded message by
message.
"""

from __future__ import annotations

import struct
from typing import ClassVar, Final
from zlib import crc32

import numpy as np
import numpy.typing as npt

from penstock.core.units import MILLISECOND
from penstock.rocketmq.broker.draft import Draft
from penstock.rocketmq.protocol import message, properties
from penstock.rocketmq.protocol.ids import Host
from penstock.storage.batch import Buffer, Dialect, Positions

Table = npt.NDArray[np.uint8]

FEW: Final = 4
"""So few messages are quicker done one by one."""
_HEAD = struct.Struct(">i8xii")  # size, flag and length of the body of a message in a batch
_FLAG: Final = slice(12, 16)
_BODY_AT: Final = 20
_SHORT = struct.Struct(">h")
_WAIT: Final = f"{properties.WAIT}{properties.NAME_END}".encode()
_END: Final = properties.VALUE_END.encode()


class EvenBatch:
    """The messages of one batch send, as records of a topic (see ``broker.stored_records``)."""

    __slots__ = (
        "_base", "_cut", "_draft", "_rows", "_store", "_text", "_topic", "count", "nbytes",
        "physical_offset", "queue_offset", "store_ms", "stride", "topic",
    )  # fmt: skip

    dialect: ClassVar[int] = Dialect.ROCKETMQ
    note: ClassVar[bytes] = b""

    def __init__(
        self, rows: Table, draft: Draft, cut: slice, text: bytes, store: Host, base: int
    ) -> None:
        """``rows`` are the messages as sent, ``draft`` is the first of them, ``cut`` are the
        columns to leave out, ``text`` the properties of the first one as they are stored.
        """
        self._rows = rows
        self._draft = draft
        self._cut = cut
        self._text = text
        self._store = store
        self._base = base
        self.topic = draft.topic
        self.count = len(rows)
        self.nbytes = self.count * len(draft.body)
        self.queue_offset = 0
        self.physical_offset = 0
        self.store_ms = 0
        self._topic = message.topic_part(draft.topic.encode())
        self.stride = message.packed_size(self._topic, draft.body, text, draft.born_host, store)

    def encode(self, first_id: int, timestamp_ns: int) -> tuple[Buffer, Positions | None]:
        """The stored messages back to back."""
        self.physical_offset = self._base + first_id
        self.store_ms = timestamp_ns // MILLISECOND
        first = self._first()
        rows, size = self._rows, len(self._draft.body)
        table = np.empty((self.count, self.stride), np.uint8)
        table[:] = np.frombuffer(first, np.uint8)
        body_at, text_at = message.parts_at(first)
        table[:, body_at : body_at + size] = rows[:, _BODY_AT : _BODY_AT + size]
        for kept in (rows[:, _BODY_AT + size + _SHORT.size : self._cut.start],
                     rows[:, self._cut.stop :]):  # fmt: skip
            table[:, text_at : text_at + kept.shape[1]] = kept
            text_at += kept.shape[1]
        table[:, message.FLAG_AT : message.FLAG_AT + 4] = rows[:, _FLAG]
        table[:, message.CRC_AT : message.CRC_AT + 4] = self._checksums()
        _count_up(table, message.QUEUE_OFFSET_AT, self.queue_offset)
        _count_up(table, message.PHYSICAL_OFFSET_AT, self.physical_offset)
        return table.reshape(-1).data, None

    def _first(self) -> bytes:
        """The first message as it is stored."""
        draft = self._draft
        return message.pack(
            self._topic, draft.body, self._text, draft.queue, self.queue_offset,
            self.physical_offset, draft.born_host, draft.born_ms, self._store, self.store_ms,
            draft.flag, draft.sys_flag, draft.reconsume_times, 0,
        )  # fmt: skip

    def _checksums(self) -> Table:
        size, width = len(self._draft.body), self._rows.shape[1]
        data = self._rows.reshape(-1).data
        starts = range(_BODY_AT, len(data), width)
        found = np.array([crc32(data[start : start + size]) for start in starts], ">u4")
        columns = found.view(np.uint8).reshape(-1, 4)
        columns[:, 0] &= 0x7F  # as in message.body_crc
        return columns


def _count_up(table: Table, place: int, start: int) -> None:
    """Write consecutive numbers of 8 bytes into the rows."""
    numbers = np.arange(start, start + len(table), dtype=">i8")
    table[:, place : place + 8] = numbers.view(np.uint8).reshape(-1, 8)


def even_batch(
    data: bytes, common: Draft, appended: bytes, store: Host, base: int
) -> EvenBatch | None:
    """The records of a batch body; None when its messages are not of one layout, or few.

    ``common`` is what the messages have in common; ``appended`` is put behind the properties of
    each, and WAIT, which is for the broker only, is taken out of them.
    """
    if len(data) < _BODY_AT + _SHORT.size:
        return None
    width, flag, body_size = _HEAD.unpack_from(data)
    text_at = _BODY_AT + body_size + _SHORT.size
    if body_size < 0 or not text_at <= width <= len(data) // FEW or len(data) % width:
        return None
    first = data[:width]
    if _SHORT.unpack_from(first, text_at - _SHORT.size)[0] != width - text_at:
        return None
    cut = _wait(first, text_at)
    if cut.start == cut.stop and _WAIT in data:
        return None
    rows = np.frombuffer(data, np.uint8).reshape(-1, width)
    differs = (rows != rows[0]).any(axis=0).tobytes()  # of each column, whether messages do
    layout = (slice(4), slice(16, 20), slice(text_at - 2, text_at))
    borders = (cut, slice(max(text_at, cut.start - 1), cut.start), slice(width - 1, width))
    if any(1 in differs[columns] for columns in (*layout, *borders)):
        return None
    text = first[text_at : cut.start] + first[cut.stop :]
    if text and not text.endswith(_END):
        text += _END
    common.body, common.flag = first[_BODY_AT : _BODY_AT + body_size], flag
    return EvenBatch(rows, common, cut, text + appended, store, base)


def _wait(first: bytes, text_at: int) -> slice:
    """Where a message has the property WAIT, with the end of its value; nothing at its end."""
    start = text_at if first.startswith(_WAIT, text_at) else first.find(_END + _WAIT, text_at) + 1
    if not start:
        return slice(len(first), len(first))
    end = first.find(_END, start)
    return slice(start, len(first) if end < 0 else end + 1)
