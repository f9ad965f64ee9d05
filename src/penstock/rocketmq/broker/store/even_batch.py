"""A batch whose messages are all of one layout, as producers mostly send them: it becomes stored
messages as a table of bytes, a column at a time, with no object for each message.

One layout means that body and properties have the same sizes in every message. Any other batch is
decoded message by message. Batches of one layout in the same commit share one table, because a
column costs about as much for a hundred messages as for ten.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple, TypeAlias
from zlib import crc32

import numpy as np

from penstock.broker.publish.records import PlacedRecords
from penstock.core.units import MILLISECOND
from penstock.rocketmq.broker.store.draft import Draft
from penstock.rocketmq.protocol.ids import Host
from penstock.rocketmq.protocol.messages import message, properties
from penstock.storage.batch import Buffer, Dialect, Positions

if TYPE_CHECKING:
    import numpy.typing as npt

Table: TypeAlias = "npt.NDArray[np.uint8]"
Columns: TypeAlias = "npt.NDArray[np.intp]"

FEW: Final = 4
"""The number of messages below which they are quicker done one by one."""
PACKED_MAX: Final = 32
"""The most messages of a batch alone that are quicker packed one by one than as a table."""
TABLE_BYTES: Final = 1024 * 1024
"""A table takes no further batch when it has this many bytes, as sent."""
_HEAD = struct.Struct(">i8xii")  # size, flag and length of the body of a message in a batch
_FLAG: Final = slice(12, 16)
_BODY_AT: Final = 20
_SHORT = struct.Struct(">h")
_END: Final = properties.VALUE_END.encode()


class _Layout(NamedTuple):
    """The layout of a message as it was sent: its size, and the position of its properties."""

    width: int
    text_at: int

    @property
    def body_end(self) -> int:
        return self.text_at - _SHORT.size


_Key: TypeAlias = tuple[_Layout, int, int]
"""The layout of a batch as it was sent, and the size and place of properties as it is stored."""


class EvenBatch:
    """The messages of one batch send, as records of a topic (see ``broker.stored_records``)."""

    __slots__ = (
        "_base", "_draft", "_frames", "_store", "_text", "_topic", "count", "data", "layout",
        "nbytes", "physical_offset", "queue_offset", "store_ms", "stride", "text_at", "topic",
    )  # fmt: skip

    dialect: ClassVar[int] = Dialect.ROCKETMQ
    note: ClassVar[bytes] = b""

    def __init__(
        self, data: bytes, layout: _Layout, draft: Draft, text: bytes, store: Host, base: int
    ) -> None:
        """``data`` are the messages as sent, ``draft`` is the first of them, ``text`` its
        properties as they are stored.
        """
        self.data = data
        self.layout = layout
        self._draft = draft
        self._text = text
        self._store = store
        self._base = base
        self._topic = message.topic_part(draft.topic.encode())
        self._frames: memoryview | None = None
        self.topic = draft.topic
        self.count = len(data) // layout.width
        self.nbytes = self.count * len(draft.body)
        self.queue_offset = 0
        self.physical_offset = 0
        self.store_ms = 0
        self.stride = message.packed_size(self._topic, draft.body, text, draft.born_host, store)
        self.text_at = self.stride - len(text)  # which an address of IPv6 moves

    def encode(self, first_id: int, timestamp_ns: int) -> tuple[Buffer, Positions | None]:
        """The stored messages back to back."""
        if self._frames is None:
            encode_together(((self, first_id),), timestamp_ns)
            assert self._frames is not None
        return self._frames, None

    def first(self, first_id: int, timestamp_ns: int) -> bytes:
        """The first message as it is stored."""
        self.physical_offset = self._base + first_id
        self.store_ms = timestamp_ns // MILLISECOND
        draft = self._draft
        return message.pack(
            self._topic, draft.body, self._text, draft.queue, self.queue_offset,
            self.physical_offset, draft.born_host, draft.born_ms, self._store, self.store_ms,
            draft.flag, draft.sys_flag, draft.reconsume_times, 0,
        )  # fmt: skip

    def pack(self, first_id: int, timestamp_ns: int) -> None:
        """Encode it message by message."""
        self.physical_offset = self._base + first_id
        self.store_ms = timestamp_ns // MILLISECOND
        draft, layout = self._draft, self.layout
        size, sent_size = len(draft.body), layout.width - layout.text_at
        more = self._text[sent_size:]
        sent = struct.iter_unpack(f">{_FLAG.start}xi4x{size}s2x{sent_size}s", self.data)
        packer = message.Packer(
            draft.topic, draft.born_host, self._store, 0, draft.sys_flag, draft.reconsume_times
        )
        frames = packer.pack_all(
            [(flag, body, text + more) for flag, body, text in sent],
            draft.queue,
            self.queue_offset,
            self.physical_offset,
            draft.born_ms,
            self.store_ms,
        )
        self._frames = memoryview(frames)

    def take(self, frames: memoryview) -> None:
        """Stored messages, which begin with this batch's own."""
        self._frames = frames[: self.count * self.stride]


