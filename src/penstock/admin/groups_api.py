"""/api/groups: the readers of topics' logs, and how far behind they are. Ours, not upstream's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.admin.api import answering
from penstock.admin.pipelines.api import Pipelines
from penstock.admin.router import AdminRouter
from penstock.cluster.cluster import Cluster
from penstock.cluster.fanout import Warnings
from penstock.cluster.groups import LOG, Group, whole_groups
from penstock.net.http.server.service import Request
from penstock.nsq.http_api import Query


class GroupsApi:
    """The one endpoint."""

    def __init__(self, cluster: Cluster, pipelines: Pipelines) -> None:
        self._cluster = cluster
        self._pipelines = pipelines
        self.growth: Callable[[str, str], float | None] = _unknown
        """The growth of the lag of a topic's group, in messages a second; None if not known."""

    def add_routes(self, router: AdminRouter) -> None:
        router.v1("GET", "/api/groups", answering(self._groups))

    async def _groups(self, request: Request) -> Any:
        topic = Query.parse(request.query).get("topic") or ""
        warnings = Warnings()
        told = await self._cluster.groups(topic, warnings)
        groups = whole_groups(told, topic)
        if any(group.kind == LOG for group in groups):
            readers = await self._pipelines.readers(node for node, _ in told)
            for group in groups:
                group.pipeline = readers.get((group.topic, group.group))
        for group in groups:
            group.verdict = self._verdict(group)
        return {"groups": groups, "message": warnings.message}

    def _verdict(self, group: Group) -> dict[str, Any]:
        from penstock.admin.verdicts.rule import verdict  # loads numpy

        growth = self.growth(group.topic, group.group)
        return verdict(group.lag, growth, group.rate, None if group.kind == LOG else group.clients)


def _unknown(topic: str, group: str) -> None:
    return None
