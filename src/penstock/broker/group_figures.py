"""Figures of a dialect's consumer groups, for statistics of all kinds."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

ROCKETMQ_PREFIX: Final = "rocketmq:"
"""The prefix of RocketMQ's groups among the groups that hold a topic's log."""


class GroupMember(Struct):
    """A connected client. ``version`` is what its dialect counts versions with."""

    client_id: str
    address: str
    language: str
    version: int


class ConsumerGroup(Struct):
    """One group on one topic. ``lag`` is over all queues in messages, ``rate`` messages a second
    that it was given over the last minute; ``committed`` are its queue offsets.
    """

    name: str
    model: str
    members: list[GroupMember]
    committed: dict[int, int]
    lag: int
    rate: float


class ProducerGroup(Struct):
    """Producers that say they belong together."""

    name: str
    members: list[GroupMember]
