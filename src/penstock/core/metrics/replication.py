"""Metrics of a node's second copy: the follower's lag, and a primary's followers."""

from __future__ import annotations

from typing import Final

from penstock.core.metrics.declared import BYTES, FLAG, MESSAGES, SECONDS, MetricList

LIST: Final = MetricList()

PRIMARY: Final = LIST.gauge(
    "nsqd_replication_primary", "1 if it takes publishes, 0 of a follower or fenced node.", FLAG
)
EPOCH: Final = LIST.gauge("nsqd_replication_epoch", "Epoch under which it is what it is.")
FOLLOWING: Final = LIST.gauge(
    "nsqd_replication_following", "1 while a follower reaches its primary.", FLAG
)
LAG_MESSAGES: Final = LIST.gauge(
    "nsqd_replication_lag_messages", "Messages that a follower knows to miss.", MESSAGES
)
LAG_BYTES: Final = LIST.gauge(
    "nsqd_replication_lag_bytes", "Bytes that a follower knows to miss.", BYTES
)
LAG_SECONDS: Final = LIST.gauge(
    "nsqd_replication_lag_seconds", "Time since a follower last had everything.", SECONDS
)
REPLICAS_ACKED: Final = LIST.gauge(
    "nsqd_replicas_acked", "Copies that an OK waits for by the settings; there if that is not 0."
)
REPLICAS_IN_FORCE: Final = LIST.gauge("nsqd_replicas_in_force", "Copies that an OK promises now.")
REPLICAS_WAITING: Final = LIST.gauge(
    "nsqd_replicas_messages_waiting",
    "Messages that are neither acknowledged nor visible, as they are not copied.",
    MESSAGES,
)
FOLLOWER_MESSAGES: Final = LIST.gauge(
    "nsqd_follower_lag_messages",
    "Messages that a follower had not, when it asked last.",
    MESSAGES,
    "follower",
)
FOLLOWER_BYTES: Final = LIST.gauge(
    "nsqd_follower_lag_bytes",
    "Bytes that a follower had not, when it asked last.",
    BYTES,
    "follower",
)
FOLLOWER_ASKED: Final = LIST.gauge(
    "nsqd_follower_asked_seconds",
    "Time since a follower asked last, each second while it has everything.",
    SECONDS,
    "follower",
)
