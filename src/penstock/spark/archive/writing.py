"""A split's messages into files of an archive: a file for each folder that they go to, in turn.

Each is named for the range that it holds without a gap. So where the hour changes within a split,
or changes back as a clock is set, a file ends and the next one begins.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any, Final, NamedTuple, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from penstock.spark.archive.names import FileName
from penstock.spark.archive.store import Store
from penstock.spark.archive.target import PARQUET, Target
from penstock.spark.errors import SinkError
from penstock.spark.planning import Split

ROW_GROUP_BYTES: Final = 64 << 20
"""About the size of a row group in memory, and what a task holds of a file."""
# Columns whose values repeat. In the others the writer would build a dictionary and give it up.
_DICTIONARIES: Final = ("topic", "node", "queue", "attempts", "timestamp", "origin_topic",
                        "origin_channel", "origin_attempts", "reason")  # fmt: skip
# Smallest and largest value tell a reader which row groups to skip.
_STATISTICS: Final = ("topic", "node", "queue", "timestamp", "offset", "origin_timestamp")


class Written(NamedTuple):
    """A file that is in its place."""

    name: FileName
    path: str
    rows: int


class _Rows(Protocol):
    """A writer of one format."""

    def add(self, rows: pa.RecordBatch) -> None: ...

    def close(self) -> None: ...


def write_split(
    split: Split, batches: Iterable[pa.RecordBatch], target: Target, store: Store
) -> Iterator[Written]:
    """Write the messages of a split, read with ``target.read``; each file when it is in its place.

    Raises SinkError.
    """
    file: _File | None = None
    first = behind = split.start
    try:
        for batch in batches:
            for folder, rows in target.runs(batch, split.place):
                if file is not None and file.folder != folder:
                    yield file.publish(split, first, behind)
                    first, file = behind, None
                if file is None:
                    file = _File(store, folder, target, split)
                file.add(rows)
                behind = rows.column("offset")[-1].as_py() + 1
        if file is not None:
            # What is missing behind it was damaged, and is for no other file.
            yield file.publish(split, first, split.end)
            file = None
    finally:
        if file is not None:
            file.discard()


class _File:
    """A file under way."""

    def __init__(self, store: Store, folder: str, target: Target, split: Split) -> None:
        self.folder = folder
        self._target = target
        self._what = f"archive {store.root}/{folder}"
        self._file = store.create(folder, split.place.topic)
        self._rows = 0
        self._writer: _Rows | None = None

    def add(self, rows: pa.RecordBatch) -> None:
        try:
            chosen = rows.select(list(self._target.columns))
            if self._writer is None:
                kind = _Parquet if self._target.format == PARQUET else _Lines
                self._writer = kind(self._file.stream, chosen.schema, self._target)
            self._writer.add(chosen)
        except OSError as error:
            raise SinkError(f"{self._what} cannot be written: {error}") from error
        self._rows += rows.num_rows

    def publish(self, split: Split, first: int, last: int) -> Written:
        name = FileName(*split.place, split.log, first, last, self._target.ending)
        try:
            assert self._writer is not None
            self._writer.close()
            self._file.stream.close()
            return Written(name, self._file.publish(name), self._rows)
        except OSError as error:
            raise SinkError(f"{self._what}/{name} cannot be written: {error}") from error

    def discard(self) -> None:
        with suppress(OSError, pa.ArrowException):
            if self._writer is not None:
                self._writer.close()
        self._file.discard()


class _Parquet:
    """Rows are gathered to row groups, as each call of the writer makes one."""

    def __init__(self, stream: Any, schema: pa.Schema, target: Target) -> None:
        names = set(schema.names)
        self._writer = pq.ParquetWriter(
            stream,
            schema,
            compression=target.compression,
            compression_level=target.level,
            use_dictionary=[name for name in _DICTIONARIES if name in names],
            write_statistics=[name for name in _STATISTICS if name in names],
            store_schema=False,
        )
        self._gathered: list[pa.RecordBatch] = []
        self._nbytes = 0

    def add(self, rows: pa.RecordBatch) -> None:
        self._gathered.append(rows)
        self._nbytes += rows.nbytes
        if self._nbytes >= ROW_GROUP_BYTES:
            self._flush()

    def close(self) -> None:
        self._flush()
        self._writer.close()

    def _flush(self) -> None:
        if self._gathered:
            group = pa.Table.from_batches(self._gathered)
            self._writer.write_table(group, row_group_size=max(1, group.num_rows))
        self._gathered, self._nbytes = [], 0


class _Lines:
    """A body a line, as nsq_to_file writes them."""

    def __init__(self, stream: Any, schema: pa.Schema, target: Target) -> None:
        packed = target.compression == "gzip"
        self._stream = pa.CompressedOutputStream(stream, "gzip") if packed else stream

    def add(self, rows: pa.RecordBatch) -> None:
        lines = pc.binary_join_element_wise(rows.column("body"), b"", b"\n")
        edges = pa.Array.from_buffers(pa.int32(), len(lines) + 1, [None, lines.buffers()[1]])
        data = lines.buffers()[2].slice(edges[0].as_py(), edges[-1].as_py() - edges[0].as_py())
        self._stream.write(data)

    def close(self) -> None:
        self._stream.close()
