"""The offsets that a batch takes, and their cutting into splits for the executors.

Pure arithmetic over offsets; the stream and the batch reader share it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil
from typing import Final

from penstock.core.ids import Fork, fork, is_another
from penstock.spark.errors import SourceError
from penstock.spark.offsets import Bounds, Offsets, Place

# Without minPartitions: a fraction of a second's work, beside which starting a task costs little.
SPLIT_BYTES: Final = 32 << 20
SPLITS_MAX: Final = 100_000
_TASKS_PER_CORE: Final = 4
_REQUEST_BYTES: Final = 64 << 10
"""The cost of a request beside its answer, as bytes of log."""
_FILE_BYTES: Final = 512 << 20
"""The most bytes of log that one file of an archive is made of."""
# A split below this many messages costs more in task overhead than it gains.
_SPLIT_ROWS_MIN = 10_000


@dataclass(frozen=True, slots=True)
class Split:
    """Offsets ``start`` to ``end`` (not included) of one place, read by one task."""

    place: Place
    address: str
    start: int
    end: int
    record_bytes: float
    log: str = ""


def admit(start: Offsets, end: Offsets, limit: int) -> Offsets:
    """``end``, cut so that at most ``limit`` messages lie after ``start``.

    Every place gives a message, the longest first if not all can, and the rest in proportion to its
    lag; so none starves.
    """
    lags = _lags(start, end)
    lag = sum(lags.values())
    if lag <= limit:
        return end
    waiting = sorted(filter(lags.__getitem__, lags), key=lags.__getitem__, reverse=True)
    # One message for each is put by first; ``left`` is what the lags share.
    left, others = max(0, limit - len(waiting)), max(1, lag - len(waiting))
    shares = {place: 1 + left * (lags[place] - 1) // others for place in waiting[:limit]}
    # What the divisions have rounded away goes to the longest.
    for place in waiting[: limit - sum(shares.values())]:
        shares[place] += 1
    # Places without a lag keep their end, so that they stay in the checkpoint.
    return {place: offset - lags[place] + shares.get(place, 0) for place, offset in end.items()}


def admit_bytes(
    start: Offsets, end: Offsets, limit: int, bounds: Mapping[Place, Bounds]
) -> Offsets:
    """``end``, cut so that about ``limit`` bytes of log lie after ``start``.

    Every place gives in proportion to its lag, and at least a message.
    """
    lags = _lags(start, end)
    nbytes = sum(lag * bounds[place].record_bytes for place, lag in lags.items())
    if nbytes <= limit:
        return end
    return {
        place: offset - lags[place] + ceil(lags[place] * limit / nbytes)
        for place, offset in end.items()
    }


def count(start: Offsets, end: Offsets) -> int:
    """The number of messages from one position to another."""
    return sum(_lags(start, end).values())


def _lags(start: Offsets, end: Offsets) -> dict[Place, int]:
    return {place: max(0, end[place] - start.get(place, end[place])) for place in end}


def plan(
    start: Mapping[Place, int],
    end: Mapping[Place, int],
    bounds: Mapping[Place, Bounds],
    partitions_min: int,
    rows_max: int | None = None,
) -> list[Split]:
    """Splits that cover ``start`` to ``end``; raises SourceError when the log cannot serve them.

    With ``partitions_min`` 0 their number follows the amount: the planner cannot know the cluster,
    as Spark runs it in a process beside the driver, without a session. None of them has more than
    ``rows_max`` messages.
    """
    ranges = {
        place: (start[place], last) for place, last in sorted(end.items()) if start[place] < last
    }
    rows = sum(last - first for first, last in ranges.values())
    wanted = partitions_min or _by_amount(ranges, bounds)
    rows_max = rows_max or max(1, rows)
    # All splits go through the planner's process: maxRecordsPerPartition=1 must not make millions.
    if rows > rows_max * SPLITS_MAX:
        raise SourceError(
            f"{rows} messages would be more than {SPLITS_MAX} partitions of maxRecordsPerPartition="
            f"{rows_max}: raise it, or set maxRecordsPerTrigger"
        )
    splits: list[Split] = []
    for place, (first, last) in ranges.items():
        bound = bounds.get(place)
        if bound is None:
            raise SourceError(unreachable(place, first))
        pieces = max(
            _pieces(last - first, rows, wanted, len(ranges)), ceil((last - first) / rows_max)
        )
        # Multiplied before it is divided: pieces differ by one message at most, and none is lost.
        edges = [first + (last - first) * piece // pieces for piece in range(pieces + 1)]
        splits += [
            Split(place, bound.address, lower, upper, bound.record_bytes, bound.log)
            for lower, upper in pairwise(edges)
        ]
    return splits


def split_rows(
    start: Offsets, end: Offsets, bounds: Mapping[Place, Bounds], partitions_min: int
) -> int:
    """The most messages of a split, for ``cut``: by the amount, at least ``partitions_min`` splits.

    At least 1, also where there is nothing to read.
    """
    lags = {place: lag for place, lag in _lags(start, end).items() if lag}
    rows = sum(lags.values())
    if not rows:
        return 1
    nbytes = sum(lag * bounds[place].record_bytes for place, lag in lags.items())
    record_bytes = max(1.0, nbytes / rows)
    least = ceil(min(_SPLIT_ROWS_MIN, SPLIT_BYTES / record_bytes))
    share = ceil(rows / (partitions_min or ceil(nbytes / SPLIT_BYTES) or 1))
    return max(1, min(max(least, share), int(_FILE_BYTES / record_bytes)))


def cut(
    start: Mapping[Place, int],
    end: Mapping[Place, int],
    bounds: Mapping[Place, Bounds],
    split_rows: int,
) -> list[Split]:
    """Splits of ``split_rows`` messages from the end of each place back to its start.

    They depend on nothing else: the same batch has the same ones whenever it is planned. Raises
    SourceError for a place that is not in ``bounds``.
    """
    splits = []
    for place, last in sorted(end.items()):
        first, bound = start[place], bounds.get(place)
        if first >= last:
            continue
        if bound is None:
            raise SourceError(unreachable(place, first))
        edges = [first, *reversed(range(last, first, -split_rows))]
        splits += [
            Split(place, bound.address, lower, upper, bound.record_bytes, bound.log)
            for lower, upper in pairwise(edges)
        ]
    return splits


def shared(splits: Sequence[Split], cores: int) -> list[tuple[Split, ...]]:
    """The splits of each task: one, or where there are many small ones several neighbours.

    Tasks are a few for each core, more only where each has ``SPLIT_BYTES`` to read: Spark starts
    one or two thousand tasks a second.
    """
    tasks = _TASKS_PER_CORE * max(1, cores)
    if len(splits) <= tasks:
        return [(split,) for split in splits]
    nbytes = sum((each.end - each.start) * each.record_bytes for each in splits)
    share = min(SPLIT_BYTES, nbytes / tasks) + _REQUEST_BYTES * len(splits) / tasks
    portions: dict[int, list[Split]] = {}
    before = 0.0
    # A task asks few nodes: those of one node are neighbours.
    for split in sorted(splits, key=lambda each: each.address):
        portions.setdefault(int(before / share), []).append(split)
        before += _REQUEST_BYTES + (split.end - split.start) * split.record_bytes
    return [tuple(portion) for portion in portions.values()]


def _by_amount(ranges: Mapping[Place, tuple[int, int]], bounds: Mapping[Place, Bounds]) -> int:
    """The number of splits of ``SPLIT_BYTES`` that the ranges make together."""
    sizes = (
        (last - first) * bounds[place].record_bytes
        for place, (first, last) in ranges.items()
        if place in bounds
    )
    return ceil(sum(sizes) / SPLIT_BYTES)


def _pieces(count: int, rows: int, partitions_min: int, ranges: int) -> int:
    # Each range is at least one split, so as many as were asked for are there already.
    if partitions_min <= ranges:
        return 1
    share = max(1, round(partitions_min * count / rows))
    # In proportion to the messages, but no task for a handful of them.
    return max(1, min(share, count // _SPLIT_ROWS_MIN))


def check(
    start: Mapping[Place, int], bounds: Mapping[Place, Bounds], logs: Mapping[Place, str]
) -> None:
    """Raise SourceError when an offset to read from is gone, of another log or not there yet."""
    for place, offset in sorted(start.items()):
        said = place in bounds and _lost(place, offset, bounds[place], logs.get(place, ""))
        if said:
            raise SourceError(said)


def held(
    start: Mapping[Place, int], bounds: Mapping[Place, Bounds], logs: Mapping[Place, str]
) -> tuple[Offsets, list[str]]:
    """``start`` moved to what the nodes hold, and what was skipped: for ``failOnDataLoss=false``.

    What cannot be read on with goes to the start of the log that is there, never to its end: then
    messages would be missed that nobody has read.
    """
    moved = dict(start)
    skipped = []
    for place, offset in sorted(start.items()):
        said = place in bounds and _lost(place, offset, bounds[place], logs.get(place, ""))
        if said:
            moved[place] = _going_on(offset, bounds[place], logs.get(place, ""))
            skipped.append(
                f"{said.partition('. Set ')[0]}. Skipped, as failOnDataLoss=false: it goes on at "
                f"offset {moved[place]}"
            )
    return moved, skipped


def _going_on(offset: int, bound: Bounds, log: str) -> int:
    """The offset to go on with: where an earlier life of the log ended, or the log's start."""
    parted = fork(log, bound.log)
    # Both lives have the same messages up to there, so nothing before it is read twice.
    at = bound.start if parted is None else min(offset, parted.first)
    return at if bound.start <= at <= bound.end else bound.start


