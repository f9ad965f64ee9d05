"""The source whose tasks write an archive: of a file Spark sees its name and a count.

It plans as ``format("nsq")`` does, from the same checkpoint and with the same group; but a task
fetches, decodes and writes, and no message crosses into the JVM. A row of this source is a file in
its place, so the query's sink has nothing to do, and what Spark commits is there already.

Exactly once is by the names of the files. A batch that is planned again has the same splits, as the
checkpoint says how many messages one has, whatever cores and options it has now: so a task that
outlived its driver writes the same files as the one in its place. And what the archive held when
the query began, by its names, is not read again, whatever planned it: an earlier run whose
checkpoint is lost, or files that were joined since.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from penstock.spark import planning, worker_memory
from penstock.spark.archive.names import Holdings
from penstock.spark.archive.store import Store
from penstock.spark.archive.target import Target
from penstock.spark.archive.writing import Written, write_split
from penstock.spark.errors import SourceError
from penstock.spark.offsets import Bounds, Offsets, Place
from penstock.spark.planning import Split
from penstock.spark.read.batch import SplitPartition
from penstock.spark.read.reader import NSQ
from penstock.spark.read.stream import StreamReader
from penstock.spark.source_settings import SourceSettings

TARGET: Final = "target"
"""The option that has the target; the others are those of ``format("nsq")``."""
REPORT: Final = pa.schema(
    [
        ("topic", pa.string()),
        ("first", pa.int64()),
        ("last", pa.int64()),
        ("rows", pa.int64()),
        ("path", pa.string()),
    ]
)
"""A file that is in its place: the offsets of its messages, their number, and where it is."""


class ArchiveDataSource(DataSource):
    """The facade that Spark meets; ``register`` makes it known to a session."""

    @classmethod
    def name(cls) -> str:
        return "penstock_archive"

    def schema(self) -> str:
        return "topic string, first long, last long, rows long, path string"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        given = {key: value for key, value in self.options.items() if key.lower() != TARGET}
        target = Target.load(self.options[TARGET])
        return ArchiveReader(SourceSettings.parse(given, "stream"), target)


class ArchiveReader(StreamReader):
    """The planner, and in the tasks the writer."""

    def __init__(self, settings: SourceSettings, target: Target) -> None:
        super().__init__(settings, target.read, NSQ)
        self.archive = target

    @cached_property
    def _holdings(self) -> Holdings:
        """The ranges that were there when the query began: its own are behind its offsets."""
        return Holdings(Store.open(self.archive.root).files(self.settings.reads).ours)

    def _begin(self, bounds: Mapping[Place, Bounds]) -> Offsets:
        return {
            place: min(self._holdings.behind(bounds[place].log, at), bounds[place].end)
            for place, at in super()._begin(bounds).items()
        }

    def _split_rows(self, start: Offsets, end: Offsets, bounds: Mapping[Place, Bounds]) -> int:
        if planning.count(start, end) == 0:
            return 0  # the end of the batch before stays as it is
        rows = planning.split_rows(start, end, bounds, self.settings.partitions_min)
        return min(rows, self.settings.partition_records_max or rows)

    def _splits(
        self, start: Offsets, end: Offsets, bounds: Mapping[Place, Bounds], split_rows: int
    ) -> list[Split]:
        splits = planning.cut(
            start, end, bounds, split_rows or self._split_rows(start, end, bounds)
        )
        for split in splits:
            if not split.log:
                raise SourceError(
                    f"node {split.place.node} does not say which log topic {split.place.topic} "
                    "has, by which an archive knows its files: its Penstock is of a version "
                    'before that. Update it, or set writer = "spark" in [sink]'
                )
        return [
            replace(split, start=lower, end=upper)
            for split in splits
            for lower, upper in self._holdings.missing(split.log, split.start, split.end)
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, SplitPartition)
        store = Store.open(self.archive.root)
        for split in partition.splits:
            batches = self.log.read_split(split, self.columns, self.settings)
            for done in write_split(split, batches, self.archive, store):
                yield _report(done)
        worker_memory.settle()


def _report(done: Written) -> pa.RecordBatch:
    name = done.name
    row = {"topic": name.topic, "first": name.first, "last": name.last}
    return pa.RecordBatch.from_pylist([row | {"rows": done.rows, "path": done.path}], REPORT)