def encode_together(placed: Iterable[tuple[PlacedRecords, int]], timestamp_ns: int) -> None:
    """Encode the even batches among these records, each with the id of its first message, in as few
    tables as their layouts allow.
    """
    tables: dict[_Key, list[tuple[EvenBatch, int]]] = {}
    room: dict[_Key, int] = {}
    for records, first_id in placed:
        if type(records) is not EvenBatch:
            continue
        key = (records.layout, records.stride, records.text_at)
        left = room.get(key, 0)
        if left <= 0:
            _fill(tables.pop(key, ()), timestamp_ns)
            left = TABLE_BYTES
        tables.setdefault(key, []).append((records, first_id))
        room[key] = left - len(records.data)
    for table in tables.values():
        _fill(table, timestamp_ns)


def _fill(placed: Sequence[tuple[EvenBatch, int]], timestamp_ns: int) -> None:
    """Encode even batches of one layout."""
    if len(placed) == 1 and placed[0][0].count <= PACKED_MAX:
        placed[0][0].pack(placed[0][1], timestamp_ns)
        return
    if not placed:
        return
    width, text_at = layout = placed[0][0].layout
    firsts = [batch.first(first_id, timestamp_ns) for batch, first_id in placed]
    counts = [batch.count for batch, _ in placed]
    table = np.frombuffer(b"".join(firsts), np.uint8).reshape(len(placed), -1)
    # Each row begins as its batch's first message, and what differs is then written over.
    table = table.repeat(counts, axis=0)
    sent = b"".join([batch.data for batch, _ in placed])
    rows = np.frombuffer(sent, np.uint8).reshape(-1, width)
    size = layout.body_end - _BODY_AT
    body, text = message.parts_at(firsts[0])
    table[:, body : body + size] = rows[:, _BODY_AT : _BODY_AT + size]
    table[:, text : text + width - text_at] = rows[:, text_at:]
    table[:, message.FLAG_AT : message.FLAG_AT + 4] = rows[:, _FLAG]
    table[:, message.CRC_AT : message.CRC_AT + 4] = _checksums(sent, size, width)
    table[:, message.OFFSETS] = _offsets([batch for batch, _ in placed], counts)
    frames = table.reshape(-1).data
    place = 0
    for batch, _ in placed:
        batch.take(frames[place:])
        place += batch.count * batch.stride


def _checksums(sent: bytes, size: int, width: int) -> Table:
    """The checksums of the bodies."""
    bodies = struct.iter_unpack(f"{_BODY_AT}x{size}s{width - size - _BODY_AT}x", sent)
    sums = [crc32(body) & message.CRC_MASK for (body,) in bodies]
    packed = struct.pack(f">{len(sums)}I", *sums)
    return np.frombuffer(packed, np.uint8).reshape(-1, 4)


def _offsets(batches: Sequence[EvenBatch], counts: Sequence[int]) -> Table:
    """Queue offset and physical offset of each message, of 8 bytes each."""
    starts = []
    row = 0
    for batch in batches:
        starts.append((batch.queue_offset - row, batch.physical_offset - row))
        row += batch.count
    numbers = np.array(starts, ">i8").repeat(counts, axis=0)
    numbers += np.arange(row)[:, None]
    return numbers.view(np.uint8)


def even_batch(
    data: bytes, common: Draft, appended: bytes, store: Host, base: int
) -> EvenBatch | None:
    """The records of a batch body; None if its messages are few, not of one layout, or too long.

    ``common`` holds the fields that all messages share; ``appended`` is added to the properties of
    each message.
    """
    if len(data) < _BODY_AT + _SHORT.size:
        return None
    width, flag, body_size = _HEAD.unpack_from(data)
    text_at = _BODY_AT + body_size + _SHORT.size
    # A batch of messages of one size: what does not come out even is read one by one.
    if body_size < 0 or not text_at <= width <= len(data) // FEW or len(data) % width:
        return None
    first = data[:width]
    if _SHORT.unpack_from(first, text_at - _SHORT.size)[0] != width - text_at:
        return None
    layout, columns = _layout(width, text_at)
    rows = np.frombuffer(data, np.uint8).reshape(-1, width)
    fixed = rows.take(columns, axis=1).tobytes()
    # All rows at once; these columns decide whether the bytes between mean the same in each.
    if fixed != fixed[: len(columns)] * len(rows):
        return None
    text = first[text_at:]
    if text and not text.endswith(_END):
        text += _END
    text += appended
    if len(text) > properties.BYTES_MAX:
        return None
    common.body, common.flag = first[_BODY_AT : _BODY_AT + body_size], flag
    return EvenBatch(data, layout, common, text, store, base)


@lru_cache(maxsize=1024)
def _layout(width: int, text_at: int) -> tuple[_Layout, Columns]:
    """A layout, and the columns that are equal in all its messages: lengths, and the last byte."""
    columns = [*range(4), *range(16, 20), text_at - 2, text_at - 1, width - 1]
    return _Layout(width, text_at), np.array(columns, np.intp)
