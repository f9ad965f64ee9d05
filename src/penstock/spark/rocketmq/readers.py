"""Batches and streams of ``format("rocketmq")``: those of ``nsq`` over other nodes and messages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from penstock.spark.nodes.bounds import Cluster
from penstock.spark.read.batch import NsqBatchReader, SplitPartition
from penstock.spark.read.stream import NsqStreamReader
from penstock.spark.rocketmq.reader import read_split
from penstock.spark.rocketmq.routes import cluster_of
from penstock.spark.rocketmq.settings import RocketmqSettings


class RocketmqBatchReader(NsqBatchReader):
    """A reader that plans beside the driver; a copy of it reads in each task."""

    def __init__(self, settings: RocketmqSettings, columns: Sequence[str]) -> None:
        super().__init__(settings, columns)
        self._settings = settings

    def cluster(self) -> Cluster:
        return cluster_of(self._settings)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, SplitPartition)
        return read_split(partition.split, self.columns, self._settings)


class RocketmqStreamReader(NsqStreamReader):
    """One lives in the planner process for the whole query; copies of it read in the tasks."""

    def __init__(self, settings: RocketmqSettings, columns: Sequence[str]) -> None:
        super().__init__(settings, columns)
        self._settings = settings

    @property
    def cluster(self) -> Cluster:
        if self._cluster is None:
            self._cluster = cluster_of(self._settings)
        return self._cluster

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, SplitPartition)
        return read_split(partition.split, self.columns, self._settings)
