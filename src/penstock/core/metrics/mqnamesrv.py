"""Metrics of mqnamesrv."""

from __future__ import annotations

from typing import Final

from penstock.core.metrics.declared import COUNT, MetricList

LIST: Final = MetricList()

BROKERS: Final = LIST.gauge("mqnamesrv_brokers", "Brokers that are registered now.")
CLUSTERS: Final = LIST.gauge("mqnamesrv_clusters", "Clusters that they belong to.")
TOPICS: Final = LIST.gauge("mqnamesrv_topics", "Topics that they have.")
CONNECTIONS: Final = LIST.gauge(
    "mqnamesrv_connections", "Open connections, of brokers and clients."
)
REGISTRATIONS: Final = LIST.counter(
    "mqnamesrv_registrations_total", "Registrations of brokers; each repeats its own every 30 s."
)
BROKERS_GONE: Final = LIST.counter(
    "mqnamesrv_brokers_gone_total",
    "Brokers taken out without a farewell, by the reason.",
    COUNT,
    "reason",
)
ROUTES: Final = LIST.counter(
    "mqnamesrv_routes_total",
    "Answers with a topic's route, by whether there is one.",
    COUNT,
    "found",
)
