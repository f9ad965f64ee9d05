"""From options and a frame's schema to a writer of ``format("rocketmq")``, for its tasks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark.sql.types import StructType

from penstock.spark.errors import OptionError
from penstock.spark.sink.rocketmq.publishing import publish_rows
from penstock.spark.sink.rocketmq.rows import RocketmqRows, body_column
from penstock.spark.sink.rocketmq.settings import Settings
from penstock.spark.sink.rocketmq.staging import SHARDS, stage_rows
from penstock.spark.sink.settings import Settings as Staging
from penstock.spark.sink.staging import Batch
from penstock.spark.sink.writer import BatchWriter, StreamWriter, Written


@dataclass(frozen=True)
class RocketmqOutput:
    """Rows as messages of RocketMQ's topics."""

    options: Settings
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


def batch_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> BatchWriter:
    """The writer of ``df.write``. Raises OptionError."""
    if overwrite:
        raise OptionError('messages of a topic cannot be overwritten: use mode("append")')
    settings = Settings.parse(options)
    settings.staging().require_writer(streaming=False)
    return BatchWriter(_output(settings, schema))


def stream_writer(options: Mapping[str, str], schema: StructType) -> StreamWriter:
    """The writer of ``df.writeStream``, in any output mode. Raises OptionError."""
    settings = Settings.parse(options)
    settings.staging().require_writer(streaming=True)
    return StreamWriter(_output(settings, schema))


_NOT_EXACT: Final = {
    "delay_level": "what is delayed waits in another topic than the one that remembers the batch",
    "queue": "rows are staged before the topic's queues are known; a sharding_key keeps rows of "
    "one key together",
}


def _output(settings: Settings, schema: StructType) -> RocketmqOutput:
    for name, reason in _NOT_EXACT.items():
        if settings.exactly_once and name in schema.fieldNames():
            raise OptionError(
                f"column {name} is not for exactlyOnce=true: {reason}. Leave one of the two out"
            )
    return RocketmqOutput(settings, body_column(schema, settings.topic))
