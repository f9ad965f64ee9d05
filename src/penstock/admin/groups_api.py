"""/api/groups: who reads the logs of topics, and how far behind. Ours, not upstream's."""

from __future__ import annotations

from typing import Any

from penstock.admin.api import answering
from penstock.admin.pipelines.api import Pipelines
from penstock.admin.router import AdminRouter
from penstock.cluster.cluster import Cluster
from penstock.cluster.fanout import Warnings
from penstock.cluster.groups import LOG, whole_groups
from penstock.net.http.server.service import Request
from penstock.nsq.http_api import Query


class GroupsApi:
    """The one endpoint."""

    def __init__(self, cluster: Cluster, pipelines: Pipelines) -> None:
        self._cluster = cluster
        self._pipelines = pipelines

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
        return {"groups": groups, "message": warnings.message}
