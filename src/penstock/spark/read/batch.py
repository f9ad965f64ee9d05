"""``spark.read``: everything between two positions, fixed when it is planned."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from penstock.spark import planning, worker_memory
from penstock.spark.planning import Split
from penstock.spark.read.positions import span
from penstock.spark.read.reader import NSQ, Log, restrict
from penstock.spark.source_settings import SourceSettings


class SplitPartition(InputPartition):
    """The splits of a task in the wrapping that Spark asks for."""

    def __init__(self, splits: Sequence[Split] = ()) -> None:
        super().__init__(None)
        self.splits = splits


def partitions_of(splits: Sequence[Split], settings: SourceSettings) -> list[InputPartition]:
    """A partition for each task. Without ``minPartitions`` the driver's cores count: those of a
    cluster are not known here.
    """
    cores = settings.partitions_min or os.cpu_count() or 1
    return [SplitPartition(each) for each in planning.shared(splits, cores)]


def read_splits(
    partition: InputPartition, log: Log, columns: Sequence[str], settings: SourceSettings
) -> Iterator[pa.RecordBatch]:
    """The messages of a task, one split after the other. Raises SourceError."""
    assert isinstance(partition, SplitPartition)
    for split in partition.splits:
        yield from log.read_split(split, columns, settings)
    worker_memory.settle()


class BatchReader(DataSourceReader):
    """A reader that plans beside the driver; a copy of it reads in each task."""

    def __init__(self, settings: SourceSettings, columns: Sequence[str], log: Log = NSQ) -> None:
        self.settings = settings
        self.columns = columns
        self.log = log

    def partitions(self) -> Sequence[InputPartition]:
        settings = self.settings
        bounds = self.log.cluster(settings).bounds()
        start, end = restrict(*span(settings, bounds), bounds, settings)
        least, most = settings.partitions_min, settings.partition_records_max
        splits = planning.plan(start, end, bounds, least, most)
        # Spark reads one partition of nothing when it is given none.
        return partitions_of(splits, settings) or [SplitPartition()]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_splits(partition, self.log, self.columns, self.settings)
