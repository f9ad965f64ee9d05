"""From the bytes of ``/log/fetch`` to Arrow, without a Python object per message.

A fetched buffer holds whole batches. Their headers lead straight to the message borders, so every
column is built by numpy or Arrow over the whole buffer at once:

- all frames of one size: a strided view of each batch is copied without its frame headers;
- mixed sizes: the borders become one Arrow binary array over the buffer in which bodies and the
  bytes between them alternate, and ``take`` keeps the bodies.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from functools import cache, cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.spark.errors import SourceError
from penstock.spark.offsets import Place
from penstock.spark.read.origins import Origins, origins_in
from penstock.storage.batch import Batch, Dialect, iter_batches
from penstock.storage.compiled import CHECKSUMS

logger = logging.getLogger("penstock.spark")

Longs: TypeAlias = npt.NDArray[np.int64]

TYPES: dict[str, pa.DataType] = {
    "topic": pa.string(),
    "body": pa.binary(),
    "id": pa.string(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "attempts": pa.int32(),
    "node": pa.string(),
    "queue": pa.int32(),
    "offset": pa.int64(),
    "origin_topic": pa.string(),
    "origin_channel": pa.string(),
    "origin_id": pa.string(),
    "origin_timestamp": pa.timestamp("us", tz="UTC"),
    "origin_attempts": pa.int32(),
    "reason": pa.string(),
}

_TIMESTAMP_FROM = 8
_ID_FROM = 18
_BODY_FROM = 34
_ARROW_OFFSET_MAX = 2**31 - 1


class Part(NamedTuple):
    """The wanted messages of one batch: from index ``first`` to ``last`` (not included)."""

    batch: Batch
    first: int
    last: int

    @property
    def rows(self) -> int:
        return self.last - self.first


def wanted_parts(buffer: bytes | memoryview, start: int, end: int) -> Iterator[Part]:
    """The parts of a fetched buffer whose offsets lie in ``[start, end)``, in order."""
    for batch in iter_batches(buffer, verify=verifies()):
        if batch.first_offset >= end:
            return
        first = max(start - batch.first_offset, 0)
        last = min(batch.count, end - batch.first_offset)
        if first < last:
            if batch.dialect != Dialect.NSQ:
                raise SourceError(f"offset {batch.first_offset} holds no NSQ message")
            yield Part(batch, first, last)


@cache
def verifies() -> bool:
    """True if checksums are verified here; the log says once if they are not."""
    if not CHECKSUMS:
        logger.warning(
            "xxhash is not installed here, so the checksums of batches are not verified again: "
            "nsqd verified them when it read them from disk"
        )
    return CHECKSUMS


def record_batch(parts: Sequence[Part], place: Place, columns: Sequence[str]) -> pa.RecordBatch:
    """One Arrow record batch of these messages with the asked columns in the asked order."""
    frames = _Frames(parts)
    arrays = [_BUILDERS[name](frames, place) for name in columns]
    return pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(columns))


def arrow_schema(columns: Sequence[str]) -> pa.Schema:
    """The Arrow schema Spark expects for these columns."""
    return pa.schema([pa.field(name, TYPES[name]) for name in columns])


class _Frames:
    """The messages of several parts, seen as one run."""

    def __init__(self, parts: Sequence[Part]) -> None:
        self.parts = parts
        self.counts = np.array([part.rows for part in parts], dtype=np.int64)
        self.total = int(self.counts.sum())
        strides = {part.batch.stride for part in parts}
        self.stride = strides.pop() if len(strides) == 1 else 0

    @cached_property
    def origins(self) -> list[Origins | None]:
        """The origins of each part's batch, if it holds dead letters."""
        return [origins_in(part.batch.note, part.batch.count) for part in self.parts]

    def repeat(self, values: Sequence[int]) -> Longs:
        """One value a part, stretched to one a message."""
        return np.repeat(np.array(values, dtype=np.int64), self.counts)

    def offsets(self) -> Longs:
        """The log offset of every message."""
        before = np.concatenate(([0], np.cumsum(self.counts)[:-1]))
        firsts = [part.batch.first_offset + part.first for part in self.parts]
        offsets: Longs = self.repeat(firsts) - np.repeat(before, self.counts)
        return offsets + np.arange(self.total)

    def strided(self, first: int, last: int) -> npt.NDArray[np.uint8]:
        """Bytes ``first`` to ``last`` of every frame as rows; all frames have one size."""
        rows = np.empty((self.total, last - first), dtype=np.uint8)
        row = 0
        for part in self.parts:
            frames = np.frombuffer(part.batch.frames, np.uint8).reshape(-1, self.stride)
            rows[row : row + part.rows] = frames[part.first : part.last, first:last]
            row += part.rows
        return rows

    def borders(self) -> tuple[memoryview, Longs, Longs]:
        """The buffer that all parts lie in, and where in it each frame starts and ends."""
        whole = self.parts[0].batch.raw.obj
        origin = _address(memoryview(whole))
        starts, ends = [], []
        for part in self.parts:
            positions = part.batch.positions() + (_address(part.batch.frames) - origin)
            starts.append(positions[part.first : part.last])
            ends.append(positions[part.first + 1 : part.last + 1])
        return memoryview(whole), np.concatenate(starts), np.concatenate(ends)


