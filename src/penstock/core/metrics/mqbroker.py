"""Metrics of RocketMQ's port over a node."""

from __future__ import annotations

from typing import Final

from penstock.core.metrics.declared import BYTES, COUNT, MESSAGES, MetricList

LIST: Final = MetricList()

PUT_MESSAGES: Final = LIST.counter(
    "mqbroker_put_messages_total", "Messages stored for RocketMQ's clients.", MESSAGES
)
PUT_BYTES: Final = LIST.counter("mqbroker_put_bytes_total", "Bytes of these messages.", BYTES)
PUT_FAILURES: Final = LIST.counter(
    "mqbroker_put_failures_total", "Messages that could not be stored.", MESSAGES
)
GOT_MESSAGES: Final = LIST.counter(
    "mqbroker_got_messages_total", "Messages delivered to RocketMQ's clients.", MESSAGES
)
PULLS: Final = LIST.counter(
    "mqbroker_pulls_total", "Searches for messages, by whether there were some.", COUNT, "found"
)
HELD_PULLS: Final = LIST.gauge("mqbroker_held_pulls", "Pulls that wait for messages.")
DELAYED: Final = LIST.gauge(
    "mqbroker_delayed_messages", "Messages of delay levels whose time has not come.", MESSAGES
)
TIMERS: Final = LIST.gauge(
    "mqbroker_timer_messages", "Messages with a delivery time that has not come.", MESSAGES
)
CONNECTIONS: Final = LIST.gauge("mqbroker_connections", "Open connections of RocketMQ's clients.")
NAME_SERVERS: Final = LIST.gauge(
    "mqbroker_name_servers", "The name servers it is configured to register at."
)
NAME_SERVERS_CONNECTED: Final = LIST.gauge(
    "mqbroker_name_servers_connected", "Those of them that have registered it."
)
