"""One look at one node: its figures as columns, read from what its /stats answers.

Only what charts need is read, as a node may have ten thousand channels and is looked at often.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from penstock.admin.cluster.reads import FIGURES_ONLY, STATS

Column = NDArray[np.float64]
Names = list[tuple[str, list[str]]]
"""Topics with their channels, in the order of the columns."""

TARGET: Final = STATS + FIGURES_ONLY
GROUP_MARK: Final = "@"
"""What the channel of a group's row begins with; no name of a channel does."""


class Quantile(Struct, gc=False):
    quantile: float = 0
    value: float = 0


class E2e(Struct, gc=False):
    percentiles: list[Quantile] | None = None


class GroupLook(Struct, gc=False):
    """A group that reads the topic's log."""

    group_name: str = ""
    lag: int = 0
    rate: float = 0


class ChannelLook(Struct, gc=False):
    """A channel of a look."""

    channel_name: str = ""
    depth: int = 0
    in_flight_count: int = 0
    deferred_count: int = 0
    message_count: int = 0
    requeue_count: int = 0
    timeout_count: int = 0
    client_count: int = 0
    paused: bool = False


class TopicLook(Struct, gc=False):
    """A topic of a look."""

    topic_name: str = ""
    depth: int = 0
    message_count: int = 0
    paused: bool = False
    channels: list[ChannelLook] | None = None
    consumer_groups: list[GroupLook] | None = None
    log_groups: list[GroupLook] | None = None


class Look(Struct):
    """What an nsqd answers at `TARGET`, as far as it is read."""

    topics: list[TopicLook] | None = None


class TimedChannelLook(ChannelLook, gc=False):
    """A channel with latencies."""

    e2e_processing_latency: E2e | None = None


class TimedTopicLook(TopicLook, gc=False):
    """A topic with latencies."""

    channels: list[TimedChannelLook] | None = None  # type: ignore[assignment]  # only ever read
    e2e_processing_latency: E2e | None = None


class TimedLook(Look):
    """The answer of an nsqd that measures latencies."""

    topics: list[TimedTopicLook] | None = None  # type: ignore[assignment]  # only ever read


def look_of(body: bytes) -> type[Look]:
    """What to read an answer as: without latencies a third of the time is saved."""
    return TimedLook if b'"quantile"' in body else Look


class Groups(NamedTuple):
    """The groups of a look as columns. `names` are topics and, as channels, `@group`."""

    names: list[tuple[str, str]]
    lags: Column
    rates: Column
    """Messages a second."""


class Sample(Struct, eq=False):
    """The columns of a look: first all topics, then all channels, `names` in that order."""

    names: Names
    depth: Column
    in_flight: Column
    held: Column
    """Messages that came and have not gone: waiting, in flight or deferred."""
    messages: Column
    requeues: Column
    timeouts: Column
    clients: Column
    paused: Column
    latencies: list[tuple[int, list[tuple[float, float]]]]
    """Rows that have some, each with pairs of a quantile and nanoseconds."""
    groups: Groups


def sample_of(look: Look) -> Sample:
    """The look as columns."""
    topics = look.topics or []
    channels = [channel for topic in topics for channel in topic.channels or ()]
    rows: list[TopicLook | ChannelLook] = [*topics, *channels]
    topics_count = len(topics)
    depth = _column([each.depth for each in rows])
    in_flight = _column([each.in_flight_count for each in channels], topics_count)
    deferred = _column([each.deferred_count for each in channels], topics_count)
    return Sample(
        names=[
            (topic.topic_name, [each.channel_name for each in topic.channels or ()])
            for topic in topics
        ],
        depth=depth,
        in_flight=in_flight,
        held=depth + in_flight + deferred,
        messages=_column([each.message_count for each in rows]),
        requeues=_column([each.requeue_count for each in channels], topics_count),
        timeouts=_column([each.timeout_count for each in channels], topics_count),
        clients=_column([each.client_count for each in channels], topics_count),
        paused=_column([each.paused for each in rows]),
        latencies=list(_latencies(rows)) if isinstance(look, TimedLook) else [],
        groups=_groups(topics),
    )


def _groups(topics: list[TopicLook]) -> Groups:
    """Groups of equal names, of different kinds, are one."""
    found: dict[tuple[str, str], tuple[int, float]] = {}
    for topic in topics:
        for told in (topic.consumer_groups, topic.log_groups):
            for each in told or ():
                name = (topic.topic_name, GROUP_MARK + each.group_name)
                lag, rate = found.get(name, (0, 0.0))
                found[name] = (lag + each.lag, rate + each.rate)
    lags, rates = zip(*found.values(), strict=True) if found else ((), ())
    return Groups(list(found), np.array(lags, np.float64), np.array(rates, np.float64))


def _column(numbers: Sequence[int], topics_count: int = 0) -> Column:
    """After zeros for topics, which have no such number."""
    column = np.zeros(topics_count + len(numbers))
    try:  # twice as fast as asking for floats
        column[topics_count:] = np.array(numbers, np.int64)
    except OverflowError:  # from a node that is not what it should be
        column[topics_count:] = np.array(numbers, np.float64)
    return column


def _latencies(
    rows: Sequence[TopicLook | ChannelLook],
) -> Iterable[tuple[int, list[tuple[float, float]]]]:
    for index, row in enumerate(rows):
        assert isinstance(row, TimedTopicLook | TimedChannelLook)
        latency = row.e2e_processing_latency
        if latency is not None and latency.percentiles:
            yield index, [(each.quantile, each.value) for each in latency.percentiles]
