"""Groups in numbers, for the statistics of the program around the broker."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from penstock.broker.group_figures import ConsumerGroup, GroupMember, ProducerGroup
from penstock.rocketmq.broker.state.clients import MESSAGE_MODELS

if TYPE_CHECKING:
    from penstock.rocketmq.broker.controller import Controller
    from penstock.rocketmq.broker.state.clients import Member
    from penstock.rocketmq.remoting import Connection

_CLUSTERING = MESSAGE_MODELS[1]


def consumer_groups(controller: Controller, topic: str) -> list[ConsumerGroup]:
    """The groups that subscribe to a topic now, or have committed offsets in it, by name."""
    online = [name for name, group in controller.clients.consumers.items()
              if topic in group.subscriptions]  # fmt: skip
    return [
        _group(controller, topic, name)
        for name in sorted({*online, *controller.offsets.groups_of(topic)})
    ]


def _group(controller: Controller, topic: str, name: str) -> ConsumerGroup:
    online = controller.clients.consumers.get(name)
    committed = controller.offsets.of(topic, name)
    return ConsumerGroup(
        name,
        online.model if online is not None else _CLUSTERING,
        _members(online.members.values()) if online is not None else [],
        dict(sorted(committed.items())),
        _lag(controller, topic, committed),
        controller.stats.got_per_second(topic, name),
    )


def _lag(controller: Controller, topic: str, committed: dict[int, int]) -> int:
    """Messages that are still there and behind the offsets; all of a queue without one."""
    config = controller.topics.get(topic)
    lag = 0
    for queue in range(config.read_queues if config is not None else 0):
        low, high = controller.store.bounds(topic, queue)
        lag += high - min(high, max(low, committed.get(queue, 0)))
    return lag


def producer_groups(controller: Controller) -> list[ProducerGroup]:
    """All groups of producers that are connected, by name."""
    return [
        ProducerGroup(name, _members(members.values()))
        for name, members in sorted(controller.clients.producers.items())
    ]


def _members(members: Iterable[Member[Connection]]) -> list[GroupMember]:
    return [
        GroupMember(each.client_id, each.address, each.language.name, each.version)
        for each in members
    ]
