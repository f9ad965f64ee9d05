"""Requests that clients of every kind send, as values: about routes, queues, offsets and messages.

A ``Request`` is the code and the fields as they go over the wire; what sends it, and how an answer
becomes a value or an error, is the client's: the core's, an administrator's, Spark's.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from penstock.rocketmq.protocol.codes import RequestCode
from penstock.rocketmq.protocol.message_queue import MessageQueue

COMMIT, SUSPEND, SUBSCRIPTION = 1, 2, 4
"""Bits of a pull's sysFlag: an offset to commit, leave to wait, a filter's text."""
TOOLS_GROUP: Final = "TOOLS_CONSUMER"
"""A group that every broker has: others may look into queues in its name."""


class Request(NamedTuple):
    """A code, fields and a body; the connection that sends them numbers and signs them."""

    code: RequestCode
    fields: dict[str, str]
    body: bytes = b""


# --- name servers ---------------------------------------------------------------------------------


def clusters() -> Request:
    """All clusters with their brokers."""
    return Request(RequestCode.GET_BROKER_CLUSTER_INFO, {})


def topic_list() -> Request:
    """The names of all topics."""
    return Request(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, {})


def route(topic: str) -> Request:
    """The brokers and queues of a topic."""
    fields = {"topic": topic, "acceptStandardJsonOnly": "true"}
    return Request(RequestCode.GET_ROUTEINFO_BY_TOPIC, fields)


# --- topics and queues of a broker ----------------------------------------------------------------


def topic_configs() -> Request:
    """The settings of all topics."""
    return Request(RequestCode.GET_ALL_TOPIC_CONFIG, {})


def topic_stats(topic: str) -> Request:
    """The bounds of a topic's queues."""
    return Request(RequestCode.GET_TOPIC_STATS_INFO, {"topic": topic})


def first_offset(queue: MessageQueue) -> Request:
    """The first offset that a queue still has."""
    return Request(RequestCode.GET_MIN_OFFSET, _place(queue))


def end_offset(queue: MessageQueue) -> Request:
    """The offset that the next message will have."""
    return Request(RequestCode.GET_MAX_OFFSET, _place(queue))


def offset_at(queue: MessageQueue, timestamp_ms: int) -> Request:
    """The offset of the first message that was stored at this time or later."""
    fields = _place(queue) | {"timestamp": str(timestamp_ms)}
    return Request(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, fields)


def _place(queue: MessageQueue) -> dict[str, str]:
    return {"topic": queue.topic, "queueId": str(queue.queueId)}


# --- groups and messages --------------------------------------------------------------------------


def committed(group: str, queue: MessageQueue, **more: str) -> Request:
    """A group's offset in a queue."""
    fields = {"consumerGroup": group, **_place(queue), **more}
    return Request(RequestCode.QUERY_CONSUMER_OFFSET, fields)


def commit(group: str, queue: MessageQueue, offset: int) -> Request:
    """Set a group to an offset of a queue."""
    fields = {"consumerGroup": group, **_place(queue), "commitOffset": str(offset)}
    return Request(RequestCode.UPDATE_CONSUMER_OFFSET, fields)


def pull(
    group: str, queue: MessageQueue, offset: int, most: int, *, sys_flag: int = SUBSCRIPTION,
    commit: int = 0, suspend_ms: int = 0, expression: str = "*", kind: str = "TAG",
) -> Request:  # fmt: skip
    """The next messages of a queue, ``most`` at most, those that the expression is for."""
    fields = {
        "consumerGroup": group,
        "topic": queue.topic,
        "queueId": str(queue.queueId),
        "queueOffset": str(offset),
        "maxMsgNums": str(most),
        "sysFlag": str(sys_flag),
        "commitOffset": str(commit),
        "suspendTimeoutMillis": str(suspend_ms),
        "subscription": expression,
        "subVersion": "0",
        "expressionType": kind,
    }
    return Request(RequestCode.PULL_MESSAGE, fields)
