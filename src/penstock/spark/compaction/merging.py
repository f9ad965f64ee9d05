"""Several files into one with the same rows in the same order, by the kind of file.

Each merge is read back and compared with its files before anything of it counts.
"""

from __future__ import annotations

import gzip
import hashlib
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, NamedTuple, cast

from penstock.core.errors import StorageError

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

_ROWS: Final = 65_536
_PIECE: Final = 1 << 20
_ROW_GROUP_BYTES: Final = 64 << 20
# A body a line, as JSON or as it is. CSV may begin with a line of names.
_LINES: Final = (".txt", ".json", ".log")
_MARKS: Final = (b"\xfe\xff", b"\xff\xfe")
"""The beginnings of a file in UTF-16; they stand in front of its first row alone."""
# Spark's own schema, and the calendar and time zone of old dates: Arrow's types do not show them.
_OF_SPARK: Final = b"org.apache.spark."


class Kind(NamedTuple):
    """Files of one kind end with ``ending``; those with equal ``alike`` can be one.

    ``merge`` writes them and returns the number of their rows.
    """

    ending: str
    alike: Callable[[Path], object]
    merge: Callable[[Sequence[Path], Path], int]


def kind_of(file: Path) -> Kind | None:
    """The kind of a file by its name; None for those that are left alone."""
    if file.suffix == ".parquet":
        return Kind(".parquet", _parquet_schema, _merge_parquet)
    packed = ".gz" if file.suffix == ".gz" else ""
    plain = file.name.removesuffix(packed)
    ending = next((each for each in _LINES if plain.endswith(each)), None)
    return None if ending is None else Kind(ending + packed, _lines_alike, _merge_lines)


def merge(kind: Kind, files: Sequence[Path], to: Path) -> int:
    """Write the rows of ``files`` to ``to``, compare both, and return their number.

    Raises StorageError for a file that cannot be read, and where the rows differ.
    """
    try:
        return kind.merge(files, to)
    except (OSError, EOFError, zlib.error, ValueError) as error:
        said = str(error).partition("\n")[0]
        raise StorageError(f"{files[0].parent}: its files cannot be merged: {said}") from error


# --- Parquet --------------------------------------------------------------------------------------


def _parquet_schema(file: Path) -> object:
    try:
        opened = _opened(file)
        columns = [opened.schema.column(index) for index in range(len(opened.schema))]
        told = opened.metadata.metadata or {}
        return (
            opened.schema_arrow.remove_metadata(),
            [each.physical_type for each in columns],
            {name: value for name, value in told.items() if name.startswith(_OF_SPARK)},
        )
    except (OSError, ValueError) as error:
        raise StorageError(f"{file} cannot be read: {error}") from error


def _merge_parquet(files: Sequence[Path], to: Path) -> int:
    import pyarrow.parquet as pq

    first = _opened(files[0])
    rows = 0
    with pq.ParquetWriter(to, first.schema_arrow, **_written_like(first)) as writer:
        for group in _row_groups(_batches(files)):
            writer.write_table(group)
            rows += group.num_rows
        # Spark's own schema among them; the writer drops them with Arrow's.
        writer.add_key_value_metadata(first.schema_arrow.metadata or {})
    if not _are_equal(_batches(files), _batches([to])):
        raise ValueError("the rows read back are others")
    return rows


def _opened(file: Path) -> pq.ParquetFile:
    import pyarrow.parquet as pq

    # Spark's times are INT96, which have room for more years than nanoseconds in 64 bits.
    return pq.ParquetFile(file, coerce_int96_timestamp_unit="us")