def parted(log: str, other: str, offset: int) -> Fork | None:
    """The place where two lives of a log part, if a reader who is at ``offset`` in one has missed
    something of it, or has read what the other has not.
    """
    found = fork(log, other)
    return found if found is not None and (found.restored or offset > found.first) else None


def _lost(place: Place, offset: int, bound: Bounds, log: str) -> str:
    """The reason that nothing can be read from this offset of this log; empty if it can."""
    if is_another(log, bound.log):
        return replaced(place, offset, log, bound.log)
    if (found := parted(log, bound.log, offset)) is not None:
        return went_back(place, offset, found)
    if offset < bound.start:
        return gone(place, offset, bound.start)
    if offset > bound.end:
        return beyond(place, offset, bound.end)
    return ""


def replaced(place: Place, offset: int, log: str, other: str) -> str:
    """The sentence for a topic that was deleted and made again."""
    return (
        f"topic {place.topic} (queue {place.queue}) on node {place.node} was deleted and created "
        f"again: offset {offset} is of log {log}, the node has log {other} now, and what was not "
        f"read of {log} is lost. Set failOnDataLoss=false to read {other} from its start"
    )


def went_back(place: Place, offset: int, parted: Fork) -> str:
    """The sentence for a node that has gone back to what it was before."""
    how = "was restored from a backup" if parted.restored else "was replaced by a copy"
    back = min(offset, parted.first)
    return (
        f"node {place.node} {how}: topic {place.topic} (queue {place.queue}) has other messages "
        f"from offset {parted.first} on than before. It was read up to offset {offset}; what it "
        f"had behind {back} and was not read is lost. Set failOnDataLoss=false to read on from "
        f"offset {back}"
    )


