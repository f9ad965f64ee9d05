"""``spark.readStream.format("nsq")``: micro-batches by log offset.

Spark keeps the positions in its checkpoint, so each range is planned and read the same way however
often it is retried. The broker-side group only holds retention: it follows what Spark has
committed. Spark calls ``commit`` one batch late and never for the last one, but the ``start``
given to ``latestOffset`` is already in the commit log, so that is what moves the group.

A topic that is deleted and created again has another log, whose id stands in the checkpoint beside
the offset. With failOnDataLoss=false a batch may so begin in one log and end in another: it reads
the other from its start. A node that was restored from a backup has the same log in another epoch:
a batch that begins in the one before goes back to where the two part. A node that calls itself
otherwise than before is known by its logs.

Spark does not write down where a query begins: when its first batch is run again, it asks for the
start once more, which is another one by then if it was the end of the log or a time ago. So the end
of that batch says where it began, also where it is empty, as the first one often is.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from uuid import uuid4

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow

from penstock.core.clock import process_cpu_ns
from penstock.core.ids import fork, is_another
from penstock.spark import planning
from penstock.spark.errors import SourceError
from penstock.spark.nodes.bounds import Cluster
from penstock.spark.offsets import (
    Bounds,
    Offsets,
    Place,
    Position,
    from_checkpoint,
    goes_on,
    logs_of,
    renamed,
    renames,
    to_checkpoint,
)
from penstock.spark.planning import Split
from penstock.spark.read.admission import Admission
from penstock.spark.read.batch import partitions_of, read_splits
from penstock.spark.read.positions import starting
from penstock.spark.read.reader import NSQ, Log
from penstock.spark.read.retention_hold import RetentionHold
from penstock.spark.source_settings import SourceSettings
from penstock.spark.warn_once import WarnOnce

# Spark asks an idle query every 13 ms. Waiting here makes that 10 times a second, which costs no
# latency worth the name beside the 150 ms of a micro-batch, and fewer where a question takes more
# processor time: then it is a hundredth of a core.
_IDLE_WAIT_S = 0.1
_IDLE_WAIT_S_MAX = 2.0
_IDLE_SHARE = 100


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """One lives in the planner process for the whole query; copies of it read in the tasks."""

    def __init__(self, settings: SourceSettings, columns: Sequence[str], log: Log = NSQ) -> None:
        self.settings = settings
        self.columns = columns
        self.log = log
        self._cluster: Cluster | None = None
        self._holding: RetentionHold | None = None
        self._admission = Admission(settings)
        self._once = WarnOnce()
        self._initial: dict[str, Any] | None = None
        self._target: Offsets | None = None
        self._waits = False
        self._held_back = False
        self._reported: dict[str, Any] | None = None
        self._rest: Position | None = None
        self._rest_start: dict[str, Any] | None = None
        self._rest_cpu_ns = 0
        self._known: Mapping[Place, Bounds] = {}
        self._tidied = False

    @property
    def cluster(self) -> Cluster:
        if self._cluster is None:
            self._cluster = self.log.cluster(self.settings)
        return self._cluster

    @property
    def holding(self) -> RetentionHold:
        if self._holding is None:
            self._holding = RetentionHold(self.cluster, self._once)
        return self._holding

    def initialOffset(self) -> dict[str, Any]:
        """The start of a new query, or of one whose first batch comes again; called twice by Spark,
        answered once.
        """
        # Kept: the end of a log, or a time ago, is another offset at the second call.
        if self._initial is None:
            bounds = self.cluster.bounds()
            offsets = self._begin(bounds)
            # By chance, but kept in the checkpoint: two queries never share a group by accident.
            group = self.settings.group or f"{self.settings.group_prefix}-{uuid4().hex[:12]}"
            position = Position(offsets, group, logs_of(bounds), _new_owner(), began=offsets)
            if self.settings.group is None:
                self._hold(position._replace(owner=""), bounds)
            else:
                # Where it is, it stays: it may hold what a first batch that comes again will read.
                self.cluster.claim(offsets, group, position.owner)
            self._initial = to_checkpoint(position)
        return self._initial

    def getDefaultReadLimit(self) -> ReadLimit:
        return self._admission.limit

    def prepareForTriggerAvailableNow(self) -> None:
        """Fix where this run ends."""
        # Where no known node has a topic, the checkpoint may know one that has left: see ``_end``.
        self._target = _ends(self.cluster.bounds(required=False))
        self._waits = True

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """The end of the next batch. ``start`` is already committed."""
        if self._rests(start):
            return start
        self._rest_start = None
        if self._held_back:
            time.sleep(_IDLE_WAIT_S)
        stored = self._position(start)
        bounds = self._known = self.cluster.bounds(stored.offsets, stored.logs)
        position = self._renamed(stored, bounds)
        kept = self._held(position.offsets, bounds, position.logs)
        # A topic or node that has just appeared is held from its start until its first batch is in.
        starts = {place: bound.start for place, bound in bounds.items()} | kept
        # Until it is in the checkpoint the owner would be another one after a restart.
        owner = "" if start == self._initial else position.owner
        self._hold(position._replace(offsets=starts, owner=owner), bounds)
        self._tidy_up(start, position)
        self._reported = to_checkpoint(position._replace(offsets=starts | _ends(bounds)))
        end = self._end(starts, bounds, reached=position.offsets)
        self._held_back = self._target is None and self._admission.hold_back(starts, end)
        if self._held_back:
            return start
        offsets = kept | self._admission.cut(limit, starts, end, bounds)
        logs = position.logs | logs_of(bounds, position.logs)
        began = position.began if offsets == position.offsets else None
        latest = to_checkpoint(
            position._replace(
                offsets=offsets,
                logs={place: log for place, log in logs.items() if place in offsets},
                owner=position.owner or _new_owner(),
                began=starts if position.is_beginning else began,
                split_rows=self._split_rows(starts, offsets, bounds) or position.split_rows,
            )
        )
        self._rest, self._rest_cpu_ns = position._replace(owner=owner), 0
        if latest == start and self._target is None:
            self._rest_start = start
        return latest

    def _rests(self, start: dict[str, Any]) -> bool:
        """True if nothing has come since the last call, nor before that; after a pause."""
        if self._rest_start is None or start != self._rest_start:
            return False
        took_s = (process_cpu_ns() - self._rest_cpu_ns) / 1e9 if self._rest_cpu_ns else 0.0
        time.sleep(min(max(_IDLE_WAIT_S, took_s * _IDLE_SHARE), _IDLE_WAIT_S_MAX))
        self._rest_cpu_ns = process_cpu_ns()
        if self.cluster.has_news():
            return False
        if self.holding.is_due and self._rest is not None:
            self._hold(self._rest, self._known)
        return True

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """The end of the log, for the lag shown in the query's progress."""
        return self._reported

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        first, last = self._stored(start), self._stored(end)
        if last.began is not None and first.is_beginning:
            first = first._replace(offsets=last.began, logs=last.logs)
        bounds = self._bounds_for(first, last)
        first, last = self._renamed(first, bounds), self._renamed(last, bounds)
        wanted = {place: offset for place, offset in last.offsets.items() if place in bounds}
        if not self.settings.fail_on_data_loss:
            wanted = self._still_there(wanted, bounds, last.logs)
        starts = _starts(first, last, bounds)
        starts = self._held(starts, {place: bounds[place] for place in wanted}, last.logs)
        absent = {place: at for place, at in last.offsets.items() if place not in bounds}
        for place in self.cluster.gone(absent):
            del absent[place]  # it was told, or that would have been an error
        splits = self._splits(starts, wanted | absent, bounds, last.split_rows)
        return partitions_of(splits, self.settings)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_splits(partition, self.log, self.columns, self.settings)

    def commit(self, end: dict[str, Any]) -> None:
        if self._known:
            self._hold(self._renamed(self._position(end), self._known), self._known)

    def stop(self) -> None:
        """Do nothing: sockets close with the process."""

    # --- for heirs --------------------------------------------------------------------------------

    def _begin(self, bounds: Mapping[Place, Bounds]) -> Offsets:
        """The offsets that a new query begins with."""
        return self._held(starting(self.settings, bounds, "latest"), bounds, {})

    def _split_rows(self, start: Offsets, end: Offsets, bounds: Mapping[Place, Bounds]) -> int:
        """The messages of a split, if the checkpoint is to keep it; else 0."""
        return 0

    def _splits(
        self, start: Offsets, end: Offsets, bounds: Mapping[Place, Bounds], split_rows: int
    ) -> Sequence[Split]:
        """The splits of a batch; ``split_rows`` is what the checkpoint has kept."""
        least, most = self.settings.partitions_min, self.settings.partition_records_max
        return planning.plan(start, end, bounds, least, most)

    # ----------------------------------------------------------------------------------------------

    def _position(self, stored: dict[str, Any]) -> Position:
        """A position of the checkpoint, with the group of the options."""
        position = self._stored(stored)
        return position._replace(group=self.settings.group or position.group)

    def _stored(self, stored: dict[str, Any]) -> Position:
        """A position of the checkpoint. Raises SourceError for that of another source."""
        try:
            return from_checkpoint(stored)
        except (KeyError, TypeError, ValueError, AttributeError):
            raise SourceError(
                f"the checkpoint has offsets of another source than format {self.settings.format}, "
                "which reads the log: give this query a new checkpoint"
            ) from None

    def _renamed(self, position: Position, bounds: Mapping[Place, Bounds]) -> Position:
        """The position with the names that nodes have now, known by their logs."""
        for place, now in renames(position.offsets, position.logs, bounds).items():
            self._once.warn(
                f"node {place.node} calls itself {now.node} now: topic {place.topic} (queue "
                f"{place.queue}) is read on there, as it has the same log"
            )
        return renamed(position, bounds)

    def _bounds_for(self, first: Position, last: Position) -> Mapping[Place, Bounds]:
        """The bounds that this batch was planned with; as they are now if it is repeated."""
        known = self._known
        moved = {
            place: offset
            for place, offset in last.offsets.items()
            if offset != first.offsets.get(place) or first.logs.get(place) != last.logs.get(place)
        }
        planned = all(
            place in known
            and offset <= known[place].end
            and _is_planned(known[place].log, last.logs.get(place, ""))
            for place, offset in moved.items()
        )
        if planned and known:
            return known
        return self.cluster.bounds_of_planned(first.offsets, last.offsets, last.logs)

    def _end(self, start: Offsets, bounds: Mapping[Place, Bounds], reached: Offsets) -> Offsets:
        ends = _ends(bounds)
        if self._target is not None:
            if self._waits:
                # Nodes that were waited for, or that only the checkpoint knows.
                late = {place: end for place, end in ends.items() if place in reached}
                self._target = late | self._target
                self._waits = False
            ends = {
                place: min(offset, ends[place])
                for place, offset in self._target.items()
                if place in bounds
            }
        return {place: max(offset, start.get(place, offset)) for place, offset in ends.items()}

    def _held(
        self, offsets: Offsets, bounds: Mapping[Place, Bounds], logs: Mapping[Place, str]
    ) -> Offsets:
        """The offsets, if the logs hold them; else an error, or without failOnDataLoss the starts
        of the logs and a warning.
        """
        if self.settings.fail_on_data_loss:
            planning.check(offsets, bounds, logs)
            return offsets
        offsets, skipped = planning.held(offsets, bounds, logs)
        for sentence in skipped:
            self._once.warn(sentence)
        return offsets

    def _still_there(
        self, wanted: Offsets, bounds: Mapping[Place, Bounds], logs: Mapping[Place, str]
    ) -> Offsets:
        """The ends of a batch that is repeated, but for those in logs that are there no more; of
        one that went back to what it was before, up to there.

        What took their place is for the next batch.
        """
        there = {}
        for place, offset in wanted.items():
            log, bound = logs.get(place, ""), bounds[place]
            parted = fork(log, bound.log)
            end = offset if parted is None else min(offset, parted.first)
            if end <= bound.end and not is_another(log, bound.log):
                there[place] = end
        for place in sorted(wanted.keys() - there.keys()):
            self._once.warn(
                f"topic {place.topic} (queue {place.queue}) on node {place.node} was deleted and "
                f"created again: what was planned up to offset {wanted[place]} is lost. Skipped, "
                "as failOnDataLoss=false"
            )
        return there

    def _hold(self, position: Position, bounds: Mapping[Place, Bounds]) -> None:
        reads = self.cluster.reads
        offsets = {place: at for place, at in position.offsets.items() if reads(place.topic)}
        self.holding.move(position._replace(offsets=offsets), bounds)

    def _tidy_up(self, start: dict[str, Any], position: Position) -> None:
        """Give up, once, what an earlier run held under another group or in other topics."""
        if self._tidied:
            return
        self._tidied = True
        stored = from_checkpoint(start)
        dropped = [place for place in stored.offsets if not self.cluster.reads(place.topic)]
        if stored.group != position.group:
            dropped = list(stored.offsets)
        self.cluster.give_up(dropped, stored.group)
        initial = from_checkpoint(self._initial or start)
        if initial.group != stored.group:
            self.cluster.give_up(initial.offsets, initial.group)


def _starts(first: Position, last: Position, bounds: Mapping[Place, Bounds]) -> Offsets:
    """The offsets that a batch begins with, in the logs in which it ends.

    A place is read from its start if it appeared since the last batch, or if its log did: then the
    ids differ, or, where they are not known, the offset to begin with is too high.
    """
    starts = {place: bounds[place].start if place in bounds else 0 for place in last.offsets}
    for place, offset in first.offsets.items():
        end = last.offsets.get(place, offset)
        log, later = first.logs.get(place, ""), last.logs.get(place, "")
        parted = fork(log, later)
        at = offset if parted is None else min(offset, parted.first)
        if place not in bounds or not (is_another(log, later) or at > end):
            starts[place] = at
    return starts


def _is_planned(log: str, planned: str) -> bool:
    return log == planned or goes_on(log, planned)


def _ends(bounds: Mapping[Place, Bounds]) -> Offsets:
    return {place: bound.end for place, bound in bounds.items()}


def _new_owner() -> str:
    """A name for nodes to tell this query by, and for people to find it by."""
    return f"{socket.gethostname()[:64]}-{uuid4().hex[:12]}"
