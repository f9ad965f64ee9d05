"""Rates, sums over nodes, and an hour and a day of both, made from samples of nodes.

Two tables. Sums (cluster, topic, channel, group, node) have a point for every sample; the parts,
which are a topic's, channel's or group's on one node and many more, have one a minute. Rates come
of the differences of counters on each node before they are summed up, so that a node that comes or
goes makes no peak; those of groups come from the nodes. Sums have the last depths of nodes that do
not answer in them (history/lost_nodes.py). A day of the sums has a point every five minutes, which
a file may keep over a restart (history/history_file.py).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from penstock.admin.history.day import Day
from penstock.admin.history.facts import FACTS, facts_of
from penstock.admin.history.history_file import HistoryFile
from penstock.admin.history.lost_nodes import LostNode, LostNodes
from penstock.admin.history.node_rows import NodeRows
from penstock.admin.history.ring import HOUR_S, Ring, Table
from penstock.admin.history.row_numbers import Key, Rows
from penstock.admin.history.sample import GROUP_MARK, Sample
from penstock.cluster.rates import rates

logger = logging.getLogger("penstock.nsqadmin")

# These bound the memory: 1,000 topics of 10 channels on 10 nodes take 254 MB an hour
# (bench/README.md, "nsqadmin's pages").
SUMS_MAX: Final = 16_384
PARTS_MAX: Final = 131_072
# An hour of looks 5 s apart. Shorter intervals keep a shorter time, not more memory.
POINTS_MAX: Final = 720
PART_S: Final = 60.0
"""The seconds between two points of a part."""
QUANTILES_MAX: Final = 3
FIGURE_MAX: Final = 1e30
"""More is nonsense of a node, and sums of it over nodes would not fit into a table."""
FIGURES: Final = ("depth", "in", "out", "in_flight", "requeues", "timeouts")
"""Messages, and messages a second; nanoseconds of latency for each quantile follow them."""
_DEPTH, _IN, _OUT, _IN_FLIGHT, _REQUEUES, _TIMEOUTS = range(len(FIGURES))
_LEVELS: Final = [_DEPTH, _IN_FLIGHT]
_RATES: Final = [_IN, _OUT, _REQUEUES, _TIMEOUTS]
_OF_CHANNELS: Final = slice(_OUT, _TIMEOUTS + 1)
"""The figures that a topic has as sums over its channels."""

Block = NDArray[np.float64]


class Series(NamedTuple):
    """An hour of one key: times in unix seconds, for each figure its values (NaN: not known).

    ``waiting`` are the depths, of a topic with those of its channels; ``partial`` is 1 where last
    figures of nodes that did not answer are in the values.
    """

    times: list[float]
    values: list[list[float]]
    waiting: list[float]
    partial: list[int]


class _Known:
    """A node: where its rows are, the same from sample to sample unless its topics change."""

    def __init__(self, sample: Sample, places: NodeRows) -> None:
        self.names, self.groups = sample.names, sample.groups.names
        self.sample, self.places = sample, places
        self.counters: Block | None = None
        """The counters of the sample before, NaN in new rows; groups have none."""
        self.time = 0.0

    def fits(self, sample: Sample) -> bool:
        """True if a sample has the same topics, channels and groups."""
        return self.names == sample.names and self.groups == sample.groups.names

    def lacks(self, sums: Rows, parts: Rows) -> bool:
        """True if something has no row although there is room for one."""
        return bool(
            (not sums.refused and (self.places.own_rows < 0).any())
            or (not parts.refused and (self.places.part_rows < 0).any())
        )

    def inherit(self, old: _Known) -> None:
        """Take over the counters of rows that were there before."""
        if old.counters is None:
            return
        before, now = (each.places.part_rows[: each.places.figures] for each in (old, self))
        where = {row: at for at, row in enumerate(before.tolist()) if row >= 0}
        found = np.array([where.get(row, -1) for row in now.tolist()], np.intp)
        self.counters = np.where(found >= 0, old.counters[:, found], np.nan)
        self.time = old.time


class History:
    """The last hour, and the last day. ``interval`` is the time between samples, in seconds."""

    def __init__(self, interval: float, file: HistoryFile | None = None) -> None:
        points = min(max(int(HOUR_S / interval), 1), POINTS_MAX)
        self.sums, self.parts = Rows(SUMS_MAX), Rows(PARTS_MAX)
        self._sum_ring, self._part_ring = Ring(points), Ring(int(HOUR_S / PART_S))
        self._day = Day(self.sums, _RATES, file)
        self._nodes: dict[str, _Known] = {}
        self.lost = LostNodes()
        self._seen: dict[int, NDArray[np.float64]] = {}
        self._full: set[str] = set()
        self.quantiles: list[float] = []
        """The quantiles of the latencies: those that were seen first, the highest first."""
        self.now: Table = np.empty((len(FIGURES), 0), np.float32)
        """The newest figures of the sums; NaN in rows that are not there."""
        self.answered: NDArray[np.float64] = np.empty(0)
        """The depths of the same rows at nodes that answer; NaN where there is no such node."""
        self.facts: Table = np.empty((len(FACTS), 0), np.float32)
        """The facts of the same rows."""
        self._gathered: Table | None = None
        self._gathered_since = 0.0
        self._gathered_count = 0
        self._time = 0.0

    @property
    def since(self) -> float:
        """The time of the oldest figures, in unix seconds; 0 before the first."""
        return self._sum_ring.since

    @property
    def nbytes(self) -> int:
        """Memory of the hour and the day so far."""
        return self._sum_ring.nbytes + self._part_ring.nbytes + self._day.ring.nbytes

    def restore(self, time: float) -> None:
        """Take over what the file has of the day before this time."""
        for point in self._day.restore(time):
            if not self.quantiles:
                self.quantiles = list(point.quantiles)
            if point.time >= time - HOUR_S:
                self._sum_ring.add(point.time, self._day.placed(point))

    def take(self, time: float, samples: Iterable[tuple[str, Sample]]) -> None:
        """The samples of one refresh, by node; ``time`` in unix seconds."""
        if time < self._time:
            self._turn_back(time)
        self._time = time
        given = list(samples)
        known = [self._locate(node, sample, time) for node, sample in given]
        self._lose(time, {node for node, _ in given})
        self._warn_of_bounds()
        self._learn_quantiles(sample for _, sample in given)
        figures = len(FIGURES) + len(self.quantiles)
        sums = np.zeros((figures, len(self.sums)))
        sums[len(FIGURES) :] = np.nan  # no latency is known of what nobody finishes
        seen = np.zeros(len(self.sums), bool)
        parts = np.full((figures, len(self.parts)), np.nan, np.float32)
        for (_, sample), node in zip(given, known, strict=True):
            block = self._figures(sample, node, time)
            columns, rows = node.places.parts
            parts[:, rows] = block[:, columns]
            _add_up(block, node.places, sums, seen)
        sums[:, ~seen] = np.nan
        self.answered = sums[_DEPTH].copy()
        partial = self._hold(time, sums)
        placed = ((each, at.places) for (_, each), at in zip(given, known, strict=True))
        away = (each.places for each in self.lost)
        self.facts = facts_of(placed, away, sums[_DEPTH], partial, self.sums.find(Key()))
        # Summed in 64 bits, kept in 32: half the memory, and a curve shows no more digits.
        self.now = sums.astype(np.float32)
        self._sum_ring.add(time, self.now)
        self._day.take(time, self.now, self.quantiles)
        self._gather(time, parts)
        self._forget(time)

    def series(self, key: Key, *, is_day: bool = False) -> Series | None:
        """An hour of this topic, channel, node, or of a pair of them; None when it is not known.

        A day, with a point every five minutes, of anything but such a pair.
        """
        is_part = bool(key.node and key.topic)
        rows, ring = (self.parts, self._part_ring) if is_part else (self.sums, self._sum_ring)
        if is_day and not is_part:
            ring = self._day.ring
        row = rows.find(key)
        if row is None:
            return None
        times, values = ring.series(row, rows.born[row])
        if is_part or not values:
            return Series(times, values, values[_DEPTH] if values else [], [0] * len(times))
        waiting = self._waiting(key, times, values[_DEPTH], ring)
        return Series(times, values, waiting, self.lost.partial(row, times))

    def dialects(self) -> dict[tuple[str, str], str]:
        """The kind of each group, by its topic and its name with the mark."""
        samples = (each.sample for each in (*self.lost, *self._nodes.values()))
        return {
            name: dialect
            for sample in samples
            for name, dialect in zip(sample.groups.names, sample.groups.dialects, strict=True)
        }

    def lags(self, rows: NDArray[np.intp], since: float) -> tuple[Block, Block]:
        """The times from ``since`` on, and the depths of these rows at each of them."""
        return self._figure(self._sum_ring, rows, since)

    def _figure(self, ring: Ring, rows: NDArray[np.intp], since: float) -> tuple[Block, Block]:
        born = np.array([self.sums.born[row] for row in rows.tolist()])
        return ring.figure(_DEPTH, rows, born, since)

    def _waiting(
        self, key: Key, times: list[float], depths: list[float], ring: Ring
    ) -> list[float]:
        """The depths of a topic with those of its channels; of anything else they are told."""
        if not key.topic or key.channel or not times:
            return depths
        rows = np.array(
            [
                row
                for row, each in enumerate(self.sums.keys)
                if each and each.topic == key.topic and not each.channel.startswith(GROUP_MARK)
            ],
            np.intp,
        )
        found = self._figure(ring, rows, times[0])[1]
        nothing = np.isnan(found).all(axis=1)
        waiting: list[float] = np.where(nothing, np.nan, np.nansum(found, axis=1)).tolist()
        return waiting

    # --- rows ----------------------------------------------------------------------------------

    def _locate(self, node: str, sample: Sample, time: float) -> _Known:
        known = self._nodes.get(node)
        self.lost.back(time, node)
        if known is None or not known.fits(sample) or known.lacks(self.sums, self.parts):
            placed = self._nodes[node] = self._placed(node, sample, time)
            if known is not None and known.names and sample.names:
                placed.inherit(known)
            return placed
        known.sample = sample
        return known

    def _lose(self, time: float, answering: set[str]) -> None:
        """Keep the last figures of nodes that do not answer; their rates restart when they do."""
        for node in self._nodes.keys() - answering:
            known = self._nodes.pop(node)
            self.lost.add(LostNode(node, known.time, known.sample, known.places))
        is_full = bool(self.sums.refused or self.parts.refused)
        self.lost.give_up(time, is_full=is_full)

    def _hold(self, time: float, sums: Block) -> NDArray[np.float64]:
        """Add the last figures of nodes that do not answer; the number of them in each row."""
        partial = np.zeros(sums.shape[1])
        for lost in self.lost:
            held, there = np.zeros((len(FIGURES), len(partial))), np.zeros(len(partial), bool)
            _add_up(_levels(lost.sample, lost.places), lost.places, held, there)
            rows = np.flatnonzero(_marked(held, lost.places))
            levels = np.ix_(np.array(_LEVELS), rows)
            sums[levels] = np.nan_to_num(sums[levels]) + held[levels]
            partial[rows] += 1
            self.lost.mark(time, lost.node, rows)
        return partial

    def _placed(self, node: str, sample: Sample, time: float) -> _Known:
        names = sample.names
        keys = [Key(topic) for topic, _ in names]
        keys += [Key(topic, channel) for topic, found in names for channel in found]
        keys += [Key(*name) for name in sample.groups.names]
        parts = [self.parts.row(key._replace(node=node), time) for key in keys]
        own = [self.sums.row(key, time) for key in keys]
        always = [self.sums.row(Key(node=node), time), self.sums.row(Key(), time)]
        return _Known(sample, NodeRows(sample, parts, own, always))

    def _warn_of_bounds(self) -> None:
        """Warn once that something has no row, and again only after everything had one."""
        for rows, what in (
            (self.sums, "topics, channels, groups and nodes"),
            (self.parts, "topics, channels and groups on nodes"),
        ):
            if not rows.refused:
                self._full.discard(what)
            elif what not in self._full:
                self._full.add(what)
                logger.warning(
                    "history: it has room for %d %s; what is more is not recorded",
                    rows.capacity,
                    what,
                )

    def _turn_back(self, time: float) -> None:
        """The clock was set back: without this nothing would be kept until it is as late again."""
        for known in self._nodes.values():
            known.time = min(known.time, time)
        for rows in (self.sums, self.parts):
            rows.turn_back(time)
        self.lost.turn_back(time)
        for last in self._seen.values():
            last[np.isfinite(last)] = time
        self._gathered_since = min(self._gathered_since, time)

    def _forget(self, time: float) -> None:
        """Free what has been away for an hour."""
        used = [each.places for each in (*self._nodes.values(), *self.lost)]
        for number, rows in enumerate((self.sums, self.parts)):
            last = self._seen.get(number, np.empty(0))
            last = np.concatenate([last, np.full(len(rows) - len(last), time)])
            self._seen[number] = last
            for places in used:
                for each in (
                    [places.own.rows, places.always] if number == 0 else [places.parts.rows]
                ):
                    last[each] = time
            # Where something found no room, rows that nobody uses are freed at once.
            gone = np.flatnonzero(last < time - (0 if rows.refused else HOUR_S)).tolist()
            if gone:
                rows.release(gone)
                last[gone] = np.inf  # until it is somebody's again

    # --- figures -------------------------------------------------------------------------------

    def _figures(self, sample: Sample, node: _Known, time: float) -> Block:
        """A node's figures by row. Rates are 0 the first time, and after counters went back."""
        plain = node.places.figures
        block = np.pad(_levels(sample, node.places), ((0, len(self.quantiles)), (0, 0)))
        block[len(FIGURES) :] = np.nan
        block[_OUT, plain:] = sample.groups.rates
        counters = np.stack((sample.messages, sample.done, sample.requeues, sample.timeouts))
        if node.counters is not None and time > node.time:
            grown = rates(node.counters, counters, time - node.time)
            block[_RATES, :plain] = np.fmax(grown, 0)  # NaN: 0
            block[_OUT, : node.places.topics] = 0  # consumers belong to channels, not to topics
        node.counters, node.time = counters, time
        for row, latencies in sample.latencies:
            for quantile, value in latencies:
                if value > 0 and quantile in self.quantiles:
                    block[len(FIGURES) + self.quantiles.index(quantile), row] = value
        return np.minimum(block, FIGURE_MAX, out=block)

    def _learn_quantiles(self, samples: Iterable[Sample]) -> None:
        if not self.quantiles:
            found = {pair[0] for each in samples for _, pairs in each.latencies for pair in pairs}
            self.quantiles = sorted(found, reverse=True)[:QUANTILES_MAX]

    def _gather(self, time: float, parts: Table) -> None:
        """Parts get the mean of a minute's rates, and the last of the rest."""
        before = self._gathered
        if before is not None:
            for figure in _RATES:
                old = before[figure]
                new = parts[figure, : len(old)]
                np.add(new, old, out=new, where=~np.isnan(old))
        self._gathered = parts
        self._gathered_count += 1
        if time - self._gathered_since >= PART_S:
            parts[_RATES] /= self._gathered_count
            self._part_ring.add(time, parts)
            self._gathered, self._gathered_since, self._gathered_count = None, time, 0


