"""Brokers beside nsqadmin's nodes: what they have comes to what the nodes tell.

An nsqd with a RocketMQ port is both a node and a broker. Its figures as a node have both dialects,
so the broker is left out here.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, NamedTuple

from penstock.admin.nodes.machines import machines
from penstock.admin.rocketmq.consumer_groups import ONLINE_MAX
from penstock.admin.rocketmq.group_rates import GroupRate
from penstock.admin.rocketmq.lags import reported_stats
from penstock.admin.rocketmq.servers import Servers, gathered
from penstock.admin.rocketmq.topics import consumers
from penstock.cluster.cluster import Cluster
from penstock.cluster.fanout import Warnings
from penstock.cluster.groups import NodeGroups, ReportedGroup, ReportedGroups
from penstock.cluster.upstream_errors import NoAnswerError
from penstock.net.address import join_host_port
from penstock.rocketmq.client.admin.consume_stats import Progress
from penstock.rocketmq.client.admin.topology import Broker
from penstock.rocketmq.client.names import RETRY


class GroupPart(NamedTuple):
    """A group in a topic on one broker; ``tps`` is what it consumes a second."""

    broker: Broker
    topic: str
    group: str
    tps: float
    queues: dict[int, Progress]

    @property
    def lag(self) -> int:
        return sum(each.lag for each in self.queues.values())


class OtherBrokers:
    """The brokers of the name servers that are not a port of a node of ``cluster``."""

    def __init__(self, servers: Servers, cluster: Cluster) -> None:
        self._servers = servers
        self._cluster = cluster
        self._rates: dict[tuple[str, str], GroupRate] = {}

    async def are_nodes(self) -> set[str]:
        """The addresses of the brokers that are a port of a node."""
        if not any(self._cluster.addresses):
            return set()
        try:
            nodes = await self._cluster.producers(Warnings(), with_topics=False)
            found = await machines(self._cluster, Warnings())
        except NoAnswerError:
            # Without nodes to compare with, every broker is shown: twice is better than not at all.
            return set()
        ports = {each.node: (each.ports or {}).get("rocketmq", 0) for each in found}
        named = [
            (name, port)
            for each in nodes
            if (port := ports.get(each.http_address))
            for name in (each.broadcast_address, each.hostname)
        ]
        # Names are looked up: a node is known by the one it broadcasts, a broker by its address.
        known = await asyncio.gather(*(_hosts(name) for name, _ in named))
        return {
            join_host_port(host, port)
            for (_, port), hosts in zip(named, known, strict=True)
            for host in hosts
        }

    async def groups(self, warnings: Warnings) -> list[tuple[str, NodeGroups]]:
        """The groups of each broker, by its name, as nodes tell theirs."""
        try:
            brokers, nodes = await asyncio.gather(self._servers.brokers(), self.are_nodes())
        except NoAnswerError as error:
            warnings.add([str(error)])
            return []
        others = [each for each in brokers if each.any_address() not in nodes]
        parts = await self._parts(others, warnings)
        self._note(parts)
        online = await self._online(parts, warnings)
        return [(each.broker.name, _as_node_groups(each, online)) for each in parts]

    def growth(self, topic: str, group: str) -> float | None:
        """The growth of the lag of a topic's group at these brokers, in messages a second; None if
        it is not known.
        """
        rate = self._rates.get((topic, group))
        return rate.growth if rate is not None else None

    async def _parts(self, brokers: list[Broker], warnings: Warnings) -> list[GroupPart]:
        parts = []
        for broker, groups in await reported_stats(self._servers, brokers, warnings):
            for group, stats in groups:
                topics: dict[str, dict[int, Progress]] = {}
                for queue, progress in stats.queues.items():
                    topics.setdefault(queue.topic, {})[queue.queueId] = progress
                # A broker tells each topic apart; of a group's own retries only what waits counts.
                parts += [
                    GroupPart(broker, topic, group, stats.tps / len(topics), queues)
                    for topic, queues in topics.items()
                ]
        return [each for each in parts if not each.topic.startswith(RETRY) or each.lag]

    async def _online(
        self, parts: Iterable[GroupPart], warnings: Warnings
    ) -> dict[tuple[str, str], int]:
        """By broker and group the number of members that are connected there."""
        asked = {(each.broker.name, each.group): each.broker for each in parts}

        async def ask(pair: tuple[str, str]) -> int:
            found: dict[str, Any] = await consumers(self._servers, asked[pair], pair[1])
            return len(found.get("connectionSet") or ())

        return dict(await gathered(list(asked)[:ONLINE_MAX], ask, warnings))

    def _note(self, parts: Iterable[GroupPart]) -> None:
        """A look at all lags, by which they grow; groups that are gone are forgotten."""
        looks: dict[tuple[str, str], list[Progress]] = {}
        for each in parts:
            looks.setdefault((each.topic, each.group), []).extend(each.queues.values())
        self._rates = {key: self._rates.get(key) or GroupRate() for key in looks}
        for key, queues in looks.items():
            end = sum(each.broker_offset for each in queues)
            consumed = sum(each.consumer_offset for each in queues)
            self._rates[key].take(self._servers.now_ms / 1000, end, consumed, len(queues))


def _as_node_groups(part: GroupPart, online: dict[tuple[str, str], int]) -> NodeGroups:
    committed = {str(queue): each.consumer_offset for queue, each in part.queues.items()}
    members = online.get((part.broker.name, part.group))
    group = ReportedGroup(part.group, part.lag, part.tps, committed, members)
    return NodeGroups([ReportedGroups(part.topic, [group])])


async def _hosts(name: str) -> set[str]:
    """A host's name and addresses."""
    found = {name}
    with suppress(OSError, UnicodeError):
        loop = asyncio.get_running_loop()
        for *_, address in await loop.getaddrinfo(name, None, type=socket.SOCK_STREAM):
            found.add(str(address[0]))
    return found
