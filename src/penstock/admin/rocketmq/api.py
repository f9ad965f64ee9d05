"""GET /api/rocketmq: RocketMQ's topics, groups, servers and messages. Ours (docs/nsqadmin.md)."""

from __future__ import annotations

from typing import Any

from penstock.admin.api import answering, names, text_of
from penstock.admin.rocketmq import attention, brokers, groups, offsets, topics
from penstock.admin.rocketmq.answers import required, telling, time_of
from penstock.admin.rocketmq.messages.finding import Wish, find
from penstock.admin.rocketmq.paces import Paces
from penstock.admin.rocketmq.servers import Servers
from penstock.admin.router import AdminRouter
from penstock.net.http.server.service import Request
from penstock.nsq.http_api import ApiError, Query


class RocketmqApi:
    """The handlers, which change nothing."""

    def __init__(self, servers: Servers) -> None:
        self._servers = servers
        self._paces = Paces()

    def add_routes(self, router: AdminRouter) -> None:
        for path, handler in (
            ("/api/rocketmq", self._cluster),
            ("/api/rocketmq/attention", self._attention),
            ("/api/rocketmq/topics", self._topics),
            ("/api/rocketmq/topics/:topic", self._topic),
            ("/api/rocketmq/groups", self._groups),
            ("/api/rocketmq/groups/:group", self._group),
            ("/api/rocketmq/groups/:group/offsets", self._offsets),
            ("/api/rocketmq/messages", self._find),
        ):
            router.v1("GET", path, answering(telling(handler)))

    async def _cluster(self, request: Request) -> Any:
        return await brokers.cluster(self._servers)

    async def _attention(self, request: Request) -> Any:
        return await attention.attention(self._servers, self._paces)

    async def _topics(self, request: Request) -> Any:
        if Query.parse(request.query).get("names") == "true":
            return {"topics": await self._servers.topics(), "message": ""}
        return await topics.all_topics(self._servers)

    async def _topic(self, request: Request) -> Any:
        return await topics.one_topic(self._servers, text_of(request.param))

    async def _groups(self, request: Request) -> Any:
        return await groups.all_groups(self._servers, self._paces)

    async def _group(self, request: Request) -> Any:
        return await groups.one_group(self._servers, self._paces, text_of(request.param))

    async def _offsets(self, request: Request) -> Any:
        """Where a group would be, if it were set to a time."""
        group, what = names(request)
        if what != "offsets":  # the path's last part is any, to the router
            raise ApiError(404, "NOT_FOUND")
        query = Query.parse(request.query)
        topic = required(query.get("topic") or "", "topic")
        time_ms = time_of(query.get("time_ms") or "")
        return await offsets.preview(self._servers, group, topic, time_ms)

    async def _find(self, request: Request) -> Any:
        return await find(self._servers, Wish.parse(request.query))
