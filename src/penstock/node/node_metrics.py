"""The metrics of a node: disk, memory under way, topics, channels and groups.

With thousands of channels the figures are gathered in pieces, between which the node does its work.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from penstock.broker.channels.channel import Channel
from penstock.broker.topic import Topic
from penstock.core.metrics import node as metrics
from penstock.core.metrics.declared import Metric
from penstock.core.metrics.exposition import Samples, labels
from penstock.core.quantiles import Summary
from penstock.core.units import SECOND
from penstock.net.vitals.vitals import HEALTHY
from penstock.storage.files.disk_space import DiskSpace

if TYPE_CHECKING:
    from penstock.broker.broker import Broker
    from penstock.net.budget import Memory
    from penstock.node.dialect import Dialect
    from penstock.node.log_groups import LogGroups

_PIECE: Final = 100
"""Channels between two breathers of the event loop: about a millisecond of work."""

_TOPIC: Final[tuple[tuple[Metric, Callable[[Topic], float]], ...]] = (
    (metrics.TOPIC_DEPTH, lambda topic: topic.depth),
    (metrics.TOPIC_BACKEND_DEPTH, lambda topic: topic.backend_depth),
    (metrics.TOPIC_MESSAGES, lambda topic: topic.message_count),
    (metrics.TOPIC_BYTES, lambda topic: topic.message_bytes),
    (metrics.TOPIC_REFUSED, lambda topic: topic.refused_count),
    (metrics.TOPIC_DROPPED, lambda topic: topic.dropped_count),
    (metrics.TOPIC_LOST, lambda topic: topic.damage.lost_messages),
    (metrics.TOPIC_DAMAGES, lambda topic: len(topic.damage.pending)),
    (metrics.TOPIC_PAUSED, lambda topic: topic.paused),
)
_CHANNEL: Final[tuple[tuple[Metric, Callable[[Channel], float]], ...]] = (
    (metrics.CHANNEL_DEPTH, lambda channel: channel.state.depth),
    (metrics.CHANNEL_BACKEND_DEPTH, lambda channel: channel.state.backend_depth),
    (metrics.CHANNEL_IN_FLIGHT, lambda channel: channel.state.in_flight_count),
    (metrics.CHANNEL_DEFERRED, lambda channel: channel.state.deferred_count),
    (metrics.CHANNEL_MESSAGES, lambda channel: channel.message_count),
    (metrics.CHANNEL_DELIVERIES, lambda channel: channel.delivered_count),
    (metrics.CHANNEL_REQUEUES, lambda channel: channel.requeue_count),
    (metrics.CHANNEL_TIMEOUTS, lambda channel: channel.timeout_count),
    (metrics.CHANNEL_LOST, lambda channel: channel.state.lost_count),
    (metrics.CHANNEL_DROPPED, lambda channel: channel.state.dropped_count),
    (metrics.CHANNEL_DEAD_LETTERS, lambda channel: channel.dead_letter_count),
    (metrics.CHANNEL_CLIENTS, lambda channel: len(channel.consumers)),
    (metrics.CHANNEL_PAUSED, lambda channel: channel.paused),
)


class NodeMetrics:
    """The figures of one node; ``source`` is for its ``Vitals``."""

    def __init__(
        self,
        broker: Broker,
        health: Callable[[], str],
        memory: Memory,
        log_groups: LogGroups,
        dialects: Sequence[Dialect],
        percentiles: tuple[float, ...],
    ) -> None:
        """``percentiles`` are the quantiles of latencies that are shown."""
        self._broker = broker
        self._health = health
        self._memory = memory
        self._log_groups = log_groups
        self._dialects = dialects
        self._percentiles = percentiles

    async def source(self) -> AsyncIterator[Samples]:
        """All metrics of the node."""
        for samples in (*self._of_node(), *self._of_memory()):
            yield samples
        for found in (self._of_topics(), self._of_groups(), self._of_log_groups()):
            for samples in await found:
                yield samples

    def _of_node(self) -> Iterator[Samples]:
        topics = self._broker.topics
        yield Samples.single(metrics.HEALTHY, self._health() == HEALTHY)
        yield Samples.single(metrics.TOPICS, len(topics))
        channels = sum(len(topic.channels) for topic in topics.values())
        yield Samples.single(metrics.CHANNELS, channels)
        space = DiskSpace.of(self._broker.store.data_path)
        if space is not None:
            yield Samples.single(metrics.DISK_SIZE, space.used + space.free)
            yield Samples.single(metrics.DISK_FREE, space.free)

    def _of_memory(self) -> Iterator[Samples]:
        requests, answers = self._memory
        yield Samples.single(metrics.REQUEST_BYTES, requests.used)
        yield Samples.single(metrics.REQUEST_BYTES_MAX, requests.limit)
        yield Samples.single(metrics.REQUEST_REFUSED, requests.refused)
        yield Samples.single(metrics.ANSWER_BYTES, answers.used)
        yield Samples.single(metrics.ANSWER_BYTES_MAX, answers.limit)
        yield Samples.single(metrics.ANSWER_REFUSED, answers.refused)

    async def _of_topics(self) -> list[Samples]:
        of_topic = [Samples(metric) for metric, _ in _TOPIC]
        of_channel = [Samples(metric) for metric, _ in _CHANNEL]
        topic_latency = Samples(metrics.TOPIC_LATENCY)
        channel_latency = Samples(metrics.CHANNEL_LATENCY)
        done = 0
        # A copy: topics may come and go while others have their turn.
        for topic in list(self._broker.topics.values()):
            own = {"topic": topic.name}
            shown = labels(own)
            for samples, (_, topic_value) in zip(of_topic, _TOPIC, strict=True):
                samples.add(topic_value(topic), shown)
            self._latency(topic_latency, own, topic.channels.values())
            for channel in list(topic.channels.values()):
                pairs = {**own, "channel": channel.name}
                shown = labels(pairs)
                for samples, (_, channel_value) in zip(of_channel, _CHANNEL, strict=True):
                    samples.add(channel_value(channel), shown)
                self._latency(channel_latency, pairs, (channel,))
                done += 1
                if done % _PIECE == 0:
                    await asyncio.sleep(0)
        return [*of_topic, *of_channel, topic_latency, channel_latency]

    async def _of_log_groups(self) -> list[Samples]:
        """Groups that read the log over HTTP; no metric without a group."""
        lag, age = Samples(metrics.LOG_GROUP_LAG), Samples(metrics.LOG_GROUP_AGE)
        for topic in [each for each in self._broker.topics.values() if each.groups]:
            for group in self._log_groups.of(topic):
                shown = labels({"topic": topic.name, "group": group.name})
                lag.add(group.lag, shown)
                age.add(group.age, shown)
            await asyncio.sleep(0)
        return [lag, age]

    async def _of_groups(self) -> list[Samples]:
        """Consumer groups of other dialects; none without such a dialect."""
        lag, rate = Samples(metrics.GROUP_LAG), Samples(metrics.GROUP_RATE)
        members = Samples(metrics.GROUP_MEMBERS)
        dialects = self._dialects
        for number, topic in enumerate(list(self._broker.topics) if dialects else ()):
            for group in [g for each in dialects for g in each.consumer_groups(topic)]:
                shown = labels({"topic": topic, "group": group.name})
                lag.add(group.lag, shown)
                rate.add(group.rate, shown)
                members.add(len(group.members), shown)
            if number % _PIECE == 0:
                await asyncio.sleep(0)
        return [lag, rate, members]

    def _latency(
        self, samples: Samples, pairs: Mapping[str, str], channels: Iterable[Channel]
    ) -> None:
        """The latencies of these channels together, if any are measured."""
        measured = [channel.latency for channel in channels if channel.latency is not None]
        if not measured:
            return
        summary = Summary.merged([each.summary() for each in measured])
        quantiles = [
            (each, summary.quantile(each) / SECOND if summary.count else math.nan)
            for each in self._percentiles
        ]
        total = sum(each.total_ns for each in measured)
        samples.summarize(pairs, quantiles, total / SECOND, sum(each.count for each in measured))