def gone(place: Place, offset: int, start: int) -> str:
    """The sentence for an offset that retention has removed."""
    return (
        f"offset {offset} of topic {place.topic} (queue {place.queue}) on node {place.node} is "
        f"gone: the log starts at {start}. Set failOnDataLoss=false to go on from there"
    )


def beyond(place: Place, offset: int, end: int) -> str:
    """The sentence for an offset that the log has not reached."""
    return (
        f"offset {offset} of topic {place.topic} (queue {place.queue}) on node {place.node} is "
        f"beyond its end {end}: was the topic deleted and created again? Set failOnDataLoss=false "
        "to read it from its start"
    )


def backwards(place: Place, start: int, end: int) -> str:
    """The sentence for a read that would end before it starts."""
    return (
        f"the read of topic {place.topic} (queue {place.queue}) on node {place.node} starts at "
        f"offset {start}, after its end at offset {end}: nothing would be read there"
    )


def vanished(place: Place, offset: int, end: int) -> str:
    """The sentence for a topic that was deleted before all of it was read."""
    return (
        f"topic {place.topic} (queue {place.queue}) was deleted on node {place.node}: offsets "
        f"{offset} to {end} were not read and are lost. Set failOnDataLoss=false to go on"
    )


def deleted(place: Place, offset: int) -> str:
    """The sentence for a topic that is nowhere any more; all that is known of it was read."""
    return (
        f"topic {place.topic} was deleted on node {place.node}: it was read up to offset {offset} "
        "there, and what came after that is lost. Once it is there again, set failOnDataLoss=false "
        "to read it from its start"
    )


def unreachable(place: Place, offset: int) -> str:
    """The sentence for a place whose node is not among the ones that answer."""
    return (
        f"node {place.node} holds topic {place.topic} (queue {place.queue}) from offset {offset} "
        "on, but it is not among the nodes that the options give or lead to"
    )
