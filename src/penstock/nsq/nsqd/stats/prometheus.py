"""/metrics: nsqd's figures for Prometheus, with --metrics.

NSQ has no such page. Names follow Prometheus' customs: counters end in `_total`, times are seconds,
sizes bytes; `process_*` and `python_*` are named as Prometheus' own clients name them. With
thousands of channels the page is gathered in pieces, between which nsqd does its work.
"""

from __future__ import annotations

import asyncio
import gc
import math
import platform
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

import penstock
from penstock.broker.channels.channel import Channel
from penstock.broker.topic import Topic
from penstock.core.exposition import CONTENT_TYPE, Metric, labels
from penstock.core.quantiles import Summary
from penstock.core.units import SECOND
from penstock.net import process
from penstock.net.http.server.service import Request, Response
from penstock.nsq.nsqd.stats import pipeline_metrics
from penstock.nsq.nsqd.stats.stat_sources import StatSources
from penstock.nsq.version import NSQ_VERSION

_PIECE: Final = 100
"""Channels between two breathers of the event loop: about a millisecond of work."""

_TopicRow = tuple[str, str, str, Callable[[Topic], float]]
_ChannelRow = tuple[str, str, str, Callable[[Channel], float]]

_TOPIC: Final[tuple[_TopicRow, ...]] = (
    ("nsqd_topic_depth", "gauge", "Messages that no channel has been given yet.",
     lambda topic: topic.depth),
    ("nsqd_topic_backend_depth", "gauge", "Those of them beyond the memory queue.",
     lambda topic: topic.backend_depth),
    ("nsqd_topic_messages_total", "counter", "Messages published since the start.",
     lambda topic: topic.message_count),
    ("nsqd_topic_message_bytes_total", "counter", "Bytes of their bodies.",
     lambda topic: topic.message_bytes),
    ("nsqd_topic_refused_total", "counter", "Messages of publishes refused by a full topic.",
     lambda topic: topic.refused_count),
    ("nsqd_topic_dropped_total", "counter", "Messages dropped from a full topic, once a channel.",
     lambda topic: topic.dropped_count),
    ("nsqd_topic_lost_total", "counter", "Messages lost to damage or a power cut.",
     lambda topic: topic.damage.lost_messages),
    ("nsqd_topic_damages", "gauge", "Damaged places that no operator has accepted.",
     lambda topic: len(topic.damage.pending)),
    ("nsqd_topic_paused", "gauge", "1 while the topic is paused.",
     lambda topic: topic.paused),
)  # fmt: skip
_CHANNEL: Final[tuple[_ChannelRow, ...]] = (
    ("nsqd_channel_depth", "gauge", "Messages that wait to be delivered.",
     lambda channel: channel.state.depth),
    ("nsqd_channel_backend_depth", "gauge", "Those of them beyond the memory queue.",
     lambda channel: channel.state.backend_depth),
    ("nsqd_channel_in_flight", "gauge", "Messages delivered and not finished yet.",
     lambda channel: channel.state.in_flight_count),
    ("nsqd_channel_deferred", "gauge", "Messages whose time has not come.",
     lambda channel: channel.state.deferred_count),
    ("nsqd_channel_messages_total", "counter", "Messages that the channel was given.",
     lambda channel: channel.message_count),
    ("nsqd_channel_deliveries_total", "counter", "Messages sent to consumers, again or not.",
     lambda channel: channel.delivered_count),
    ("nsqd_channel_requeues_total", "counter", "Messages that consumers gave back.",
     lambda channel: channel.requeue_count),
    ("nsqd_channel_timeouts_total", "counter", "Messages that were not finished in time.",
     lambda channel: channel.timeout_count),
    ("nsqd_channel_lost_total", "counter", "Messages that were damaged in the log.",
     lambda channel: channel.state.lost_count),
    ("nsqd_channel_dropped_total", "counter", "Messages dropped for want of room.",
     lambda channel: channel.state.dropped_count),
    ("nsqd_channel_dead_letters_total", "counter", "Messages moved to the dead-letter topic.",
     lambda channel: channel.dead_letter_count),
    ("nsqd_channel_clients", "gauge", "Subscribed connections.",
     lambda channel: len(channel.consumers)),
    ("nsqd_channel_paused", "gauge", "1 while the channel is paused.",
     lambda channel: channel.paused),
)  # fmt: skip
_LATENCY_HELP: Final = "Time from publish to finish; quantiles are of the time window."


