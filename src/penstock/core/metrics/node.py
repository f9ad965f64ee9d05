"""Metrics of a node: what one data path holds, whichever program opened it.

The names begin with ``nsqd_`` in ``mqbroker`` too, so that one dashboard serves both.
"""

from __future__ import annotations

from typing import Final

from penstock.core.metrics.declared import (
    BYTES,
    COUNT,
    FLAG,
    MESSAGES,
    RATE,
    SECONDS,
    MetricList,
)

LIST: Final = MetricList()
_LATENCY: Final = "Time from publish to finish; quantiles are of the time window."
_OF_TOPIC: Final = ("topic",)
_OF_CHANNEL: Final = ("topic", "channel")
_OF_GROUP: Final = ("topic", "group")

HEALTHY: Final = LIST.gauge("nsqd_healthy", "1 unless writing failed or damage is pending.", FLAG)
TOPICS: Final = LIST.gauge("nsqd_topics", "Topics.")
CHANNELS: Final = LIST.gauge("nsqd_channels", "Channels of all topics.")
DISK_SIZE: Final = LIST.gauge(
    "nsqd_disk_size_bytes", "Bytes that the file system of the data path can hold.", BYTES
)
DISK_FREE: Final = LIST.gauge("nsqd_disk_free_bytes", "Bytes of them that are still free.", BYTES)

REQUEST_BYTES: Final = LIST.gauge("nsqd_request_bytes", "Memory held by requests under way.", BYTES)
REQUEST_BYTES_MAX: Final = LIST.gauge(
    "nsqd_request_bytes_max", "Limit set by --max-request-memory; 0: any number.", BYTES
)
REQUEST_REFUSED: Final = LIST.counter(
    "nsqd_request_refused_total", "Number of requests refused or delayed by it."
)
ANSWER_BYTES: Final = LIST.gauge("nsqd_answer_bytes", "Memory held by answers under way.", BYTES)
ANSWER_BYTES_MAX: Final = LIST.gauge(
    "nsqd_answer_bytes_max", "Limit set by --max-answer-memory; 0: any number.", BYTES
)
ANSWER_REFUSED: Final = LIST.counter(
    "nsqd_answer_refused_total", "Number of answers refused or delayed by it."
)

TOPIC_DEPTH: Final = LIST.gauge(
    "nsqd_topic_depth", "Messages that no channel has been given yet.", MESSAGES, *_OF_TOPIC
)
TOPIC_BACKEND_DEPTH: Final = LIST.gauge(
    "nsqd_topic_backend_depth", "Those of them beyond the memory queue.", MESSAGES, *_OF_TOPIC
)
TOPIC_MESSAGES: Final = LIST.counter(
    "nsqd_topic_messages_total", "Messages published since the start.", MESSAGES, *_OF_TOPIC
)
TOPIC_BYTES: Final = LIST.counter(
    "nsqd_topic_message_bytes_total", "Bytes of their bodies.", BYTES, *_OF_TOPIC
)
TOPIC_REFUSED: Final = LIST.counter(
    "nsqd_topic_refused_total",
    "Messages of publishes refused by a full topic.",
    MESSAGES,
    *_OF_TOPIC,
)
TOPIC_DROPPED: Final = LIST.counter(
    "nsqd_topic_dropped_total",
    "Messages dropped from a full topic, once a channel.",
    MESSAGES,
    *_OF_TOPIC,
)
TOPIC_LOST: Final = LIST.counter(
    "nsqd_topic_lost_total", "Messages lost to damage or a power cut.", MESSAGES, *_OF_TOPIC
)
TOPIC_DAMAGES: Final = LIST.gauge(
    "nsqd_topic_damages", "Damaged places that no operator has accepted.", COUNT, *_OF_TOPIC
)
TOPIC_PAUSED: Final = LIST.gauge(
    "nsqd_topic_paused", "1 while the topic is paused.", FLAG, *_OF_TOPIC
)

CHANNEL_DEPTH: Final = LIST.gauge(
    "nsqd_channel_depth", "Messages that wait to be delivered.", MESSAGES, *_OF_CHANNEL
)
CHANNEL_BACKEND_DEPTH: Final = LIST.gauge(
    "nsqd_channel_backend_depth", "Those of them beyond the memory queue.", MESSAGES, *_OF_CHANNEL
)
CHANNEL_IN_FLIGHT: Final = LIST.gauge(
    "nsqd_channel_in_flight", "Messages delivered and not finished yet.", MESSAGES, *_OF_CHANNEL
)
CHANNEL_DEFERRED: Final = LIST.gauge(
    "nsqd_channel_deferred", "Messages whose time has not come.", MESSAGES, *_OF_CHANNEL
)
CHANNEL_MESSAGES: Final = LIST.counter(
    "nsqd_channel_messages_total", "Messages that the channel was given.", MESSAGES, *_OF_CHANNEL
)
CHANNEL_DELIVERIES: Final = LIST.counter(
    "nsqd_channel_deliveries_total",
    "Messages sent to consumers, again or not.",
    MESSAGES,
    *_OF_CHANNEL,
)
CHANNEL_REQUEUES: Final = LIST.counter(
    "nsqd_channel_requeues_total", "Messages that consumers gave back.", MESSAGES, *_OF_CHANNEL
)
CHANNEL_TIMEOUTS: Final = LIST.counter(
    "nsqd_channel_timeouts_total",
    "Messages that were not finished in time.",
    MESSAGES,
    *_OF_CHANNEL,
)
CHANNEL_LOST: Final = LIST.counter(
    "nsqd_channel_lost_total", "Messages that were damaged in the log.", MESSAGES, *_OF_CHANNEL
)
CHANNEL_DROPPED: Final = LIST.counter(
    "nsqd_channel_dropped_total", "Messages dropped for want of room.", MESSAGES, *_OF_CHANNEL
)
CHANNEL_DEAD_LETTERS: Final = LIST.counter(
    "nsqd_channel_dead_letters_total",
    "Messages moved to the dead-letter topic.",
    MESSAGES,
    *_OF_CHANNEL,
)
CHANNEL_CLIENTS: Final = LIST.gauge(
    "nsqd_channel_clients", "Subscribed connections.", COUNT, *_OF_CHANNEL
)
CHANNEL_PAUSED: Final = LIST.gauge(
    "nsqd_channel_paused", "1 while the channel is paused.", FLAG, *_OF_CHANNEL
)
TOPIC_LATENCY: Final = LIST.summary("nsqd_topic_e2e_latency_seconds", _LATENCY, SECONDS, *_OF_TOPIC)
CHANNEL_LATENCY: Final = LIST.summary(
    "nsqd_channel_e2e_latency_seconds", _LATENCY, SECONDS, *_OF_CHANNEL
)

GROUP_LAG: Final = LIST.gauge(
    "nsqd_group_lag", "Messages behind a RocketMQ group's offsets.", MESSAGES, *_OF_GROUP
)
GROUP_RATE: Final = LIST.gauge(
    "nsqd_group_rate", "Messages a second that it got, of a minute.", RATE, *_OF_GROUP
)
GROUP_MEMBERS: Final = LIST.gauge("nsqd_group_members", "Connected members.", COUNT, *_OF_GROUP)
LOG_GROUP_LAG: Final = LIST.gauge(
    "nsqd_log_group_lag", "Messages behind a log group's offset.", MESSAGES, *_OF_GROUP
)
LOG_GROUP_AGE: Final = LIST.gauge(
    "nsqd_log_group_age_seconds",
    "Seconds since a log group moved last or had nothing to read.",
    SECONDS,
    *_OF_GROUP,
)
