"""Names of topics and groups: which are legal, and which are the broker's own (RocketMQ spec 6)."""

from __future__ import annotations

import re
from typing import Final

TOPIC_LENGTH_MAX: Final = 127
INNER_TOPIC_LENGTH_MAX: Final = 255
GROUP_LENGTH_MAX: Final = 255
FOLDER_LENGTH_MAX: Final = 245
"""The longest topic for which there can be a folder, which has ``@0.deleted`` behind it at its end:
file systems take 255 bytes.
"""
CLIENT_ID_LENGTH_MAX: Final = 1024

RETRY_PREFIX: Final = "%RETRY%"
DEAD_LETTER_PREFIX: Final = "%DLQ%"
TEMPLATE_TOPIC: Final = "TBW102"
SCHEDULE_TOPIC: Final = "SCHEDULE_TOPIC_XXXX"
TIMER_TOPIC: Final = "rmq_sys_wheel_timer"
HALF_TOPIC: Final = "RMQ_SYS_TRANS_HALF_TOPIC"
OP_HALF_TOPIC: Final = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
GIVEN_UP_HALF_TOPIC: Final = "TRANS_CHECK_MAX_TIME_TOPIC"
TRACE_TOPIC: Final = "RMQ_SYS_TRACE_TOPIC"
SELF_TEST_TOPIC: Final = "SELF_TEST_TOPIC"
BENCHMARK_TOPIC: Final = "BenchmarkTest"
OFFSET_MOVED_TOPIC: Final = "OFFSET_MOVED_EVENT"
TRANSACTION_GROUP: Final = "CID_RMQ_SYS_TRANS"

SYSTEM_TOPICS: Final = frozenset(
    (TEMPLATE_TOPIC, SCHEDULE_TOPIC, TIMER_TOPIC, HALF_TOPIC, OP_HALF_TOPIC, GIVEN_UP_HALF_TOPIC,
     TRACE_TOPIC, SELF_TEST_TOPIC, BENCHMARK_TOPIC, OFFSET_MOVED_TOPIC)
)  # fmt: skip
NOT_FOR_CLIENTS: Final = frozenset(
    (
        SCHEDULE_TOPIC,
        TIMER_TOPIC,
        HALF_TOPIC,
        OP_HALF_TOPIC,
        GIVEN_UP_HALF_TOPIC,
        SELF_TEST_TOPIC,
        OFFSET_MOVED_TOPIC,
    )
)
"""Topics that no client may send to."""
PREDEFINED_GROUPS: Final = (
    "TOOLS_CONSUMER",
    "FILTERSRV_CONSUMER",
    "SELF_TEST_C_GROUP",
    "CID_ONS-HTTP-PROXY",
    "CID_ONSAPI_PULL",
    "CID_ONSAPI_PERMISSION",
    "CID_ONSAPI_OWNER",
    TRANSACTION_GROUP,
)

_LEGAL = re.compile(r"[%|a-zA-Z0-9_-]+")


def retry_topic(group: str) -> str:
    """The topic where the messages of a group wait to be delivered again."""
    return RETRY_PREFIX + group


def is_group(resource: str) -> bool:
    """True if a topic of an access rule stands for a group: its retry topic."""
    return resource.startswith(RETRY_PREFIX)


def dead_letter_topic(group: str) -> str:
    """The topic of a group's messages that failed too often."""
    return DEAD_LETTER_PREFIX + group


def is_inner(topic: str) -> bool:
    """True if a topic belongs to a group, for its retries or dead letters."""
    return topic.startswith((RETRY_PREFIX, DEAD_LETTER_PREFIX))


def topic_problem(topic: str) -> str | None:
    """The reason why a topic's name is not legal, in Java's words; None when it is."""
    if not topic.strip():
        return "The specified topic is blank."
    if not _LEGAL.fullmatch(topic):
        return (
            f"The specified topic[{topic}] contains illegal characters, allowing only "
            "^[%|a-zA-Z0-9_-]+$"
        )
    longest = FOLDER_LENGTH_MAX if is_inner(topic) else TOPIC_LENGTH_MAX
    if len(topic) > longest:
        return f"The specified topic is longer than topic max length {longest}."
    return None


def group_problem(group: str) -> str | None:
    """The reason why a group's name is not legal; None when it is."""
    if not group.strip():
        return "The specified group is blank."
    if not _LEGAL.fullmatch(group):
        return (
            f"The specified group[{group}] contains illegal characters, allowing only "
            "^[%|a-zA-Z0-9_-]+$"
        )
    longest = FOLDER_LENGTH_MAX - len(RETRY_PREFIX)
    if len(group) > longest:
        return f"The specified group is longer than group max length {longest}."
    return None
