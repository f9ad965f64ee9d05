"""The frames of a journal: records that can be recognised anywhere, each naming its queue.

A frame, little endian::

    0   4s   magic           b"PSJ1"
    4   u32  length          of the record
    8   u64  checksum        xxh3_64 of all bytes that follow
    16  u64  queue           the id base of the record's queue
    24  u64  start, synced, end   of the queue's log when this was written (extent.Extent)
    48  record

A frame without a record is a mark: all frames before it were synced. Bad bytes at the end, with no
whole frame behind them, are a torn tail, which a crash may leave. Bad bytes with a whole frame
behind them are damage; with no mark behind them, they may also be a sector that a power cut took
before it was synced.

Journals of earlier versions have ``u32 length, u64 xxh3_64 of the record, record`` instead.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from xxhash import xxh3_64_intdigest

from penstock.storage.extent import NOTHING, Extent

_MAGIC: Final = b"PSJ1"
_PREFIX = struct.Struct("<4sIQ")
_CHECKED = struct.Struct("<QQQQ")
HEADER_BYTES: Final = _PREFIX.size + _CHECKED.size
_OLD = struct.Struct("<IQ")
_OLD_RECORD: Final = re.compile(rb"[\x91-\x9f]\xa1[a-z]")
"""The start of a record of earlier versions: a MessagePack array whose first item is a tag."""


@dataclass(slots=True)
class Frames:
    """The content of a journal.

    ``damage`` lists the damaged places between whole frames, ``gaps`` the numbers of the records
    that follow damage; ``end`` is the position behind the last whole frame, ``synced`` that of the
    last mark: all before it was synced.
    """

    records: list[bytes] = field(default_factory=list)
    gaps: set[int] = field(default_factory=set)
    damage: list[tuple[int, int]] = field(default_factory=list)
    extent: Extent = NOTHING
    strangers: set[int] = field(default_factory=set)  # other queues of which there are frames
    end: int = 0
    synced: int = 0
    is_old: bool = False

    def note_damage(self, end: int) -> None:
        """Note bytes without a whole frame, up to ``end``, with a whole frame behind them."""
        self.damage.append((self.end, end))
        self.gaps.add(len(self.records))
        self.end = end


class _Frame(NamedTuple):
    record: bytes
    end: int
    queue: int | None
    extent: Extent = NOTHING


_Whole = Callable[[bytes, int], _Frame | None]
_Starts = Callable[[bytes, int], Iterator[int]]


def encode_frames(records: Sequence[bytes], queue: int, extent: Extent) -> bytes:
    """Encode one frame for each record; ``mark`` makes a frame without a record."""
    checked = _CHECKED.pack(queue, *extent)
    return b"".join(
        [
            _PREFIX.pack(_MAGIC, len(record), xxh3_64_intdigest(checked + record))
            + checked
            + record
            for record in records
        ]
    )


def mark(queue: int, extent: Extent) -> bytes:
    """Encode the frame that states that all frames before it were synced."""
    return encode_frames([b""], queue, extent)


def read_frames(data: bytes, queue: int) -> Frames:
    """Read all whole frames of the queue, stepping over any damage between them.

    Frames of another queue count as damage.
    """
    found = _read(data, queue, _whole, _starts)
    # No whole frame of today's: perhaps a journal of an earlier version.
    if data and not found.end and not found.strangers:
        old = _read(data, queue, _whole_of_old, _starts_of_old)
        if old.end:
            old.is_old = True
            return old
    return found


def whole_bytes(data: bytes) -> int:
    """The length of the whole frames at the beginning of the data, by their heads alone; more than
    the data where the first one is longer.
    """
    position = 0
    while position + HEADER_BYTES <= len(data) and data.startswith(_MAGIC, position):
        end = position + HEADER_BYTES + _PREFIX.unpack_from(data, position)[1]
        if position and end > len(data):
            break
        position = end
    return position


def queues_named(data: bytes) -> set[int]:
    """The id bases of all queues that whole frames name; those of earlier versions name none."""
    return {frame.queue for _, frame in _frames(data, _whole, _starts) if frame.queue is not None}


def _read(data: bytes, queue: int, whole: _Whole, starts: _Starts) -> Frames:
    found = Frames()
    end = 0
    for start, frame in _frames(data, whole, starts):
        end = frame.end
        if frame.queue not in (None, queue):
            found.strangers.add(frame.queue or 0)
            continue
        if start > found.end:
            found.note_damage(start)
        if frame.record:
            found.records.append(frame.record)
        else:
            found.synced = start
        found.extent = frame.extent
        found.end = end
    if end > found.end:
        found.note_damage(end)
    return found


def _frames(data: bytes, whole: _Whole, starts: _Starts) -> Iterator[tuple[int, _Frame]]:
    """All whole frames in order; after damage, reading resumes at the next whole frame.

    Candidates for it are found by searching for the bytes that begin a frame, so the time grows in
    proportion to the data.
    """
    position = 0
    while position < len(data):
        frame = whole(data, position)
        if frame is None:
            tried = ((each, whole(data, each)) for each in starts(data, position + 1))
            position, frame = next((each for each in tried if each[1]), (len(data), None))
        if frame is not None:
            yield position, frame
            position = frame.end


def _whole(data: bytes, position: int) -> _Frame | None:
    start = position + HEADER_BYTES
    if start > len(data) or not data.startswith(_MAGIC, position):
        return None
    _, length, checksum = _PREFIX.unpack_from(data, position)
    end = start + length
    if end > len(data) or xxh3_64_intdigest(data[position + _PREFIX.size : end]) != checksum:
        return None
    queue, *extent = _CHECKED.unpack_from(data, position + _PREFIX.size)
    return _Frame(data[start:end], end, queue, Extent(*extent))


def _starts(data: bytes, position: int) -> Iterator[int]:
    while (position := data.find(_MAGIC, position)) >= 0:
        yield position
        position += 1


def _whole_of_old(data: bytes, position: int) -> _Frame | None:
    start = position + _OLD.size
    if start > len(data):
        return None
    length, checksum = _OLD.unpack_from(data, position)
    end = start + length
    if not length or end > len(data) or xxh3_64_intdigest(data[start:end]) != checksum:
        return None
    return _Frame(data[start:end], end, None)


def _starts_of_old(data: bytes, position: int) -> Iterator[int]:
    for found in _OLD_RECORD.finditer(data, position + _OLD.size):
        yield found.start() - _OLD.size