def _written_like(file: pq.ParquetFile) -> dict[str, Any]:
    """Options of a writer that give compression, encodings and types as this file has them."""
    if not file.metadata.num_row_groups:
        return {}
    group = file.metadata.row_group(0)
    columns = [group.column(index) for index in range(group.num_columns)]
    compression = columns[0].compression
    return {
        "compression": "NONE" if compression == "UNCOMPRESSED" else compression,
        "use_dictionary": [each.path_in_schema for each in columns if each.has_dictionary_page],
        "write_statistics": [each.path_in_schema for each in columns if each.is_stats_set],
        "use_deprecated_int96_timestamps": any(each.physical_type == "INT96" for each in columns),
        "store_schema": False,
    }


def _batches(files: Sequence[Path]) -> Iterator[pa.RecordBatch]:
    for file in files:
        with _opened(file) as opened:
            yield from opened.iter_batches(_ROWS)


def _row_groups(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """The rows for a row group each, which would be small if it were those of one small file."""
    import pyarrow as pa

    gathered, nbytes = [], 0
    for batch in batches:
        gathered.append(batch)
        nbytes += batch.nbytes
        if nbytes >= _ROW_GROUP_BYTES:
            yield pa.Table.from_batches(gathered)
            gathered, nbytes = [], 0
    if gathered:
        yield pa.Table.from_batches(gathered)


def _are_equal(one: Iterator[pa.RecordBatch], other: Iterator[pa.RecordBatch]) -> bool:
    """True if both have the same rows, however they are cut into batches."""
    left = right = None
    while True:
        left = left if left is not None and left.num_rows else _next(one)
        right = right if right is not None and right.num_rows else _next(other)
        if left is None or right is None:
            return left is right
        count = min(left.num_rows, right.num_rows)
        if not all(map(_same, left.slice(0, count).columns, right.slice(0, count).columns)):
            return False
        left, right = left.slice(count), right.slice(count)


def _next(batches: Iterator[pa.RecordBatch]) -> pa.RecordBatch | None:
    return next((batch for batch in batches if batch.num_rows), None)


def _same(one: pa.Array, other: pa.Array) -> bool:
    from penstock.spark.nested_types import changed

    if one.equals(other):
        return True
    whole = changed(one.type, _in_bits)  # as numbers a NaN is not equal to itself
    return whole != one.type and bool(one.view(whole).equals(other.view(whole)))


def _in_bits(kind: pa.DataType) -> pa.DataType:
    import pyarrow as pa

    bits = {pa.float64(): pa.int64(), pa.float32(): pa.int32(), pa.float16(): pa.int16()}
    return bits.get(kind, kind)


# --- lines ----------------------------------------------------------------------------------------


def _lines_alike(file: Path) -> object:
    """None for lines that others may follow, and the file, which equals no other, where they may
    not: its rows end with another ``lineSep`` than a line feed, or it is in UTF-16.
    """
    first = last = b""
    try:
        with _lines_file(file, "rb") as opened:
            while piece := opened.read(_PIECE):
                first, last = first or piece[:2], piece[-1:]
    except (OSError, EOFError, zlib.error) as error:
        raise StorageError(f"{file} cannot be read: {error}") from error
    return None if last in (b"", b"\n") and first not in _MARKS else file


def _merge_lines(files: Sequence[Path], to: Path) -> int:
    digest, rows = hashlib.sha256(), 0
    with _lines_file(to, "wb") as merged:
        for piece in _pieces(files):
            merged.write(piece)
            digest.update(piece)
            rows += piece.count(b"\n")
    again = hashlib.sha256()
    for piece in _pieces([to]):
        again.update(piece)
    if again.digest() != digest.digest():
        raise ValueError("the lines read back are others")
    return rows


def _pieces(files: Sequence[Path]) -> Iterator[bytes]:
    """The lines of all files."""
    for file in files:
        with _lines_file(file, "rb") as opened:
            while piece := opened.read(_PIECE):
                yield piece


def _lines_file(path: Path, mode: str) -> IO[bytes]:
    if path.suffix == ".gz":
        return cast(IO[bytes], gzip.open(path, mode))
    return cast(IO[bytes], path.open(mode))
