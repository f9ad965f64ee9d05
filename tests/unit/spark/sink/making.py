"""Pieces, record batches and settings for these tests."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from pyspark.sql.types import (
    BinaryType,
    DataType,
    DoubleType,
    LongType,
    ShortType,
    StringType,
    StructField,
    StructType,
    VariantType,
)

from penstock.spark.sink.columns import Columns
from penstock.spark.sink.pieces import Piece
from penstock.spark.sink.rows import RowReader
from penstock.spark.sink.sink_settings import SinkSettings
from tests.unit.spark.sink.fake_node import FakeNode


def piece(bodies: Sequence[bytes], delays: Sequence[int] = (), first: int = 0) -> Piece:
    count = len(bodies)
    rows = np.arange(first, first + count)
    return Piece(pa.array(bodies, pa.binary()), rows, np.array(delays or [0] * count, np.int64))


def bodies_of(piece: Piece) -> list[bytes]:
    bodies: list[bytes] = piece.bodies.to_pylist()
    return bodies


TYPES: dict[str, DataType] = {
    "binary": BinaryType(), "string": StringType(), "double": DoubleType(),
    "bigint": LongType(), "smallint": ShortType(), "variant": VariantType(),
}  # fmt: skip


def schema(ddl: str) -> StructType:
    """A schema, for which Spark's own parser would need a JVM."""
    names = [column.split() for column in ddl.split(",")]
    return StructType([StructField(name, TYPES[kind]) for name, kind in names])


def batch(bodies: Sequence[object], **columns: Sequence[object]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"body": bodies, **columns})


def reader(topic: str | None = "t", partition: int = 3, delay: bool = False) -> RowReader:
    columns = Columns("body", None if topic else "topic", "defer_ms" if delay else None)
    return RowReader(columns, topic, partition)


def settings(*nodes: FakeNode, **options: str) -> SinkSettings:
    addresses = ",".join(node.address for node in nodes)
    return SinkSettings.parse({"nsqd_http_address": addresses, "timeout": "60", **options})
