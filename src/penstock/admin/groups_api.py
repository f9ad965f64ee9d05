"""/api/groups: the readers of topics' logs, and how far behind they are. Ours, not upstream's.

Of nodes of NSQ they are RocketMQ's groups and readers of the log; brokers that are not such nodes
have RocketMQ's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from penstock.admin.pipelines.pipelines_api import Pipelines
from penstock.admin.read_api import answering
from penstock.admin.router import AdminRouter
from penstock.cluster.cluster import Cluster
from penstock.cluster.fanout import Warnings
from penstock.cluster.groups import LOG, Group, NodeGroups, whole_groups
from penstock.net.http.server.service import Request
from penstock.net.http.server.v1_api import Query

if TYPE_CHECKING:
    from penstock.admin.rocketmq.other_brokers import OtherBrokers


class GroupsApi:
    """The one endpoint."""

    def __init__(self, cluster: Cluster, pipelines: Pipelines) -> None:
        self._cluster = cluster
        self._pipelines = pipelines
        self.growth: Callable[[str, str], float | None] = _unknown
        """The growth of the lag of a topic's group, in messages a second; None if not known."""
        self.beside: OtherBrokers | None = None
        """RocketMQ's brokers that are not nodes, where nsqadmin knows name servers."""

    def add_routes(self, router: AdminRouter) -> None:
        router.v1("GET", "/api/groups", answering(self._groups))

    async def _groups(self, request: Request) -> Any:
        topic = Query.parse(request.query).get("topic") or ""
        warnings = Warnings()
        told, others = await asyncio.gather(
            self._on_nodes(topic, warnings), self._on_brokers(topic, warnings)
        )
        groups = whole_groups([*told, *others], topic)
        if any(group.kind == LOG for group in groups):
            readers = await self._pipelines.readers(node for node, _ in told)
            for group in groups:
                group.pipeline = readers.get((group.topic, group.group))
        for group in groups:
            group.verdict = self._verdict(group)
        return {"groups": groups, "message": warnings.message}

    async def _on_nodes(self, topic: str, warnings: Warnings) -> list[tuple[str, NodeGroups]]:
        if self.beside is not None and not any(self._cluster.addresses):
            return []
        return await self._cluster.groups(topic, warnings)

    async def _on_brokers(self, topic: str, warnings: Warnings) -> list[tuple[str, NodeGroups]]:
        """The groups of brokers; those of one topic are on RocketMQ's page of it."""
        if self.beside is None or topic:
            return []
        return await self.beside.groups(warnings)

    def _verdict(self, group: Group) -> dict[str, Any]:
        from penstock.admin.verdicts.rule import verdict  # loads numpy

        known = [self.growth(group.topic, group.group)]
        if self.beside is not None:
            known.append(self.beside.growth(group.topic, group.group))
        there = [each for each in known if each is not None]
        clients = None if group.kind == LOG else group.clients
        return verdict(group.lag, sum(there) if there else None, group.rate, clients)


def _unknown(topic: str, group: str) -> None:
    return None
