"""``spark.read``: everything between two positions, fixed when it is planned."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from penstock.spark import planning
from penstock.spark.planning import Split
from penstock.spark.read.positions import span
from penstock.spark.read.reader import NSQ, Log, restrict
from penstock.spark.source_settings import SourceSettings


class SplitPartition(InputPartition):
    """A split in the wrapping that Spark asks for."""

    def __init__(self, split: Split | None) -> None:
        super().__init__(None)
        self.split = split


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
        return [SplitPartition(split) for split in splits] or [SplitPartition(None)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, SplitPartition)
        return self.log.read_split(partition.split, self.columns, self.settings)
