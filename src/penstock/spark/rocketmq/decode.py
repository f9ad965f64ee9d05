"""From stored messages to Arrow record batches."""

from __future__ import annotations

import logging
import zlib
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.rocketmq.protocol.messages import properties
from penstock.rocketmq.protocol.messages.message import SysFlag
from penstock.spark.offsets import Place
from penstock.spark.rocketmq.arrays import binaries, texts
from penstock.spark.rocketmq.stored import Longs, Spans, Stored

MAP: Final = pa.map_(pa.string(), pa.string())
_NAME_END: Final = 1
_VALUE_END: Final = 2


class Properties:
    """The properties of messages, which lie in ``spans``, in order."""

    def __init__(self, data: bytes, spans: Spans) -> None:
        self._count = len(spans.starts)
        self._messages, names, values = _entries(np.frombuffer(data, np.uint8), spans)
        self._names = texts(data, names).dictionary_encode()
        self._codes: Longs = self._names.indices.to_numpy().astype(np.int64)
        self._values = texts(data, values)

    def of(self, name: str) -> pa.Array:
        """The values of one name; null where a message does not have it."""
        found = np.full(self._count, -1, np.int64)
        code = self._names.dictionary.index(pa.scalar(name, pa.string())).as_py()
        entries = np.flatnonzero(self._codes == code)
        found[self._messages[entries]] = entries  # of equal names the last one stays
        return self._values.take(pa.array(found, mask=found < 0))

    def maps(self) -> pa.Array:
        """All of them, a map a message."""
        kept = self._last_of_each_name
        counts = np.bincount(self._messages[kept], minlength=self._count)
        edges = np.concatenate(([0], np.cumsum(counts))).astype(np.int32)
        taken = pa.array(kept)
        names = self._names.dictionary.take(pa.array(self._codes[kept]))
        return pa.MapArray.from_arrays(pa.array(edges), names, self._values.take(taken))

    @cached_property
    def _last_of_each_name(self) -> Longs:
        """The entries, without those whose name comes again in the same message."""
        key = self._messages * max(1, len(self._names.dictionary)) + self._codes
        order = np.argsort(key, kind="stable")
        ordered = key[order]
        is_last = np.append(ordered[1:] != ordered[:-1], True)[: len(ordered)]
        kept: Longs = np.sort(order[is_last])
        return kept


def _entries(raw: npt.NDArray[np.uint8], spans: Spans) -> tuple[Longs, Spans, Spans]:
    """The message, the name and the value of each entry that has both."""
    starts, ends = spans
    if not len(starts):
        return starts, spans, spans
    marks = np.flatnonzero(raw == _VALUE_END)
    of = np.searchsorted(starts, marks, side="right") - 1
    marks = marks[(of >= 0) & (marks < ends[of])]
    # Where the last value has no end, the end of the properties is it.
    open_ends = ends[(ends > starts) & (raw[ends - 1] != _VALUE_END)]
    entry_ends = np.sort(np.concatenate((marks, open_ends)), kind="stable")
    of = np.searchsorted(starts, entry_ends, side="right") - 1
    entry_starts = np.concatenate(([0], entry_ends[:-1] + 1)).astype(np.int64)
    entry_starts = np.maximum(entry_starts, starts[of])
    splits = np.flatnonzero(raw == _NAME_END)
    splits = np.append(splits, len(raw))
    split = splits[np.searchsorted(splits, entry_starts)]
    whole = (split > entry_starts) & (split + 1 < entry_ends)
    return (
        of[whole],
        Spans(entry_starts[whole], split[whole]),
        Spans(split[whole] + 1, entry_ends[whole]),
    )


_TIMESTAMP: Final = pa.timestamp("us", tz="UTC")
_BODY_BYTES_MAX: Final = 64 << 20
_BODIES_BYTES_MAX: Final = 2 * _BODY_BYTES_MAX
"""Of all that are unpacked for one record batch: some megabytes of packed ones may be gigabytes."""
_COMPRESSION: Final = {0: "zlib", 1: "lz4", 2: "zstd", 3: "zlib"}
"""The compression by bits 8 to 10 of the sysFlag; older clients do not say that it is zlib."""

