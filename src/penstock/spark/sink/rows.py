"""Rows of Arrow record batches, checked and sorted by topic; what is wrong is told by its place."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.names import is_valid_name
from penstock.spark.errors import SinkError
from penstock.spark.sink.columns import Columns
from penstock.spark.sink.packing import packed
from penstock.spark.sink.pieces import Longs, Piece, edges, groups
from penstock.spark.sink.sink_settings import invalid_topic

_BODY_BYTES_MAX: Final = 1 << 30
_DELAY_MS_MAX: Final = (1 << 32) - 1


class Checks:
    """Checks of the rows of one partition, which are counted from 0 on."""

    def __init__(self, partition: int) -> None:
        self.partition = partition
        self.count = 0

    def bodies(self, column: pa.Array, name: str) -> pa.Array:
        """The bodies as bytes."""
        self.refuse(column.is_null(), f"column {name} is null")
        large = pa.types.is_large_string(column.type) or pa.types.is_large_binary(column.type)
        bodies = column.cast(pa.large_binary() if large else pa.binary())
        sizes = np.diff(edges(bodies))
        self.refuse(sizes == 0, f"column {name} is empty, which no message can be")
        self.refuse(sizes > _BODY_BYTES_MAX, f"the body has more than {_BODY_BYTES_MAX} bytes")
        return bodies

    def numbers(self, batch: pa.RecordBatch, name: str | None, most: int) -> Longs:
        """Whole numbers from 0 on; 0 where the column is null or missing."""
        if name is None or name not in batch.schema.names:
            return np.zeros(batch.num_rows, np.int64)
        given = pc.fill_null(batch.column(name).cast(pa.int64()), 0)
        numbers: Longs = given.to_numpy(zero_copy_only=False)
        self.refuse((numbers < 0) | (numbers > most), f"{name} is outside 0 to {most}")
        return numbers

    def topics(
        self, column: pa.Array, refused: Callable[[str], str | None]
    ) -> Iterator[tuple[str, Longs]]:
        """The rows of each topic by their indices; ``refused`` says why a name is not one."""
        self.refuse(column.is_null(), "column topic is null, and there is no option topic")
        found = column.dictionary_encode()
        names = found.dictionary.to_pylist()
        codes = found.indices.to_numpy().astype(np.int64)
        for code, name in enumerate(names):
            if said := refused(name):
                self.refuse(codes == code, said)
        # One topic, as is usual: there is nothing to sort.
        if len(names) == 1:
            yield names[0], np.arange(len(codes))
            return
        for code, indices in groups(codes):
            yield names[code], indices

    def refuse(self, wrong: pa.Array | npt.NDArray[np.bool_], said: str) -> None:
        """Raise SinkError for the first row of those that are wrong."""
        mask = np.asarray(wrong)
        if mask.any():
            row = self.count + int(mask.argmax())
            raise SinkError(f"row {row} of partition {self.partition}: {said}")


class RowReader(Checks):
    """A reader of rows as messages of topics."""

    def __init__(self, columns: Columns, topic: str | None, partition: int) -> None:
        super().__init__(partition)
        self._columns = columns
        self._topic = topic

    def read(self, batch: pa.RecordBatch) -> Iterator[tuple[str, Piece]]:
        """The rows by topic. Raises SinkError, which names the row, for what is not a message."""
        if not batch.num_rows:
            return
        rows = np.arange(self.count, self.count + batch.num_rows)
        delays = self.numbers(batch, self._columns.delay, _DELAY_MS_MAX)
        piece = Piece(self._bodies(batch), rows, delays)
        if self._topic is None:
            for topic, indices in self.topics(batch.column(self._columns.topic), _refused):
                whole = len(indices) == piece.count
                yield topic, piece if whole else piece.take(indices)
        else:
            yield self._topic, piece
        self.count += batch.num_rows

    def _bodies(self, batch: pa.RecordBatch) -> pa.Array:
        body = self._columns.body
        if body is not None:
            return self.bodies(batch.column(body), body)
        try:
            return self.bodies(packed(batch, self._columns.packed), "body")
        except ValueError as error:
            last = self.count + batch.num_rows - 1
            where = f"rows {self.count} to {last} of partition {self.partition}"
            raise SinkError(f"{where}: {error}") from None


def _refused(name: str) -> str | None:
    return None if is_valid_name(name) else invalid_topic(name)
