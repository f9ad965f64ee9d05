"""Groups in numbers, for the statistics of the program around the broker."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.broker.group_figures import ConsumerGroup, GroupMember, ProducerGroup
from penstock.rocketmq.broker.state.clients import MESSAGE_MODELS

if TYPE_CHECKING:
    from penstock.rocketmq.broker.state.clients import Clients, Member
    from penstock.rocketmq.broker.state.consumer_offsets import ConsumerOffsets
    from penstock.rocketmq.broker.state.stats import Stats
    from penstock.rocketmq.broker.state.topic_table import TopicTable
    from penstock.rocketmq.broker.store.message_store import MessageStore
    from penstock.rocketmq.remoting import Connection

_CLUSTERING = MESSAGE_MODELS[1]


@dataclass(slots=True, eq=False)
class GroupFigures:
    """Figures of the groups of consumers and producers."""

    topics: TopicTable
    offsets: ConsumerOffsets
    clients: Clients[Connection]
    stats: Stats
    store: MessageStore

    def consumer_groups(self, topic: str) -> list[ConsumerGroup]:
        """The groups that subscribe to a topic now, or have committed offsets in it, by name."""
        online = [
            name for name, group in self.clients.consumers.items() if topic in group.subscriptions
        ]
        return [
            self._group(topic, name) for name in sorted({*online, *self.offsets.groups_of(topic)})
        ]

    def _group(self, topic: str, name: str) -> ConsumerGroup:
        online = self.clients.consumers.get(name)
        committed = self.offsets.of(topic, name)
        return ConsumerGroup(
            name,
            online.model if online is not None else _CLUSTERING,
            _members(online.members.values()) if online is not None else [],
            dict(sorted(committed.items())),
            self._lag(topic, committed),
            self.stats.got_per_second(topic, name),
        )

    def _lag(self, topic: str, committed: dict[int, int]) -> int:
        """Messages that are still there and behind the offsets; all of a queue without one."""
        config = self.topics.get(topic)
        lag = 0
        for queue in range(config.read_queues if config is not None else 0):
            low, high = self.store.bounds(topic, queue)
            lag += high - min(high, max(low, committed.get(queue, 0)))
        return lag

    def producer_groups(self) -> list[ProducerGroup]:
        """All groups of producers that are connected, by name."""
        return [
            ProducerGroup(name, _members(members.values()))
            for name, members in sorted(self.clients.producers.items())
        ]


def _members(members: Iterable[Member[Connection]]) -> list[GroupMember]:
    return [
        GroupMember(each.client_id, each.address, each.language.name, each.version)
        for each in members
    ]
