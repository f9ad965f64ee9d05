"""The writers that Spark meets: ``write`` runs in each task, the rest beside the driver.

Spark runs a task again when it fails and a micro-batch again when its query is cut short.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from penstock.spark import worker_memory
from penstock.spark.errors import OptionError, SinkError
from penstock.spark.sink import commits
from penstock.spark.sink.columns import Columns
from penstock.spark.sink.publishing import publish_rows
from penstock.spark.sink.rows import RowReader
from penstock.spark.sink.sink_settings import SinkSettings
from penstock.spark.sink.staging import Batch, StagedRows, stage_rows

# Local properties of Spark's tasks: nothing else tells a sink which query it works for.
_QUERY = "sql.streaming.queryId"
_BATCH = "streaming.sql.batchId"


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    """The word of a task; ``staged`` waits for the commit."""

    rows: int
    staged: StagedRows | None = None


class Output(Protocol):
    """The way of a task's rows to the nodes."""

    @property
    def settings(self) -> SinkSettings:
        """The place and the name under which rows are staged, if they are."""
        ...

    @property
    def topic(self) -> str | None:
        """The topic of all rows, if it is one."""
        ...

    def write(
        self, batches: Iterator[pa.RecordBatch], partition: int, batch: Batch | None
    ) -> Written:
        """Publish the rows of a partition, or stage them for a batch."""
        ...


@dataclass(frozen=True)
class NsqOutput:
    """Rows as messages of NSQ's topics."""

    settings: SinkSettings
    columns: Columns

    @property
    def topic(self) -> str | None:
        return self.settings.topic

    def write(
        self, batches: Iterator[pa.RecordBatch], partition: int, batch: Batch | None
    ) -> Written:
        reader = RowReader(self.columns, self.settings.topic, partition)
        if batch is None:
            return Written(publish_rows(batches, reader, self.settings))
        staged = stage_rows(batches, reader, self.settings, batch)
        return Written(reader.count, staged)


class BatchWriter(DataSourceArrowWriter):
    """``df.write``: the whole frame is one batch."""

    def __init__(self, output: Output, overwrite: bool = False) -> None:
        """Raise OptionError for what a batch write cannot do."""
        if overwrite:
            raise OptionError('messages of a topic cannot be overwritten: use mode("append")')
        self.output = output
        self.settings = output.settings
        self.settings.require_writer(streaming=False)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        written = self.output.write(iterator, current_task().partitionId(), self._batch())
        worker_memory.settle()
        return written

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        settings, batch = self.settings, self._batch()
        commits.commit(_staged(messages), settings.nodes, settings.access, batch)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        batch = self._batch()
        if batch is not None:
            commits.abort(batch, self.settings.nodes, self.settings.access)

    def _batch(self) -> Batch | None:
        number = self.settings.writer_batch
        if number is None:
            return None
        # In foreachBatch one writer may write several topics under one number.
        return Batch(self.settings.writer, number, self.output.topic or "")


class StreamWriter(DataSourceStreamArrowWriter):
    """``df.writeStream``: a micro-batch at a time, in any output mode."""

    def __init__(self, output: Output) -> None:
        """Raise OptionError for the options of a batch write."""
        self.output = output
        self.settings = output.settings
        self.settings.require_writer(streaming=True)
        worker_memory.settle()

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        task = current_task()
        batch = _micro_batch(task) if self.settings.exactly_once else None
        written = self.output.write(iterator, task.partitionId(), batch)
        worker_memory.settle()
        return written

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        commits.commit(_staged(messages), self.settings.nodes, self.settings.access)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        # Only tasks know the query: when all have failed, what they staged is left to expire.
        for staged in _staged(messages)[:1]:
            commits.abort(staged.batch, self.settings.nodes, self.settings.access)


def current_task() -> TaskContext:
    """The task that this process works for."""
    task = TaskContext.get()
    assert task is not None, "only tasks write"
    return task


def _staged(messages: Sequence[WriterCommitMessage | None]) -> list[StagedRows]:
    written = [message for message in messages if isinstance(message, Written)]
    return [message.staged for message in written if message.staged is not None]


def _micro_batch(task: TaskContext) -> Batch:
    query, number = task.getLocalProperty(_QUERY), task.getLocalProperty(_BATCH)
    if not query or number is None:
        raise SinkError("Spark tells no query id: exactlyOnce=true needs a stream's micro-batches")
    return Batch(query, int(number))


def output(options: Mapping[str, str], schema: StructType) -> NsqOutput:
    """The output of rows with this schema. Raises OptionError."""
    settings = SinkSettings.parse(options)
    settings.require_fixed_nodes()
    return NsqOutput(settings, Columns.of(schema, settings.topic))
