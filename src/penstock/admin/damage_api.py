"""/api/damage: the damage on all nodes that no operator has accepted. Upstream has no such page."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from penstock.admin.read_api import answering
from penstock.admin.router import AdminRouter
from penstock.cluster.cluster import Cluster
from penstock.cluster.exchange import escaped
from penstock.cluster.fanout import Warnings, try_all
from penstock.cluster.upstream_errors import RefusedError
from penstock.net.http.server.service import Request
from penstock.net.http.server.v1_api import Query


class TopicDamage(Struct):
    """The damage of one topic on one node."""

    topic_name: str
    lost_count: int = 0
    damage: list[str] = []


class NodeDamage(Struct):
    """The answer of one node."""

    topics: list[TopicDamage]


class DamageApi:
    """The endpoint. A Go nsqd, which has no /damage, counts as a node without damage."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def add_routes(self, router: AdminRouter) -> None:
        router.v1("GET", "/api/damage", answering(self._damage))

    async def _damage(self, request: Request) -> Any:
        topic = Query.parse(request.query).get("topic") or ""
        target = f"/damage?topic={escaped(topic)}"
        warnings = Warnings()

        async def ask(address: str) -> NodeDamage:
            try:
                return await self._cluster.http.get(address, target, NodeDamage)
            except RefusedError as error:
                if error.status != 404:
                    raise
                return NodeDamage([])

        producers = await self._cluster.producers(warnings, with_topics=False)
        addresses = dict.fromkeys(each.http_address for each in producers)
        found = await try_all(addresses, ask)
        warnings.add(found.errors)
        damage = [
            {"node": node, "topic": each.topic_name, "lost": each.lost_count, "damage": each.damage}
            for node, answer in found.answers
            for each in answer.topics
            if each.damage
        ]
        return {"damage": damage, "message": warnings.message}
