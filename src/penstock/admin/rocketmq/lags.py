"""Lags of all groups in all topics: one question to each broker."""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.admin.rocketmq.names import is_system_group
from penstock.admin.rocketmq.servers import Servers, gathered
from penstock.cluster.fanout import Warnings
from penstock.rocketmq.client.admin.consume_stats import ConsumeStats, broker_consume_stats
from penstock.rocketmq.client.admin.topology import Broker


@dataclass(slots=True)
class Reading:
    """A group in the topics that it reads; ``lags`` by topic, retries are a topic as well."""

    group: str
    tps: float = 0.0
    lags: dict[str, int] = field(default_factory=dict)
    end: int = 0
    """The ends of all its queues, summed."""
    queues: int = 0
    """The number of these queues: fewer while a broker does not answer."""
    last_ms: int = 0
    """The time at which the newest message that it has consumed was stored."""

    def add(self, stats: ConsumeStats) -> None:
        self.tps += stats.tps
        for queue, each in stats.queues.items():
            self.lags[queue.topic] = self.lags.get(queue.topic, 0) + each.lag
            self.end += each.broker_offset
            self.queues += 1
            self.last_ms = max(self.last_ms, each.last_ms)

    @property
    def lag(self) -> int:
        return sum(self.lags.values())

    @property
    def consumed(self) -> int:
        """The group's offsets in all queues, summed."""
        return self.end - self.lag


async def readings(
    servers: Servers, brokers: list[Broker], warnings: Warnings
) -> tuple[dict[str, Reading], list[Broker]]:
    """Every group that a broker knows, but for those of tools; and the brokers that answered."""
    table: dict[str, Reading] = {}
    told = await reported_stats(servers, brokers, warnings)
    for _, groups in told:
        for group, stats in groups:
            table.setdefault(group, Reading(group)).add(stats)
    return table, [broker for broker, _ in told]


async def reported_stats(
    servers: Servers, brokers: list[Broker], warnings: Warnings
) -> list[tuple[Broker, list[tuple[str, ConsumeStats]]]]:
    """Each broker that answers, with its groups but for those of tools: a part for each topic."""

    async def ask(broker: Broker) -> list[tuple[str, ConsumeStats]]:
        found = await broker_consume_stats(servers, broker.any_address())
        return [each for each in found.groups if not is_system_group(each[0])]

    return await gathered(brokers, ask, warnings)