_Builder: TypeAlias = Callable[[_Frames, Place], Any]


def _address(view: memoryview) -> int:
    return int(np.frombuffer(view, np.uint8).ctypes.data)


def _body(frames: _Frames, place: Place) -> pa.Array:
    if frames.stride:
        return _fixed(frames.strided(_BODY_FROM, frames.stride), pa.binary())
    buffer, starts, ends = frames.borders()
    if len(buffer) > _ARROW_OFFSET_MAX:
        raise SourceError(f"{len(buffer)} bytes fetched at once are too many for Arrow")
    edges = np.empty(2 * frames.total + 1, dtype=np.int32)
    edges[0:-1:2] = starts + _BODY_FROM
    edges[1::2] = ends
    # There is nothing behind the last body.
    edges[-1] = edges[-2]
    alternating = pa.Array.from_buffers(
        pa.binary(), 2 * frames.total, [None, pa.py_buffer(edges), pa.py_buffer(buffer)]
    )
    return alternating.take(pa.array(np.arange(0, 2 * frames.total, 2, dtype=np.int64)))


def _id(frames: _Frames, place: Place) -> pa.Array:
    if frames.stride:
        return _fixed(frames.strided(_ID_FROM, _BODY_FROM), pa.string())
    buffer, starts, _ = frames.borders()
    index = starts[:, None] + np.arange(_ID_FROM, _BODY_FROM)
    return _fixed(np.frombuffer(buffer, np.uint8)[index], pa.string())


def _fixed(rows: npt.NDArray[np.uint8], kind: pa.DataType) -> pa.Array:
    """An array of binary or string values of one size, given as contiguous rows."""
    count, width = rows.shape
    if count * width > _ARROW_OFFSET_MAX:
        raise SourceError(f"{count} messages of {width} bytes at once are too many for Arrow")
    edges = np.arange(count + 1, dtype=np.int32) * np.int32(width)
    return pa.Array.from_buffers(kind, count, [None, pa.py_buffer(edges), pa.py_buffer(rows)])


def _timestamp(frames: _Frames, place: Place) -> pa.Array:
    micros = frames.repeat([part.batch.timestamp_ns // 1000 for part in frames.parts])
    return pa.array(micros).cast(TYPES["timestamp"])


def _origin_text(get: Callable[[Origins], str]) -> _Builder:
    """A column of what all dead letters of a batch have in common."""

    def build(part: Part, origins: Origins) -> pa.Array:
        return _constant(get(origins), pa.string(), part.rows)

    return _of_letters(pa.string(), build)


def _origin_numbers(kind: pa.DataType, get: Callable[[Origins], Sequence[Any]]) -> _Builder:
    """A column of what each dead letter has for itself."""

    def build(part: Part, origins: Origins) -> pa.Array:
        return pa.array(get(origins)[part.first : part.last], kind)

    return _of_letters(kind, build)


def _published(part: Part, origins: Origins) -> pa.Array:
    """The times in the frames, which dead letters keep."""
    starts = part.batch.positions()[part.first : part.last] + _TIMESTAMP_FROM
    places = starts[:, None] + np.arange(8)
    nanoseconds = np.frombuffer(part.batch.frames, np.uint8)[places].view(">i8").ravel()
    return pa.array(nanoseconds.astype(np.int64) // 1000).cast(TYPES["timestamp"])


def _of_letters(kind: pa.DataType, build: Callable[[Part, Origins], pa.Array]) -> _Builder:
    """A column that is null in messages that are not dead letters."""

    def column(frames: _Frames, place: Place) -> pa.Array:
        if not any(frames.origins):
            return pa.nulls(frames.total, kind)
        return pa.concat_arrays(
            [
                build(part, origins) if origins else pa.nulls(part.rows, kind)
                for part, origins in zip(frames.parts, frames.origins, strict=True)
            ]
        )

    return column


def _constant(value: str | int, kind: pa.DataType, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(value, kind), count)


# The log holds each message once, as first sent: attempts is always 1 here.
_BUILDERS: dict[str, _Builder] = {
    "topic": lambda frames, place: _constant(place.topic, pa.string(), frames.total),
    "body": _body,
    "id": _id,
    "timestamp": _timestamp,
    "attempts": lambda frames, place: _constant(1, pa.int32(), frames.total),
    "node": lambda frames, place: _constant(place.node, pa.string(), frames.total),
    "queue": lambda frames, place: _constant(place.queue, pa.int32(), frames.total),
    "offset": lambda frames, place: pa.array(frames.offsets()),
    "origin_topic": _origin_text(lambda origins: origins.topic),
    "origin_channel": _origin_text(lambda origins: origins.channel),
    "origin_id": _origin_numbers(pa.string(), lambda origins: [f"{id:016x}" for id in origins.ids]),
    "origin_timestamp": _of_letters(TYPES["timestamp"], _published),
    "origin_attempts": _origin_numbers(pa.int32(), lambda origins: origins.attempts),
    "reason": _origin_text(lambda origins: origins.reason),
}
