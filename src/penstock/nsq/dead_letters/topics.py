"""The topics that have dead letters, and those of their messages that are still to be dealt with.

A topic has dead letters when nsqd moves them there, when its name says so, or when it is RocketMQ's
``%DLQ%<group>``. Those to be dealt with are what the channel ``penstock-dlq`` has not finished;
before the first resend there is no such channel, and they are all that the log holds.
"""

from __future__ import annotations

from typing import Final

CHANNEL: Final = "penstock-dlq"
ROCKETMQ_PREFIX: Final = "%DLQ%"
SUFFIXES: Final = (".dead", ".dead#ephemeral")


def is_named_so(topic: str) -> bool:
    """True if a topic has dead letters by its name."""
    return is_rocketmq(topic) or topic.endswith(SUFFIXES)


def is_rocketmq(topic: str) -> bool:
    """True if the topic is of a RocketMQ group; NSQ's consumers cannot subscribe to it."""
    return topic.startswith(ROCKETMQ_PREFIX)


def group_of(topic: str) -> str:
    """The RocketMQ group whose dead letters these are; empty for NSQ's."""
    return topic.removeprefix(ROCKETMQ_PREFIX) if is_rocketmq(topic) else ""