def _levels(sample: Sample, places: NodeRows) -> Block:
    """The depths, lags and messages in flight of a look by row, without any rates."""
    plain = places.figures
    block = np.zeros((len(FIGURES), len(places.part_rows)))
    block[_DEPTH, :plain], block[_IN_FLIGHT, :plain] = sample.depth, sample.in_flight
    block[_DEPTH, plain:] = sample.groups.lags
    return np.minimum(block, FIGURE_MAX, out=block)


def _marked(held: Block, places: NodeRows) -> NDArray[np.bool_]:
    """The rows in which some messages are; a topic that has none may have them in its channels."""
    marks: NDArray[np.bool_] = np.any(held[_LEVELS] > 0, axis=0)
    columns, rows = places.channels
    topics = places.above[columns][marks[rows]]
    marks[topics[topics >= 0]] = True
    return marks


def _add_up(block: Block, places: NodeRows, sums: Block, seen: NDArray[np.bool_]) -> None:
    """Add a node's rows to the sums they belong to; of latencies the highest counts.

    Groups read the log beside the channels: they are not part of a topic, a node or the cluster.
    """
    count, topics, plain = len(FIGURES), places.topics, places.figures
    columns, rows = places.own
    sums[:count, rows] += block[:count, columns]
    if count < len(sums):
        sums[count:, rows] = np.fmax(sums[count:, rows], block[count:, columns])
    seen[rows] = True
    if len(places.heads):  # what goes out of a topic is what goes out of its channels
        of_topics = np.add.reduceat(block[_OF_CHANNELS, :plain], places.heads, axis=1)
        columns, rows = places.headed
        sums[_OF_CHANNELS, rows] += of_topics[:, columns]
    everything = block[:count, :plain].sum(axis=1)
    everything[_IN] = block[_IN, :topics].sum()  # what its topics get, not their channels as well
    sums[:count, places.always] += everything[:, None]
    seen[places.always] = True
