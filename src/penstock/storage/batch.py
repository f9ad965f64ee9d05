"""The batch: the unit in which the log is written, read, checked and sent.

A batch is a 64-byte header, an offset table unless all frames have one size, and the frames back to
back exactly as a consumer of the writer's dialect receives them. It is the same in the file, in
memory and in the answer of ``/log/fetch``, so a message is encoded once, when it is published.

Little endian::

    0   4s   magic           b"PSB1"
    4   u32  length          of the whole batch, this header included
    8   u64  checksum        xxh3_64 of bytes[16:length]
    16  u64  first_offset    offsets are dense in a queue and start at 0
    24  u64  first_id        id of the first message; the i-th has first_id + i
    32  i64  timestamp_ns    wall clock of the publish
    40  i64  delay_ns        deferral asked for at publish, 0 = none
    48  u32  count           messages, at least 1
    52  u32  stride          bytes of every frame, 0 = sizes differ and a table follows
    56  u8   dialect         0 NSQ, 1 RocketMQ
    57  u8   version         1
    58  u16  attributes      bit 0: a note follows the frames; such a batch has a table;
                             bit 1: the next batch belongs to the same commit, bit 2: the one before
    60  u32  queue           which of the topic's queues it belongs to
    64  u32 * (count + 1)    frame positions from the first frame, the last is their total (stride
    0)
        frames
        note                 what the broker adds about its messages; no consumer receives it
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from penstock.storage.compiled import Struct, xxh3_64_intdigest

if TYPE_CHECKING:
    import numpy.typing as npt

Buffer: TypeAlias = bytes | bytearray | memoryview
Positions: TypeAlias = "npt.NDArray[np.uint32]"

MAGIC: Final = b"PSB1"
HEADER_BYTES: Final = 64
DIALECT_AT: Final = 56
_ATTRIBUTES_AT: Final = 58
# A longer one is a damaged header: a scan does not wait for the bytes that it promises.
BATCH_BYTES_MAX: Final = 1 << 30
OFFSET_MAX: Final = (1 << 63) - 1
"""The largest offset or id that files and indexes can hold."""
_VERSION: Final = 1
_HAS_NOTE: Final = 1
_GOES_ON: Final = 2
_WENT_BEFORE: Final = 4
_HEADER = struct.Struct("<4sIQQQqqIIBBHI")
_unpack_header = _HEADER.unpack_from
_PREFIX = struct.Struct("<4sIQ")
_CHECKED = struct.Struct("<QQqqIIBBHI")
_CHECKED_FROM: Final = _PREFIX.size
_NO_PREFIX: Final = bytes(_PREFIX.size)
assert _HEADER.size == HEADER_BYTES == _PREFIX.size + _CHECKED.size


class Dialect(IntEnum):
    """The protocol whose frames a batch holds."""

    NSQ = 0
    ROCKETMQ = 1


class CorruptBatchError(Exception):
    """The bytes at this place are not a whole, undamaged batch."""


class TruncatedBatchError(CorruptBatchError):
    """The buffer ends before the batch does."""


# Not tracked by the garbage collector: it refers to buffers only, so it is part of no cycle.
class Batch(Struct, eq=False, gc=False):
    """One batch over a buffer that it keeps alive; nothing is copied.

    ``frames`` are the frames back to back, ``raw`` is the batch as stored, ``note`` what stands
    behind the frames, mostly nothing. Offsets given to its methods are log offsets, not places in
    the batch.
    """

    raw: memoryview
    frames: memoryview
    first_offset: int
    next_offset: int
    first_id: int
    timestamp_ns: int
    delay_ns: int
    count: int
    stride: int
    table: Positions | None
    dialect: int
    note: Buffer = b""
    queue: int = 0

    @classmethod
    def parse(cls, buffer: Buffer, position: int = 0, verify: bool = True) -> Batch:
        """The batch that starts at ``position``.

        Raises TruncatedBatchError when the buffer ends too early and CorruptBatchError when the
        bytes are not a batch or, with ``verify``, do not match their checksum.
        """
        left = len(buffer) - position
        if left < HEADER_BYTES:
            raise TruncatedBatchError(f"{left} bytes left, a batch header has {HEADER_BYTES}")
        (magic, length, checksum, first_offset, first_id, timestamp_ns, delay_ns, count, stride,
         dialect, version, attributes, queue) = _unpack_header(buffer, position)  # fmt: skip
        # Before the length is believed: other bytes must not pass for a batch that is cut.
        check_header(magic, length, count, stride, version)
        if first_offset > OFFSET_MAX - count or first_id > OFFSET_MAX - count:
            raise CorruptBatchError(f"batch at an impossible offset, {first_offset}")
        if length > left:
            raise TruncatedBatchError(f"batch of {length} bytes, {left} are left")
        view = buffer if type(buffer) is memoryview else memoryview(buffer)
        raw = view[position : position + length]
        if verify and xxh3_64_intdigest(raw[_CHECKED_FROM:]) != checksum:
            raise CorruptBatchError(f"checksum of the batch at offset {first_offset} is wrong")
        table: Positions | None = None
        note: Buffer = b""
        if stride:
            frames = raw[HEADER_BYTES:]
        else:
            frames = raw[HEADER_BYTES + 4 * (count + 1) :]
            table = np.frombuffer(raw, np.uint32, count + 1, HEADER_BYTES)
            if attributes & _HAS_NOTE:
                end = int(table[-1])
                frames, note = frames[:end], frames[end:]
        return cls(raw, frames, first_offset, first_offset + count, first_id, timestamp_ns,
                   delay_ns, count, stride, table, dialect, note, queue)  # fmt: skip

    def verify(self) -> None:
        """Raise CorruptBatchError unless the bytes match their checksum."""
        if xxh3_64_intdigest(self.raw[_CHECKED_FROM:]) != _PREFIX.unpack_from(self.raw)[2]:
            raise CorruptBatchError(f"checksum of the batch at offset {self.first_offset} is wrong")

    @classmethod
    def build(
        cls,
        first_offset: int,
        first_id: int,
        timestamp_ns: int,
        count: int,
        stride: int,
        frames: Sequence[Buffer],
        *,
        table: Positions | None = None,
        delay_ns: int = 0,
        dialect: int = Dialect.NSQ,
        note: bytes = b"",
        queue: int = 0,
        goes_on: bool = False,
        went_before: bool = False,
    ) -> Batch:
        """A new batch of ``count`` messages whose frames are given in one or more pieces.

        ``table`` holds ``count + 1`` positions and is needed when ``stride`` is 0, which it must be
        for a batch with a ``note``.
        """
        assert count > 0
        assert (table is None) == bool(stride)
        assert table is not None or not note
        attributes = (
            (_HAS_NOTE if note else 0)
            | (_GOES_ON if goes_on else 0)
            | (_WENT_BEFORE if went_before else 0)
        )
        checked = _CHECKED.pack(first_offset, first_id, timestamp_ns, delay_ns, count, stride,
                                dialect, _VERSION, attributes, queue)  # fmt: skip
        head = (_NO_PREFIX, checked) if table is None else (_NO_PREFIX, checked, table.tobytes())
        raw = memoryview(bytearray().join((*head, *frames, note)))  # copied once: frames are large
        _PREFIX.pack_into(raw, 0, MAGIC, len(raw), xxh3_64_intdigest(raw[_CHECKED_FROM:]))
        start = HEADER_BYTES if table is None else HEADER_BYTES + 4 * (count + 1)
        return cls(raw, raw[start : len(raw) - len(note)], first_offset, first_offset + count,
                   first_id, timestamp_ns, delay_ns, count, stride, table, dialect,
                   note, queue)  # fmt: skip

    @classmethod
    def of_one(
        cls,
        offset: int,
        first_id: int,
        timestamp_ns: int,
        frame: Buffer,
        dialect: int = Dialect.NSQ,
        queue: int = 0,
    ) -> Batch:
        """A new batch of one frame: ``build`` without its choices, in half the time."""
        stride = len(frame)
        checked = (
            _CHECKED.pack(offset, first_id, timestamp_ns, 0, 1, stride, dialect, _VERSION, 0, queue)
            + frame
        )
        prefix = _PREFIX.pack(MAGIC, HEADER_BYTES + stride, xxh3_64_intdigest(checked))
        raw = memoryview(prefix + checked)
        return cls(raw, raw[HEADER_BYTES:], offset, offset + 1, first_id, timestamp_ns, 0, 1,
                   stride, None, dialect, b"", queue)  # fmt: skip

    def moved(
        self,
        first_offset: int,
        first_id: int,
        timestamp_ns: int,
        queue: int,
        *,
        goes_on: bool = False,
        went_before: bool = False,
    ) -> Batch:
        """The batch at another place of a log; its buffer, which must be writable, is changed.

        The frames stay as they are: the caller writes the ids into them before.
        """
        attributes = (
            (self.raw[_ATTRIBUTES_AT] & _HAS_NOTE)
            | (_GOES_ON if goes_on else 0)
            | (_WENT_BEFORE if went_before else 0)
        )
        raw = self.raw
        _CHECKED.pack_into(raw, _CHECKED_FROM, first_offset, first_id, timestamp_ns, self.delay_ns,
                           self.count, self.stride, self.dialect, _VERSION, attributes,
                           queue)  # fmt: skip
        _PREFIX.pack_into(raw, 0, MAGIC, len(raw), xxh3_64_intdigest(raw[_CHECKED_FROM:]))
        return Batch(raw, self.frames, first_offset, first_offset + self.count, first_id,
                     timestamp_ns, self.delay_ns, self.count, self.stride, self.table, self.dialect,
                     self.note, queue)  # fmt: skip

    def head(self) -> Batch:
        """A copy without the frames, for callers that ask for its place and size only."""
        raw = memoryview(bytes(self.raw[:HEADER_BYTES]))
        return Batch(raw, raw[HEADER_BYTES:], self.first_offset, self.next_offset, self.first_id,
                     self.timestamp_ns, self.delay_ns, self.count, self.stride, None, self.dialect,
                     b"", self.queue)  # fmt: skip

    @property
    def is_head(self) -> bool:
        """True if the frames are left out."""
        return len(self.raw) == HEADER_BYTES

    @property
    def nbytes(self) -> int:
        """Bytes of the whole batch as stored, whether all of it is here or its head."""
        return int(_PREFIX.unpack_from(self.raw)[1])

    @property
    def checksum(self) -> int:
        """The checksum that the header states."""
        return int(_PREFIX.unpack_from(self.raw)[2])

    @property
    def is_part(self) -> bool:
        """True if it belongs to a commit of several batches."""
        return bool(self.raw[_ATTRIBUTES_AT] & (_GOES_ON | _WENT_BEFORE))

    @property
    def goes_on(self) -> bool:
        """True if the next batch belongs to the same commit: a crash leaves both or neither."""
        return bool(self.raw[_ATTRIBUTES_AT] & _GOES_ON)

    @property
    def went_before(self) -> bool:
        """True if the batch before belongs to the same commit."""
        return bool(self.raw[_ATTRIBUTES_AT] & _WENT_BEFORE)

    def position(self, offset: int) -> int:
        """The position in ``frames`` of the message at this log offset."""
        index = offset - self.first_offset
        assert 0 <= index <= self.count, f"offset {offset} is outside of the batch"
        return index * self.stride if self.table is None else int(self.table[index])

    def slice(self, first: int, last: int) -> memoryview:
        """The frames of log offsets ``first`` (included) to ``last`` (not included)."""
        if self.table is None:
            start = first - self.first_offset
            assert 0 <= start < last - self.first_offset <= self.count
            return self.frames[start * self.stride : (last - self.first_offset) * self.stride]
        return self.frames[self.position(first) : self.position(last)]

    def positions(self) -> npt.NDArray[np.int64]:
        """Start of every frame in ``frames`` and, last, their total: ``count + 1`` numbers."""
        if self.table is None:
            return np.arange(self.count + 1, dtype=np.int64) * self.stride
        return self.table.astype(np.int64)


def check_header(magic: bytes, length: int, count: int, stride: int, version: int) -> None:
    """Raise CorruptBatchError unless these header fields can belong together."""
    if magic != MAGIC:
        raise CorruptBatchError("no batch starts here")
    if version != _VERSION:
        raise CorruptBatchError(f"batch of unknown version {version}")
    if count < 1 or length > BATCH_BYTES_MAX:
        raise CorruptBatchError(f"batch with {count} messages in {length} bytes")
    payload = count * stride if stride else 4 * (count + 1)
    if length < HEADER_BYTES + payload or (stride and length != HEADER_BYTES + payload):
        raise CorruptBatchError(f"batch of {length} bytes is too short for {count} messages")


def iter_batches(buffer: Buffer, verify: bool = True) -> Iterator[Batch]:
    """The whole batches of a buffer, one behind the other; a cut last one is left out."""
    view = memoryview(buffer)
    position = 0
    while position < len(view):
        try:
            batch = Batch.parse(view, position, verify)
        except TruncatedBatchError:
            return
        yield batch
        position += len(batch.raw)