logger = logging.getLogger("penstock.spark")

TYPES: dict[str, pa.DataType] = {
    "topic": pa.string(),
    "body": pa.binary(),
    "keys": pa.string(),
    "tags": pa.string(),
    "properties": MAP,
    "born_timestamp": _TIMESTAMP,
    "store_timestamp": _TIMESTAMP,
    "broker": pa.string(),
    "queue": pa.int32(),
    "queue_offset": pa.int64(),
}


def record_batch(messages: Stored, place: Place, columns: Sequence[str]) -> pa.RecordBatch:
    """Messages as columns, those asked for in their order: all, or where their bodies are too large
    when they are unpacked, the first of them. Raises SourceError.
    """
    rows = _Rows(messages, place)
    try:
        arrays = [_BUILDERS[name](rows) for name in columns]
    except _TooLargeError as error:
        return record_batch(messages.first(error.fit), place, columns)
    return pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(columns))


class _TooLargeError(Exception):
    """Of the bodies only the first ``fit`` are unpacked at once, which is one at least."""

    def __init__(self, fit: int) -> None:
        super().__init__()
        self.fit = fit


def arrow_schema(columns: Sequence[str]) -> pa.Schema:
    """The Arrow schema Spark expects for these columns."""
    return pa.schema([pa.field(name, TYPES[name]) for name in columns])


class _Rows:
    """Messages, and what several columns need of them."""

    def __init__(self, messages: Stored, place: Place) -> None:
        self.messages = messages
        self.place = place

    @cached_property
    def parts(self) -> tuple[Spans, Spans]:
        return self.messages.parts()

    @cached_property
    def properties(self) -> Properties:
        return Properties(self.messages.data, self.parts[1])

    def constant(self, value: str | int, kind: pa.DataType) -> pa.Array:
        return pa.repeat(pa.scalar(value, kind), len(self.messages))


def _body(rows: _Rows) -> pa.Array:
    bodies = binaries(rows.messages.data, rows.parts[0])
    flags = rows.messages.sys_flags
    compressed = np.flatnonzero(flags & SysFlag.COMPRESSED)
    if not len(compressed):
        return bodies
    listed = bodies.to_pylist()
    nbytes = 0
    for row in map(int, compressed):
        listed[row] = decompressed(listed[row], int(flags[row]))
        nbytes += len(listed[row])
        if nbytes > _BODIES_BYTES_MAX:
            raise _TooLargeError(row)
    return pa.array(listed, pa.binary())


def decompressed(body: bytes, sys_flag: int) -> bytes:
    """A body as it was before its client compressed it; what cannot be unpacked stays as it is."""
    kind = _COMPRESSION.get(sys_flag >> 8 & 7, "")
    try:
        if kind == "zlib":
            unpacked = zlib.decompressobj().decompress(body, _BODY_BYTES_MAX + 1)
        else:
            stream = pa.CompressedInputStream(pa.BufferReader(body), kind)
            unpacked = stream.read(_BODY_BYTES_MAX + 1)
    except (zlib.error, pa.ArrowException, OSError, ValueError) as error:
        logger.warning("a compressed body is left as it is: %s", error)
        return body
    if len(unpacked) > _BODY_BYTES_MAX:
        logger.warning("a compressed body is left as it is: it has more than 64 MiB")
        return body
    return unpacked


def _time(ms: Longs) -> pa.Array:
    return pa.array(ms * 1000).cast(_TIMESTAMP)


_BUILDERS: dict[str, Callable[[_Rows], Any]] = {
    "topic": lambda rows: rows.constant(rows.place.topic, pa.string()),
    "body": _body,
    "keys": lambda rows: rows.properties.of(properties.KEYS),
    "tags": lambda rows: rows.properties.of(properties.TAGS),
    "properties": lambda rows: rows.properties.maps(),
    "born_timestamp": lambda rows: _time(rows.messages.born_ms),
    "store_timestamp": lambda rows: _time(rows.messages.store_ms),
    "broker": lambda rows: rows.constant(rows.place.node, pa.string()),
    "queue": lambda rows: rows.constant(rows.place.queue, pa.int32()),
    "queue_offset": lambda rows: pa.array(rows.messages.queue_offsets),
}
