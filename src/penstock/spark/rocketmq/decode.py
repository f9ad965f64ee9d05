"""From stored messages to Arrow record batches."""

from __future__ import annotations

import logging
import zlib
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, Final

import numpy as np
import pyarrow as pa

from penstock.rocketmq.protocol.messages import properties
from penstock.rocketmq.protocol.messages.message import SysFlag
from penstock.spark.read.decode import Origin
from penstock.spark.rocketmq.arrays import binaries
from penstock.spark.rocketmq.properties import MAP, Properties
from penstock.spark.rocketmq.stored import Longs, Spans, Stored

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


def record_batch(messages: Stored, origin: Origin, columns: Sequence[str]) -> pa.RecordBatch:
    """Messages as columns, those asked for in their order: all, or where their bodies are too large
    when they are unpacked, the first of them. Raises SourceError.
    """
    rows = _Rows(messages, origin)
    try:
        arrays = [_BUILDERS[name](rows) for name in columns]
    except _TooLargeError as error:
        return record_batch(messages.first(error.fit), origin, columns)
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

    def __init__(self, messages: Stored, origin: Origin) -> None:
        self.messages = messages
        self.origin = origin

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
    "topic": lambda rows: rows.constant(rows.origin.topic, pa.string()),
    "body": _body,
    "keys": lambda rows: rows.properties.of(properties.KEYS),
    "tags": lambda rows: rows.properties.of(properties.TAGS),
    "properties": lambda rows: rows.properties.maps(),
    "born_timestamp": lambda rows: _time(rows.messages.born_ms),
    "store_timestamp": lambda rows: _time(rows.messages.store_ms),
    "broker": lambda rows: rows.constant(rows.origin.node, pa.string()),
    "queue": lambda rows: rows.constant(rows.origin.queue, pa.int32()),
    "queue_offset": lambda rows: pa.array(rows.messages.queue_offsets),
}
