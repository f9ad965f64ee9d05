"""From options and a frame's schema to a writer of ``format("rocketmq")``, for its tasks."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa
from pyspark.sql.types import StructType

from penstock.spark.errors import OptionError
from penstock.spark.sink.pieces import Longs, Piece, groups
from penstock.spark.sink.request_bodies import batch_of
from penstock.spark.sink.rocketmq.publishing import publish_rows
from penstock.spark.sink.rocketmq.rocketmq_sink_settings import RocketmqSinkSettings
from penstock.spark.sink.rocketmq.rows import ANY_QUEUE, RocketmqRows, body_column
from penstock.spark.sink.sink_settings import SinkSettings as Staging
from penstock.spark.sink.staging import Batch, Form, StagedRows, by_body, stage_pieces
from penstock.spark.sink.writer import Written

SHARDS: Final = 240
"""The number of shards that sharding keys fall into; all usual numbers of queues divide it."""
_SECTION = struct.Struct(">II")


def stage_rows(
    batches: Iterable[pa.RecordBatch], reader: RocketmqRows, settings: Staging, batch: Batch
) -> StagedRows:
    """Stage all rows of a partition. Raises SinkError, or SourceError for a silent node."""
    access = replace(settings.access, dialect="rocketmq")
    form = Form(access, sections, _by_shard, "maxMessageSize")
    return stage_pieces(_sharded(batches, reader), reader.partition, settings, batch, form)


def _sharded(
    batches: Iterable[pa.RecordBatch], reader: RocketmqRows
) -> Iterator[tuple[str, Piece]]:
    """Pieces with shards, from 1 on, in place of delays, which they do not have."""
    for batch in batches:
        for key, piece in reader.read(batch):
            shard = 0 if key.shard == ANY_QUEUE else key.shard + 1
            yield key.topic, replace(piece, delays=np.full(piece.count, shard))


def _by_shard(piece: Piece) -> Longs:
    """The shard of each message, or of one without a shard a hash of its body."""
    return np.where(piece.delays > 0, piece.delays, by_body(piece))


def sections(piece: Piece) -> bytes:
    """The body of /stage with dialect=rocketmq: each shard, and its messages as of a batch send."""
    parts = []
    for shard, indices in groups(piece.delays):
        messages = batch_of(piece if len(indices) == piece.count else piece.take(indices))
        parts += [_SECTION.pack(shard, len(messages)), messages]
    return b"".join(parts)


@dataclass(frozen=True)
class RocketmqOutput:
    """Rows as messages of RocketMQ's topics."""

    options: RocketmqSinkSettings
    body: str

    @property
    def topic(self) -> str | None:
        return self.options.topic

    @property
    def settings(self) -> Staging:
        return self.options.staging()

    def write(
        self, batches: Iterator[pa.RecordBatch], partition: int, batch: Batch | None
    ) -> Written:
        topic = self.options.topic
        if batch is None:
            reader = RocketmqRows(self.body, topic, partition)
            return Written(publish_rows(batches, reader, self.options))
        reader = RocketmqRows(self.body, topic, partition, SHARDS)
        staged = stage_rows(batches, reader, self.settings, batch)
        return Written(reader.count, staged)


_NOT_EXACT: Final = {
    "delay_level": "what is delayed waits in another topic than the one that remembers the batch",
    "queue": "rows are staged before the topic's queues are known; a sharding_key keeps rows of "
    "one key together",
}


def output(options: Mapping[str, str], schema: StructType) -> RocketmqOutput:
    """The output of rows with this schema. Raises OptionError."""
    settings = RocketmqSinkSettings.parse(options)
    for name, reason in _NOT_EXACT.items():
        if settings.exactly_once and name in schema.fieldNames():
            raise OptionError(
                f"column {name} is not for exactlyOnce=true: {reason}. Leave one of the two out"
            )
    return RocketmqOutput(settings, body_column(schema, settings.topic))
