"""``spark.readStream.format("nsq")``: micro-batches by log offset.

Spark keeps the positions in its checkpoint, so each range is planned and read the same way however
often it is retried. The broker-side group only holds retention: it follows what Spark has
committed. Spark calls ``commit`` one batch late and never for the last one, but the ``start``
given to ``latestOffset`` is already in the commit log, so that is what moves the group.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from uuid import uuid4

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from penstock.spark import planning
from penstock.spark.batch import SplitPartition
from penstock.spark.cluster import Cluster
from penstock.spark.errors import SourceError
from penstock.spark.offsets import (
    Bounds,
    Offsets,
    Place,
    from_checkpoint,
    nest,
    resolve,
    to_checkpoint,
)
from penstock.spark.reader import read_split
from penstock.spark.settings import Settings

# An idle query asks every 13 ms; waiting here makes that 10 times a second and costs no latency
# worth the name beside the 150 ms of a micro-batch.
_IDLE_WAIT_S = 0.1


class NsqStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """One lives in the planner process for the whole query; copies of it read in the tasks."""

    def __init__(self, settings: Settings, columns: Sequence[str]) -> None:
        self.settings = settings
        self.columns = columns
        self._cluster: Cluster | None = None
        self._initial: dict[str, Any] | None = None
        self._target: Offsets | None = None
        self._reported: dict[str, Any] | None = None
        self._committed: Offsets = {}
        self._last_start: Offsets = {}

    @property
    def cluster(self) -> Cluster:
        if self._cluster is None:
            self._cluster = Cluster(self.settings)
        return self._cluster

    def initialOffset(self) -> dict[str, Any]:
        """Where a new query starts; called twice by Spark, answered once."""
        if self._initial is None:
            bounds = self.cluster.bounds()
            starting = self.settings.starting or "latest"
            offsets = resolve(starting, "startingOffsets", bounds)
            offsets = self._checked(offsets, bounds)
            # Random, but kept in the checkpoint: two queries never share a group by accident.
            group = self.settings.group or f"spark-{uuid4().hex[:12]}"
            self._commit(offsets, group)
            self._initial = to_checkpoint(offsets, group)
        return self._initial

    def getDefaultReadLimit(self) -> ReadLimit:
        limit = self.settings.records_max
        return ReadAllAvailable() if limit is None else ReadMaxRows(limit)

    def prepareForTriggerAvailableNow(self) -> None:
        """Fix where this run ends."""
        self._target = _ends(self.cluster.bounds())

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """The end of the next batch. ``start`` is committed by now."""
        offsets, group = from_checkpoint(start)
        group = self.settings.group or group
        self._commit(offsets, group)
        bounds = self._bounds(idle=offsets == self._last_start)
        self._last_start = offsets
        offsets = self._checked(offsets, bounds, adjust=False)
        # A topic or node that has just appeared is held from its start until its first batch is in.
        self._commit({place: bound.start for place, bound in bounds.items()} | offsets, group)
        self._reported = to_checkpoint(offsets | _ends(bounds), group)
        end = self._end(offsets, bounds)
        if isinstance(limit, ReadMaxRows):
            known = {place: offsets.get(place, bounds[place].start) for place in end}
            end = planning.admit(known, end, limit.max_rows)
        return to_checkpoint(offsets | end, group)

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """The end of the log, for the lag shown in the query's progress."""
        return self._reported

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        first, _ = from_checkpoint(start)
        last, _ = from_checkpoint(end)
        bounds = self.cluster.bounds()
        # A place that appeared since the last batch is read from its beginning.
        first = {place: bounds[place].start for place in last if place in bounds} | first
        first = self._checked(first, bounds)
        splits = planning.plan(first, last, bounds, self.settings.partitions_min)
        return [SplitPartition(split) for split in splits]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, SplitPartition)
        return read_split(partition.split, self.columns, self.settings)

    def commit(self, end: dict[str, Any]) -> None:
        offsets, group = from_checkpoint(end)
        self._commit(offsets, self.settings.group or group)

    def stop(self) -> None:
        """Nothing to release: sockets close with the process."""

    def _bounds(self, idle: bool) -> Mapping[Place, Bounds]:
        """The log's bounds, after a short wait when nothing has come since the last call."""
        bounds = self.cluster.bounds()
        if idle and self._target is None and _ends(bounds).items() <= self._last_start.items():
            time.sleep(_IDLE_WAIT_S)
            bounds = self.cluster.bounds()
        return bounds

    def _end(self, start: Offsets, bounds: Mapping[Place, Bounds]) -> Offsets:
        ends = _ends(bounds)
        if self._target is not None:
            ends = {place: offset for place, offset in self._target.items() if place in bounds}
        return {place: max(offset, start.get(place, offset)) for place, offset in ends.items()}

    def _checked(
        self, offsets: Offsets, bounds: Mapping[Place, Bounds], adjust: bool = True
    ) -> Offsets:
        """The offsets, if the log holds them; else an error, or without failOnDataLoss the
        nearest ones it holds (``adjust``)."""
        if self.settings.fail_on_data_loss:
            planning.check(offsets, bounds)
            return offsets
        return planning.skip_gone(offsets, bounds) if adjust else offsets

    def _commit(self, offsets: Offsets, group: str) -> None:
        """Move the group. A failure only keeps segments longer, so it must not end the query."""
        if offsets == self._committed:
            return
        try:
            self.cluster.commit(nest(offsets), group)
        except SourceError as error:
            print(f"penstock: group {group} was not moved: {error}", file=sys.stderr)
        else:
            self._committed = offsets


def _ends(bounds: Mapping[Place, Bounds]) -> Offsets:
    return {place: bound.end for place, bound in bounds.items()}
