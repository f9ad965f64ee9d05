"""Withdrawing the permission to read, in each of the places that may."""

from __future__ import annotations

from penstock.rocketmq.broker.services import Services
from penstock.rocketmq.broker.state.groups import GroupConfig
from penstock.rocketmq.broker.state.topics import WRITE
from penstock.rocketmq.protocol.registration import TopicConfig

PLACES = ("topic", "group", "broker")


def forbid_reading(services: Services, place: str) -> None:
    """Let group G no longer read topic T, which has one queue."""
    if place == "topic":
        services.topics.put(TopicConfig("T", 1, 1, WRITE), 2)
    elif place == "group":
        services.groups.put(GroupConfig("G", consume_enable=False), 2)
    else:
        services.settings.broker_permission = WRITE
