"""The writers of ``format("rocketmq")`` that Spark meets; all of their work is in the tasks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from penstock.spark.errors import OptionError
from penstock.spark.sink.rocketmq.publishing import publish_rows
from penstock.spark.sink.rocketmq.rows import RocketmqRows, body_column
from penstock.spark.sink.rocketmq.settings import Settings
from penstock.spark.sink.writer import Written, current_task


class RocketmqBatchWriter(DataSourceArrowWriter):
    """``df.write``."""

    def __init__(self, settings: Settings, body: str) -> None:
        self.settings = settings
        self.body = body

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return _write(iterator, self.settings, self.body)


class RocketmqStreamWriter(DataSourceStreamArrowWriter):
    """``df.writeStream``."""

    def __init__(self, settings: Settings, body: str) -> None:
        self.settings = settings
        self.body = body

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return _write(iterator, self.settings, self.body)


def batch_writer(
    options: Mapping[str, str], schema: StructType, overwrite: bool
) -> RocketmqBatchWriter:
    """The writer of ``df.write``. Raises OptionError."""
    if overwrite:
        raise OptionError('messages of a topic cannot be overwritten: use mode("append")')
    settings = Settings.parse(options)
    return RocketmqBatchWriter(settings, body_column(schema, settings.topic))


def stream_writer(options: Mapping[str, str], schema: StructType) -> RocketmqStreamWriter:
    """The writer of ``df.writeStream``, in any output mode. Raises OptionError."""
    settings = Settings.parse(options)
    return RocketmqStreamWriter(settings, body_column(schema, settings.topic))


def _write(batches: Iterator[pa.RecordBatch], settings: Settings, body: str) -> Written:
    reader = RocketmqRows(body, settings.topic, current_task().partitionId())
    return Written(publish_rows(batches, reader, settings))
