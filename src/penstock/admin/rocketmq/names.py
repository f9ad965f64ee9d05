"""Kinds of topics and groups, by their names."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from penstock.rocketmq.client.names import DEAD, RETRY

NORMAL: Final = "normal"
RETRIES: Final = "retry"
DEAD_LETTERS: Final = "dlq"
SYSTEM: Final = "system"
_SYSTEM_TOPICS: Final = frozenset(
    ("TBW102", "SELF_TEST_TOPIC", "BenchmarkTest", "OFFSET_MOVED_EVENT", "DefaultCluster")
)
_SYSTEM_PREFIXES: Final = ("RMQ_SYS_", "rmq_sys_", "SCHEDULE_TOPIC_", "TRANS_CHECK_")
_SYSTEM_GROUPS: Final = frozenset(
    ("TOOLS_CONSUMER", "FILTERSRV_CONSUMER", "SELF_TEST_C_GROUP", "CID_ONS-HTTP-PROXY",
     "CID_ONSAPI_PULL", "CID_ONSAPI_PERMISSION", "CID_ONSAPI_OWNER", "CLIENT_INNER_PRODUCER",
     "SELF_TEST_P_GROUP", "__MONITOR_CONSUMER")
)  # fmt: skip


def kind_of(topic: str, servers: Collection[str] = ()) -> str:
    """The kind of a topic; ``servers`` are names of clusters and brokers, which have one each."""
    if topic.startswith(RETRY):
        return RETRIES
    if topic.startswith(DEAD):
        return DEAD_LETTERS
    if topic in _SYSTEM_TOPICS or topic.startswith(_SYSTEM_PREFIXES) or topic in servers:
        return SYSTEM
    is_reply = topic.endswith("_REPLY_TOPIC") and topic.removesuffix("_REPLY_TOPIC") in servers
    return SYSTEM if is_reply else NORMAL


def is_system_group(group: str) -> bool:
    """True for groups of the broker and of tools."""
    return group in _SYSTEM_GROUPS or group.startswith("CID_RMQ_SYS_")


def group_of(topic: str) -> str:
    """The group of a retry or dead-letter topic; empty for others."""
    return next((topic.removeprefix(each) for each in (RETRY, DEAD) if topic.startswith(each)), "")
