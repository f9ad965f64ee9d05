"""The records in a data file of Go's nsqd, and the message frames made of them.

A record is a 32-bit length and a message as in the wire frame: time stamp (8), attempts (2), id
(16), body (NSQ spec 3.6). Records are kept as places in the buffer they were read into;
numpy looks at whole columns of them, so that a small message costs well below a microsecond.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from penstock.nsq.protocol.bodies import head, hex_ids
from penstock.nsq.protocol.frames import BODY_AT, MESSAGE
from penstock.storage.batch import Batch

if TYPE_CHECKING:
    import numpy.typing as npt

MESSAGE_MIN: Final = 26
"""Bytes of a record's message without its body: time stamp, attempts and id."""
LENGTH_BYTES: Final = 4
BATCH_BYTES_MAX: Final = 1024 * 1024

_TIMESTAMP_AT: Final = LENGTH_BYTES
_ATTEMPTS_AT: Final = 12
_ID_AT: Final = 14
_BODY_AT: Final = 30
_MORE_THAN_BODY: Final = BODY_AT - _BODY_AT  # a frame has a type as well
_HEX: Final = frozenset(b"0123456789abcdef")

_length = struct.Struct(">i")

Places: TypeAlias = "npt.NDArray[np.int64]"


@dataclass(slots=True)
class Records:
    """Whole records of one buffer: where they start, and their sizes with the length before."""

    buffer: bytes
    starts: Places
    sizes: Places

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def nbytes(self) -> int:
        return int(self.sizes.sum())

    def take(self, chosen: slice | npt.NDArray[np.bool_] | Places) -> Records:
        """Some of them, in the same buffer."""
        return Records(self.buffer, self.starts[chosen], self.sizes[chosen])

    def timestamps(self) -> npt.NDArray[np.int64]:
        """Publish times in ns."""
        return self._column(_TIMESTAMP_AT, ">i8")

    def attempts(self) -> npt.NDArray[np.int64]:
        """The number of deliveries of each message."""
        return self._column(_ATTEMPTS_AT, ">u2")

    def _column(self, at: int, kind: str) -> npt.NDArray[np.int64]:
        width = np.dtype(kind).itemsize
        places = self.starts[:, None] + np.arange(at, at + width)
        column = np.frombuffer(self.buffer, np.uint8)[places].view(kind)[:, 0]
        return np.asarray(column, np.int64)

    def identities(self) -> list[bytes]:
        """All of each record but its attempts: equal in every queue that holds the message."""
        buffer = self.buffer
        return [
            buffer[start:attempts] + buffer[attempts + 2 : end]
            for start, attempts, end in zip(
                self.starts.tolist(),
                (self.starts + _ATTEMPTS_AT).tolist(),
                (self.starts + self.sizes).tolist(),
                strict=True,
            )
        ]

    def span(self) -> memoryview:
        """The buffer from the first record to the end of the last."""
        return memoryview(self.buffer)[int(self.starts[0]) : int(self.starts[-1] + self.sizes[-1])]


@dataclass(slots=True)
class Cut:
    """The result of ``cut``: whole records, where they end, and the invalid length, if any."""

    records: Records
    end: int
    bad_length: int | None = None


def cut(buffer: bytes, message_max: int) -> Cut:
    """The whole records at the start of a buffer.

    ``message_max`` is the most bytes of a record's message, its length not counted. Go's nsqd
    takes a length outside of 26 and that for the mark of a damaged file, and so do we.
    """
    equal = _cut_equal(buffer, message_max)
    if equal is not None:
        return equal
    unpack, nbytes = _length.unpack_from, len(buffer)
    starts: list[int] = []
    position, bad = 0, None
    while position + LENGTH_BYTES <= nbytes:
        (length,) = unpack(buffer, position)
        if not MESSAGE_MIN <= length <= message_max:
            bad = length
            break
        end = position + LENGTH_BYTES + length
        if end > nbytes:
            break
        starts.append(position)
        position = end
    places = np.array([*starts, position], np.int64)
    return Cut(Records(buffer, places[:-1], np.diff(places)), position, bad)