class Metrics:
    """The page of one nsqd."""

    def __init__(self, sources: StatSources) -> None:
        self._sources = sources
        self._node = sources.node

    async def handle(self, request: Request) -> Response:
        """GET /metrics."""
        metrics = [*self._of_nsqd(), *self._of_connections(), *self._of_memory(),
                   *self._of_process(),
                   *await self._of_topics(), *await self._of_groups(),
                   *await self._of_log_groups(),
                   *pipeline_metrics.of(self._sources.pipelines.all())]  # fmt: skip
        body: list[bytes | memoryview] = []
        for metric in metrics:
            body.append(metric.text().encode())
            await asyncio.sleep(0)
        return Response(200, body, CONTENT_TYPE)

    def _of_nsqd(self) -> Iterator[Metric]:
        topics = self._node.broker.topics
        versions = {"version": NSQ_VERSION, "penstock": penstock.__version__,
                    "python": platform.python_version()}  # fmt: skip
        yield _single("nsqd_build_info", "Versions; the value is always 1.", 1, versions)
        yield _single(
            "nsqd_healthy",
            "1 unless writing failed or damage is pending.",
            self._node.health == "OK",
        )
        yield _single("nsqd_topics", "Topics.", len(topics))
        staged = self._sources.staged_parts.parts
        yield _single("nsqd_staged_batches", "Batches staged and not committed.", len(staged))
        yield _single("nsqd_staged_bytes", "Bytes of their parts.", staged.nbytes)
        yield _single("nsqd_staged_bytes_max", "The most bytes that may be staged.",
                      staged.nbytes_max)  # fmt: skip
        yield _single("nsqd_channels", "Channels of all topics.",
                      sum(len(topic.channels) for topic in topics.values()))  # fmt: skip

    def _of_connections(self) -> Iterator[Metric]:
        sessions = self._sources.sessions
        yield _single("nsqd_connections", "Open TCP connections.", len(sessions))
        yield _single("nsqd_tls_connections", "Those of them that use TLS.",
                      sum(session.connection.is_tls for session in sessions))  # fmt: skip
        compressed = Metric("nsqd_compressed_connections", "gauge", "Those that are compressed.")
        compressions = [session.connection.compression for session in sessions]
        for kind in ("snappy", "deflate"):
            compressed.add(compressions.count(kind), labels({"compression": kind}))
        yield compressed
        servers = self._sources.auth_servers
        if servers is not None:
            for what, help, count in (
                ("queries", "Clients that auth servers were asked about.", servers.query_count),
                ("failures", "Those queries without a valid answer.", servers.failure_count),
                ("denials", "Commands that the answers did not allow.", servers.denial_count),
            ):
                yield _single(f"nsqd_auth_{what}_total", help, count)

    def _of_memory(self) -> Iterator[Metric]:
        for what, budget in zip(("request", "answer"), self._node.memory, strict=True):
            for name, help, value in (
                ("bytes", f"Memory held by {what}s under way.", budget.used),
                ("bytes_max", f"Limit set by {budget.flag}; 0: any number.", budget.limit),
                ("refused_total", f"Number of {what}s refused or delayed by it.", budget.refused),
            ):
                yield _single(f"nsqd_{what}_{name}", help, value)

    def _of_process(self) -> Iterator[Metric]:
        memory, limit = process.memory(), process.open_files_max()
        for name, help, value in (
            ("process_cpu_seconds_total", "Processor time in user and system mode.",
             process.cpu_seconds()),
            ("process_resident_memory_bytes", "Memory in RAM.", memory.resident),
            ("process_virtual_memory_bytes", "Memory that is mapped.", memory.virtual),
            ("process_open_fds", "Open file handles.", process.open_files()),
            ("process_max_fds", "Limit of open file handles.",
             math.inf if limit is None else limit),
            ("process_start_time_seconds", "Start, in seconds since 1970.",
             self._node.started_ns / SECOND),
        ):  # fmt: skip
            yield _single(name, help, value)
        yield from _garbage_collections()
        pauses = self._sources.gc_pauses
        metric = Metric("python_gc_pause_seconds", "summary",
                        "How long collections took; quantiles are of the last 256.")  # fmt: skip
        quantiles = [(each, pauses.percentile(each * 100) / SECOND) for each in (0.95, 0.99, 1)]
        metric.summarize({}, quantiles, pauses.total_ns / SECOND, pauses.count)
        yield metric

    async def _of_topics(self) -> list[Metric]:
        of_topic = [Metric(name, kind, help) for name, kind, help, _ in _TOPIC]
        of_channel = [Metric(name, kind, help) for name, kind, help, _ in _CHANNEL]
        topic_latency = Metric("nsqd_topic_e2e_latency_seconds", "summary", _LATENCY_HELP)
        channel_latency = Metric("nsqd_channel_e2e_latency_seconds", "summary", _LATENCY_HELP)
        done = 0
        for topic in list(self._node.broker.topics.values()):
            own = {"topic": topic.name}
            shown = labels(own)
            for metric, (_, _, _, topic_value) in zip(of_topic, _TOPIC, strict=True):
                metric.add(topic_value(topic), shown)
            self._latency(topic_latency, own, topic.channels.values())
            for channel in list(topic.channels.values()):
                pairs = {**own, "channel": channel.name}
                shown = labels(pairs)
                for metric, (_, _, _, channel_value) in zip(of_channel, _CHANNEL, strict=True):
                    metric.add(channel_value(channel), shown)
                self._latency(channel_latency, pairs, (channel,))
                done += 1
                if done % _PIECE == 0:
                    await asyncio.sleep(0)
        return [*of_topic, *of_channel, topic_latency, channel_latency]

    async def _of_log_groups(self) -> list[Metric]:
        """Groups that read the log over HTTP; no metric without a group."""
        lag = Metric("nsqd_log_group_lag", "gauge", "Messages behind a log group's offset.")
        age = Metric("nsqd_log_group_age_seconds", "gauge",
                     "Seconds since a log group moved last or had nothing to read.")  # fmt: skip
        found = False
        for topic in [each for each in self._node.broker.topics.values() if each.groups]:
            for group in self._node.log_groups.of(topic):
                shown = labels({"topic": topic.name, "group": group.name})
                lag.add(group.lag, shown)
                age.add(group.age, shown)
                found = True
            await asyncio.sleep(0)
        return [lag, age] if found else []

    async def _of_groups(self) -> list[Metric]:
        """Consumer groups of other dialects; none without such a dialect."""
        lag = Metric("nsqd_group_lag", "gauge", "Messages behind a consumer group's offsets.")
        rate = Metric("nsqd_group_rate", "gauge", "Messages a second that it got, of a minute.")
        members = Metric("nsqd_group_members", "gauge", "Connected members.")
        dialects = self._node.dialects
        for number, topic in enumerate(list(self._node.broker.topics) if dialects else ()):
            for group in [g for each in dialects for g in each.consumer_groups(topic)]:
                shown = labels({"topic": topic, "group": group.name})
                lag.add(group.lag, shown)
                rate.add(group.rate, shown)
                members.add(len(group.members), shown)
            if number % _PIECE == 0:
                await asyncio.sleep(0)
        return [lag, rate, members] if dialects else []

    def _latency(
        self, metric: Metric, pairs: Mapping[str, str], channels: Iterable[Channel]
    ) -> None:
        """The latencies of these channels together, if any are measured."""
        measured = [channel.latency for channel in channels if channel.latency is not None]
        if not measured:
            return
        summary = Summary.merged([each.summary() for each in measured])
        quantiles = [
            (each, summary.quantile(each) / SECOND if summary.count else math.nan)
            for each in self._sources.options.e2e_processing_latency_percentiles
        ]
        total = sum(each.total_ns for each in measured)
        metric.summarize(pairs, quantiles, total / SECOND, sum(each.count for each in measured))


def _single(name: str, help: str, value: float, pairs: Mapping[str, str] | None = None) -> Metric:
    metric = Metric(name, "counter" if name.endswith("_total") else "gauge", help)
    metric.add(value, labels(pairs or {}))
    return metric


def _garbage_collections() -> Iterator[Metric]:
    for key, help in (
        ("collections", "Runs of the garbage collector."),
        ("collected", "Objects that it found to be garbage."),
        ("uncollectable", "Objects that it could not free."),
    ):
        what = "collections" if key == "collections" else f"objects_{key}"
        metric = Metric(f"python_gc_{what}_total", "counter", help)
        for generation, counts in enumerate(gc.get_stats()):
            metric.add(counts[key], labels({"generation": str(generation)}))
        yield metric
