"""The rows of the view: topics, readers and clients, of all nodes together or of each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from penstock.cluster.figures import CHANNEL, NodeFigures, ReaderFigures, TopicFigures
from penstock.cluster.rates import History, Series, summed
from penstock.cluster.stats import ClientStats

ALL_NODES = ""
_COUNTS: Final = (
    "depth",
    "lag",
    "in_flight",
    "deferred",
    "requeued",
    "timed_out",
    "dead",
    "clients",
)
"""The counts that a row has in common with a reader, and that add up."""


@dataclass(slots=True)
class Row:
    """A line of figures. ``node`` is empty where those of several nodes are added up.

    ``trend`` is that of the lag; ``idle`` says that something waits and nobody reads it.
    """

    name: str
    kind: str = ""
    node: str = ALL_NODES
    depth: int = 0
    lag: int = 0
    rate_in: float | None = None
    rate_out: float | None = None
    in_flight: int = 0
    deferred: int = 0
    requeued: int = 0
    timed_out: int = 0
    dead: int = 0
    clients: int = 0
    readers: int = 0
    messages: int = 0
    nbytes: int = 0
    paused: bool = False
    idle: bool = False
    trend: int = 0
    rates: tuple[float, ...] = ()


def topic_rows(nodes: Iterable[NodeFigures], history: History, *, by_node: bool) -> list[Row]:
    """A row a topic, or one for each node that has it."""
    rows = [_topic_row(node.address, topic, history) for node in nodes for topic in node.topics]
    return rows if by_node else _together(rows)


def reader_rows(
    nodes: Iterable[NodeFigures], topic: str, history: History, *, by_node: bool
) -> list[Row]:
    """A row a channel or group of a topic, or one for each node that has it."""
    rows = [
        _reader_row(node.address, reader, history.of(node.address, topic, reader.key))
        for node in nodes
        for each in node.topics
        if each.name == topic
        for reader in each.readers
    ]
    return rows if by_node else _together(rows)


def members(
    nodes: Iterable[NodeFigures], topic: str, row: Row | None
) -> list[tuple[str, str, ClientStats]]:
    """Node, reader and client for those who consume a topic, or the reader of this row."""
    return [
        (node.address, reader.name, client)
        for node in nodes
        for each in node.topics
        if each.name == topic
        for reader in each.readers
        if row is None or _is_of(reader, node.address, row)
        for client in reader.members
    ]


def total(rows: Sequence[Row]) -> Row:
    """All rows added up."""
    return _sum([replace(row, name="total", node=ALL_NODES, kind="") for row in rows])


def _is_of(reader: ReaderFigures, node: str, row: Row) -> bool:
    return (reader.name, reader.kind) == (row.name, row.kind) and row.node in (ALL_NODES, node)


def _topic_row(node: str, topic: TopicFigures, history: History) -> Row:
    readers, series = topic.readers, history.of(node, topic.name)
    out = [history.of(node, topic.name, reader.key).rate_out for reader in readers]
    row = Row(
        topic.name,
        node=node,
        rate_in=series.rate_in,
        rate_out=None if series.rate_in is None else _rate([0.0, *out]),
        readers=len(readers),
        messages=topic.messages,
        nbytes=topic.nbytes,
        paused=topic.paused or any(reader.paused for reader in readers),
        idle=topic.depth > 0 or any(map(_is_idle, readers)),
        trend=series.trend,
        rates=tuple(series.rates_in()),
    )
    _add_up(row, readers)
    row.depth, row.lag = topic.depth, topic.lag  # readers of a topic wait for the same messages
    return row


def _reader_row(node: str, reader: ReaderFigures, series: Series) -> Row:
    row = Row(
        reader.name,
        reader.kind,
        node,
        rate_in=series.rate_in,
        rate_out=series.rate_out if reader.rate is None else reader.rate,
        messages=reader.done + reader.lag,
        paused=reader.paused,
        idle=_is_idle(reader),
        trend=series.trend,
        rates=tuple(series.rates_in()),
    )
    for name in _COUNTS:
        setattr(row, name, getattr(reader, name))
    return row


def _is_idle(reader: ReaderFigures) -> bool:
    """True if a channel's messages wait for nobody; groups of the log come and go unconnected."""
    return reader.kind == CHANNEL and not reader.clients and reader.depth > 0


def _together(rows: Iterable[Row]) -> list[Row]:
    by_name: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        by_name.setdefault((row.name, row.kind), []).append(replace(row, node=ALL_NODES))
    return [_sum(same) for same in by_name.values()]


def _sum(rows: Sequence[Row]) -> Row:
    if not rows:
        return Row("total")
    if len(rows) == 1:
        return rows[0]
    trends = {row.trend for row in rows}
    whole = Row(
        rows[0].name,
        rows[0].kind,
        rate_in=_rate([row.rate_in for row in rows]),
        rate_out=_rate([row.rate_out for row in rows]),
        readers=max(row.readers for row in rows),
        messages=sum(row.messages for row in rows),
        nbytes=sum(row.nbytes for row in rows),
        paused=any(row.paused for row in rows),
        idle=any(row.idle for row in rows),
        # Growing on one node is growing, whatever the others do.
        trend=1 if 1 in trends else min(trends),
        rates=tuple(summed([list(row.rates) for row in rows])),
    )
    _add_up(whole, rows)
    return whole


def _add_up(row: Row, parts: Sequence[ReaderFigures | Row]) -> None:
    """Set the counts of a row to the sums of these."""
    for name in _COUNTS:
        setattr(row, name, sum(getattr(each, name) for each in parts))


def _rate(rates: Iterable[float | None]) -> float | None:
    known = [rate for rate in rates if rate is not None]
    return sum(known) if known else None