def _cut_equal(buffer: bytes, message_max: int) -> Cut | None:
    """The whole records of a buffer if all have one size; None when they do not."""
    if len(buffer) < LENGTH_BYTES:
        return None
    (length,) = _length.unpack_from(buffer)
    size = LENGTH_BYTES + length
    count = len(buffer) // size if MESSAGE_MIN <= length <= message_max else 0
    rest = len(buffer) - count * size
    if not count:
        return None
    # A last record that is cut off must have this size as well.
    lengths = np.ndarray(count + (rest >= LENGTH_BYTES), ">i4", buffer, 0, (size,))
    if not bool((lengths == length).all()):
        return None
    starts = np.arange(count, dtype=np.int64) * size
    return Cut(Records(buffer, starts, np.full(count, size, np.int64)), count * size)


def looks_whole(buffer: bytes, position: int, length: int) -> bool:
    """True if a record that is too large by its length is one all the same, judging by its id."""
    identifier = buffer[position + _ID_AT : position + _BODY_AT]
    return length >= MESSAGE_MIN and len(identifier) == 16 and _HEX.issuperset(identifier)


def batches(records: Records, first_offset: int, id_base: int, now_ns: int) -> list[Batch]:
    """The records as batches of about 1 MiB, the first at ``first_offset``.

    Each message keeps its time stamp and gets attempts 1 and the id of its offset. A batch has the
    time of its newest message, but none in the future, which would keep it for ever.
    """
    made = []
    for part in _parts(records):
        newest = max(0, min(int(part.timestamps().max()), now_ns))
        first_id = id_base + first_offset
        size = int(part.sizes[0])
        equal = bool((part.sizes == size).all())
        frames = _equal_frames(part, size, first_id) if equal else _mixed_frames(part, first_id)
        table = None
        if not equal:
            table = np.zeros(len(part) + 1, np.uint32)
            np.cumsum(part.sizes + _MORE_THAN_BODY, out=table[1:])
        stride = size + _MORE_THAN_BODY if equal else 0
        made.append(
            Batch.build(first_offset, first_id, newest, len(part), stride, [frames], table=table)
        )
        first_offset += len(part)
    return made


def _parts(records: Records) -> list[Records]:
    """Cut into runs of at most the size of a batch, or of one record."""
    ends = np.cumsum(records.sizes)
    borders = [0]
    while borders[-1] < len(records):
        done = int(ends[borders[-1] - 1]) if borders[-1] else 0
        end = int(np.searchsorted(ends, done + BATCH_BYTES_MAX, "right"))
        borders.append(max(end, borders[-1] + 1))
    return [records.take(slice(first, next_)) for first, next_ in pairwise(borders)]


def _equal_frames(records: Records, size: int, first_id: int) -> memoryview:
    count, body = len(records), size - _BODY_AT
    whole: memoryview | bytes = records.span()
    if len(whole) != count * size:
        buffer = records.buffer
        whole = b"".join([buffer[start : start + size] for start in records.starts.tolist()])
    source = np.frombuffer(whole, np.uint8).reshape(count, size)
    frames = np.empty((count, size + _MORE_THAN_BODY), np.uint8)
    frames[:, : head().itemsize] = _heads(records, first_id).view(np.uint8).reshape(count, -1)
    if body:
        frames[:, BODY_AT:] = source[:, _BODY_AT:]
    return frames.reshape(-1).data


def _mixed_frames(records: Records, first_id: int) -> bytes:
    # As "S" numpy drops trailing zero bytes; a head ends with hex digits, so it loses nothing.
    parts: list[bytes] = [b""] * (2 * len(records))
    parts[0::2] = _heads(records, first_id).view(f"S{BODY_AT}").tolist()
    buffer = records.buffer
    bodies = (records.starts + _BODY_AT).tolist()
    ends = (records.starts + records.sizes).tolist()
    parts[1::2] = [buffer[body:end] for body, end in zip(bodies, ends, strict=True)]
    return b"".join(parts)


def _heads(records: Records, first_id: int) -> npt.NDArray[np.void]:
    heads = np.empty(len(records), head())
    heads["size"] = records.sizes  # less the length of a record, more the type of a frame
    heads["type"] = MESSAGE
    heads["timestamp"] = records.timestamps()
    heads["attempts"] = 1
    heads["id"] = np.frombuffer(hex_ids(first_id, len(records)), "V16")
    return heads
