"""A node in brief: its topics without their channels, which are most of what a node tells.

Of a thousand topics with ten channels each a page shows the topics, and the channels of those that
somebody has opened.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import numpy as np
from msgspec import Struct

from penstock.admin.history.sample import TARGET, Column, Sample, answer_type, sample_of
from penstock.cluster.cluster import Cluster
from penstock.cluster.fanout import Warnings, ask_all
from penstock.cluster.latency import Latency, Percentile
from penstock.cluster.producers import Producer
from penstock.cluster.stats import ChannelStats

OPEN_MAX: Final = 32
"""The most topics of a node whose channels are included."""


class InChannels(Struct):
    """The sums over all channels of a topic."""

    depth: int
    in_flight_count: int
    deferred_count: int
    client_count: int


class NodeTopic(Struct):
    """A topic on one node; ``channels`` only where they were asked for."""

    topic_name: str
    depth: int
    memory_depth: int
    backend_depth: int
    message_count: int
    paused: bool
    channel_names: list[str]
    in_channels: InChannels
    e2e_processing_latency: Latency | None
    channels: list[ChannelStats] | None = None


class BriefNode(Struct):
    """The answer of the API about a node."""

    node: str
    about: Producer
    topics: list[NodeTopic]
    total_messages: int
    total_clients: int
    message: str


async def brief(
    cluster: Cluster, node: Producer, opened: Iterable[str], warnings: Warnings
) -> BriefNode:
    """The node, with the channels of the topics that are opened. Raises NoAnswerError."""

    async def look(address: str) -> Sample:
        return sample_of(await cluster.http.get_as(address, TARGET, answer_type))

    async def channels(topic: str) -> list[ChannelStats]:
        found = await cluster.stats([node], warnings, topic, clients=True)
        return [channel for each in found for channel in each.channels or ()]

    names = list(dict.fromkeys(filter(None, opened)))[:OPEN_MAX]
    ((_, sample),) = (await ask_all("nsqd", [node.http_address], look)).answers
    told = await asyncio.gather(*map(channels, names))
    topics = node_topics(sample, dict(zip(names, told, strict=True)))
    return BriefNode(
        node.http_address,
        node,
        topics,
        sum(each.message_count for each in topics),
        sum(each.in_channels.client_count for each in topics),
        warnings.message,
    )


def node_topics(sample: Sample, opened: Mapping[str, list[ChannelStats]]) -> list[NodeTopic]:
    """The topics of a look at a node, with the channels of those that are opened."""
    return list(_rows(sample, opened))


def _rows(sample: Sample, opened: Mapping[str, list[ChannelStats]]) -> Iterator[NodeTopic]:
    depth, disk, messages, paused = _whole(
        sample.depth, sample.backend_depth, sample.messages, sample.paused
    )
    counts = [len(channels) for _, channels in sample.names]
    of = np.repeat(np.arange(len(counts)), counts)
    columns = (sample.depth, sample.in_flight, sample.deferred, sample.clients)
    sums = (np.bincount(of, each[len(counts) :], minlength=len(counts)) for each in columns)
    within = list(zip(*_whole(*(each.astype(np.float64) for each in sums)), strict=True))
    latencies = dict(sample.latencies)
    for row, (name, channels) in enumerate(sample.names):
        yield NodeTopic(
            name,
            depth[row],
            depth[row] - disk[row],
            disk[row],
            messages[row],
            bool(paused[row]),
            channels,
            InChannels(*within[row]),
            _latency(latencies.get(row)),
            opened.get(name),
        )


def _whole(*columns: Column) -> list[list[int]]:
    """The columns as integers, which JSON writes without a fraction."""
    return [
        np.nan_to_num(each).clip(-(2.0**62), 2.0**62).astype(np.int64).tolist() for each in columns
    ]


def _latency(quantiles: list[tuple[float, float]] | None) -> Latency | None:
    """Quantiles as the API has them; known here is whether any were measured, not how many."""
    if not quantiles:
        return None
    values = [
        Percentile(value, int(value > 0), value, value, quantile) for quantile, value in quantiles
    ]
    return Latency(max(each.count for each in values), values)
