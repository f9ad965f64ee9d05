"""Rows of Arrow record batches, checked and sorted by topic; what is wrong is told by its place."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NoReturn

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.names import is_valid_name
from penstock.spark.errors import SinkError
from penstock.spark.sink.columns import Columns
from penstock.spark.sink.pieces import Longs, Piece, edges, groups
from penstock.spark.sink.settings import invalid_topic

_BODY_BYTES_MAX: Final = 1 << 30
_DELAY_MS_MAX: Final = (1 << 32) - 1


class RowReader:
    """Reads the rows of one partition, which it counts from 0 on."""

    def __init__(self, columns: Columns, topic: str | None, partition: int) -> None:
        self._columns = columns
        self._topic = topic
        self.partition = partition
        self.count = 0

    def read(self, batch: pa.RecordBatch) -> Iterator[tuple[str, Piece]]:
        """The rows by topic. Raises SinkError, which names the row, for what is no message."""
        if not batch.num_rows:
            return
        rows = np.arange(self.count, self.count + batch.num_rows)
        piece = Piece(self._bodies(batch), rows, self._delays(batch))
        if self._topic is None:
            yield from self._by_topic(batch.column(self._columns.topic), piece)
        else:
            yield self._topic, piece
        self.count += batch.num_rows

    def _bodies(self, batch: pa.RecordBatch) -> pa.Array:
        bodies = batch.column(self._columns.body)
        self._refuse(bodies.is_null(), f"column {self._columns.body} is null")
        large = pa.types.is_large_string(bodies.type) or pa.types.is_large_binary(bodies.type)
        bodies = bodies.cast(pa.large_binary() if large else pa.binary())
        sizes = np.diff(edges(bodies))
        self._refuse(sizes == 0, f"column {self._columns.body} is empty, which no message can be")
        self._refuse(sizes > _BODY_BYTES_MAX, f"the body has more than {_BODY_BYTES_MAX} bytes")
        return bodies

    def _delays(self, batch: pa.RecordBatch) -> Longs:
        if self._columns.delay is None:
            return np.zeros(batch.num_rows, np.int64)
        given = batch.column(self._columns.delay).cast(pa.int64())
        delays: Longs = pc.fill_null(given, 0).to_numpy(zero_copy_only=False)
        wrong = (delays < 0) | (delays > _DELAY_MS_MAX)
        self._refuse(wrong, f"defer_ms is outside 0 to {_DELAY_MS_MAX} milliseconds")
        return delays

    def _by_topic(self, column: pa.Array, piece: Piece) -> Iterator[tuple[str, Piece]]:
        self._refuse(column.is_null(), "column topic is null, and there is no option topic")
        found = column.dictionary_encode()
        names = found.dictionary.to_pylist()
        codes = found.indices.to_numpy().astype(np.int64)
        for code, name in enumerate(names):
            if not is_valid_name(name):
                self._refuse(codes == code, invalid_topic(name))
        if len(names) == 1:
            yield names[0], piece
            return
        for code, indices in groups(codes):
            yield names[code], piece.take(indices)

    def _refuse(self, wrong: pa.Array | npt.NDArray[np.bool_], said: str) -> None:
        """Raise SinkError for the first row of those that are wrong."""
        mask = np.asarray(wrong)
        if mask.any():
            self._raise(int(mask.argmax()), said)

    def _raise(self, index: int, said: str) -> NoReturn:
        raise SinkError(f"row {self.count + index} of partition {self.partition}: {said}")
