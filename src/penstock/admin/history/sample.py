"""One look at one node: its figures as columns, read from what its /stats answers.

Only what is shown is read, as a node may have ten thousand channels and is looked at often. Our
nsqd packs its figures (nsqd/stats/packed_stats.py), so that they are columns as they come; of Go's
answer, which knows nothing of that, they are put together.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from penstock.cluster.cluster import FIGURES_ONLY, STATS
from penstock.cluster.groups import LOG, PACKED_MARK, ROCKETMQ, ReportedGroups

Column = NDArray[np.float64]
Names = list[tuple[str, list[str]]]
"""Topics with their channels, in the order of the columns."""
Latencies = list[tuple[int, list[tuple[float, float]]]]
"""Rows that have some, each with pairs of a quantile and nanoseconds."""

FIGURES: Final = (
    "depth",
    "backend_depth",
    "in_flight_count",
    "deferred_count",
    "message_count",
    "requeue_count",
    "timeout_count",
    "client_count",
    "paused",
)
"""The figures read of a topic or channel, in the order of the columns; topics have some of them."""
TARGET: Final = STATS + FIGURES_ONLY
GROUP_MARK: Final = "@"
"""The mark that begins the channel of a group's row; no name of a channel begins with it."""
_FIGURE_BYTES: Final = 8


# These come from JSON, which has no cycles: the collector need not visit thousands of them.
class Quantile(Struct, gc=False):
    """A quantile of the latencies, and its value in nanoseconds."""

    quantile: float = 0
    value: float = 0


class E2e(Struct, gc=False):
    """The latencies from publish to finish, as /stats has them."""

    percentiles: list[Quantile] | None = None


class ChannelAnswer(Struct, gc=False):
    """A channel of a look."""

    channel_name: str = ""
    depth: int = 0
    backend_depth: int = 0
    in_flight_count: int = 0
    deferred_count: int = 0
    message_count: int = 0
    requeue_count: int = 0
    timeout_count: int = 0
    client_count: int = 0
    paused: bool = False
    e2e_processing_latency: E2e | None = None


class TopicAnswer(ReportedGroups, gc=False):
    """A topic of a look."""

    depth: int = 0
    backend_depth: int = 0
    message_count: int = 0
    paused: bool = False
    channels: list[ChannelAnswer] | None = None
    e2e_processing_latency: E2e | None = None


class StatsAnswer(Struct):
    """The fields of an nsqd's answer at ``TARGET`` that are read."""

    topics: list[TopicAnswer] | None = None


class PackedAnswer(Struct):
    """The answer of an nsqd of ours."""

    packed: bytes
    figures: list[str]
    topics: list[str]
    channels: list[list[str]]
    latencies: Latencies
    groups: list[ReportedGroups]

    def __post_init__(self) -> None:
        """ValueError, as which msgspec tells it, when the parts do not fit together."""
        rows = len(self.topics) + sum(map(len, self.channels))
        if missing := set(FIGURES).difference(self.figures):
            raise ValueError(f"without {', '.join(sorted(missing))}")
        if len(self.channels) != len(self.topics) or (
            len(self.packed) != rows * len(self.figures) * _FIGURE_BYTES
        ):
            raise ValueError("rows and names are not of the same number")
        # A daemon's answer is not trusted: numpy would take a negative row from the end.
        if any(not 0 <= row < rows for row, _ in self.latencies):
            raise ValueError("a latency of no row")


AnyAnswer = StatsAnswer | PackedAnswer


def answer_type(body: bytes) -> type[AnyAnswer]:
    """The type to read an answer as."""
    return PackedAnswer if body.startswith(PACKED_MARK) else StatsAnswer


class Groups(NamedTuple):
    """The groups of a look as columns. ``names`` are topics and, as channels, ``@group``."""

    names: list[tuple[str, str]]
    lags: Column
    rates: Column
    """Messages a second."""
    clients: Column
    """NaN where it is not known."""
    dialects: list[str]
    """The kind of each, as ``cluster.groups`` has them; RocketMQ's where both have the name."""


class Sample(Struct, eq=False):
    """The columns of a look: first all topics, then all channels, ``names`` in that order."""

    names: Names
    latencies: Latencies
    groups: Groups
    depth: Column
    backend_depth: Column
    in_flight: Column
    deferred: Column
    messages: Column
    requeues: Column
    timeouts: Column
    clients: Column
    paused: Column

    @property
    def done(self) -> Column:
        """Messages that came and do not wait, are not in flight and not deferred."""
        return self.messages - (self.depth + self.in_flight + self.deferred)


def sample_of(look: AnyAnswer) -> Sample:
    """The look as columns."""
    if isinstance(look, PackedAnswer):
        names = list(zip(look.topics, look.channels, strict=True))
        columns = np.frombuffer(look.packed, "<i8").reshape(-1, len(look.figures)).T
        wanted = columns[[look.figures.index(name) for name in FIGURES]].astype(np.float64)
        return Sample(names, look.latencies, _groups(look.groups), *wanted)
    topics = look.topics or []
    channels = [channel for topic in topics for channel in topic.channels or ()]
    names = [
        (topic.topic_name, [each.channel_name for each in topic.channels or ()]) for topic in topics
    ]
    latencies = list(_latencies([*topics, *channels]))
    return Sample(names, latencies, _groups(topics), *_columns(topics, channels))


def _columns(topics: Sequence[TopicAnswer], channels: Sequence[ChannelAnswer]) -> Column:
    """``FIGURES`` by topics and channels."""
    flat: list[int] = []
    for topic in topics:
        flat += (topic.depth, topic.backend_depth, 0, 0, topic.message_count, 0, 0, 0, topic.paused)
    for each in channels:
        flat += (
            each.depth,
            each.backend_depth,
            each.in_flight_count,
            each.deferred_count,
            each.message_count,
            each.requeue_count,
            each.timeout_count,
            each.client_count,
            each.paused,
        )
    try:  # twice as fast as numpy's own way from a list
        rows = np.frombuffer(struct.pack(f"<{len(flat)}q", *flat), "<i8").astype(np.float64)
    except struct.error:  # from a node that is not what it should be
        rows = np.array(flat, np.float64)
    return np.ascontiguousarray(rows.reshape(-1, len(FIGURES)).T)


def _groups(topics: Iterable[ReportedGroups]) -> Groups:
    """Groups of equal names, of different kinds, are one."""
    found: dict[tuple[str, str], tuple[int, float, float]] = {}
    dialects: dict[tuple[str, str], str] = {}
    for topic in topics:
        for kind, told in ((ROCKETMQ, topic.consumer_groups), (LOG, topic.log_groups)):
            for each in told or ():
                name = (topic.topic_name, GROUP_MARK + each.group_name)
                dialects.setdefault(name, kind)
                lag, rate, clients = found.get(name, (0, 0.0, 0.0))
                more = math.nan if each.client_count is None else each.client_count
                # NaN makes the sum NaN: where one is not known, neither is the sum.
                found[name] = (lag + each.lag, rate + each.rate, clients + more)
    lags, rates, members = np.array(list(found.values()), np.float64).reshape(-1, 3).T
    return Groups(list(found), lags, rates, members, list(dialects.values()))


def _latencies(
    rows: Sequence[TopicAnswer | ChannelAnswer],
) -> Iterable[tuple[int, list[tuple[float, float]]]]:
    for index, row in enumerate(rows):
        latency = row.e2e_processing_latency
        if latency is not None and latency.percentiles:
            yield index, [(each.quantile, each.value) for each in latency.percentiles]
