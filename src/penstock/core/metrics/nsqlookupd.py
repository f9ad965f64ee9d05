"""Metrics of nsqlookupd."""

from __future__ import annotations

from typing import Final

from penstock.core.metrics.declared import COUNT, MetricList

LIST: Final = MetricList()

PRODUCERS: Final = LIST.gauge("nsqlookupd_producers", "Connected nsqds.")
SILENT_PRODUCERS: Final = LIST.gauge(
    "nsqlookupd_silent_producers",
    "Those of them that look-ups leave out after --inactive-producer-timeout.",
)
TOPICS: Final = LIST.gauge("nsqlookupd_topics", "Topics that are registered, or were.")
CHANNELS: Final = LIST.gauge("nsqlookupd_channels", "Channels of these topics.")
EMPTY_TOPICS: Final = LIST.gauge(
    "nsqlookupd_topics_without_producers", "Topics that look-ups find no nsqd for."
)
TOMBSTONES: Final = LIST.gauge(
    "nsqlookupd_tombstones", "Topics of an nsqd that are hidden from look-ups now."
)
CONNECTIONS: Final = LIST.gauge("nsqlookupd_connections", "Open TCP connections.")
PRODUCERS_GONE: Final = LIST.counter(
    "nsqlookupd_producers_gone_total", "Connections of nsqds that have ended."
)
LOOKUPS: Final = LIST.counter(
    "nsqlookupd_lookups_total",
    "Answers to /lookup, by whether the topic is known.",
    COUNT,
    "found",
)
