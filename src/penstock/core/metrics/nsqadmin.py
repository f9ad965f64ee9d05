"""Metrics of nsqadmin."""

from __future__ import annotations

from typing import Final

from penstock.core.metrics.declared import SECONDS, MetricList

LIST: Final = MetricList()

NODES: Final = LIST.gauge("nsqadmin_nodes", "Nodes that the last look at the cluster found.")
FAILURES: Final = LIST.gauge(
    "nsqadmin_failures", "Daemons that did not answer then: nsqds and nsqlookupds."
)
LOOKS: Final = LIST.counter("nsqadmin_looks_total", "Looks at all nodes, for the history.")
LOOK_SECONDS: Final = LIST.gauge(
    "nsqadmin_look_seconds", "Time that the last of them took.", SECONDS
)
LOOK_AGE: Final = LIST.gauge(
    "nsqadmin_look_age_seconds", "Time since the last of them ended.", SECONDS
)
NOTIFICATIONS: Final = LIST.counter(
    "nsqadmin_notifications_total", "Actions POSTed to --notification-http-endpoint."
)
NOTIFICATION_FAILURES: Final = LIST.counter(
    "nsqadmin_notification_failures_total", "Those that it did not take, or never got."
)
