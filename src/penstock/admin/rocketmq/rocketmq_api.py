"""GET /api/rocketmq: RocketMQ's topics, groups, servers, messages (docs/spec/nsqadmin-api.md)."""

from __future__ import annotations

from typing import Any

from penstock.admin.permissions import Access
from penstock.admin.read_api import answering, names, text_of
from penstock.admin.rocketmq import attention, brokers, consumer_groups, offsets, topics
from penstock.admin.rocketmq.answers import required, said, telling, time_of
from penstock.admin.rocketmq.configuration import accounts, configuration
from penstock.admin.rocketmq.group_rates import GroupRates
from penstock.admin.rocketmq.messages.finding import MessageQuery, find
from penstock.admin.rocketmq.messages.traces import trace, tracks
from penstock.admin.rocketmq.other_brokers import OtherBrokers
from penstock.admin.rocketmq.servers import Servers
from penstock.admin.rocketmq.watch import RocketWatch
from penstock.admin.router import AdminRouter
from penstock.net.http.server.service import Request
from penstock.net.http.server.v1_api import ApiError, Query


class RocketmqApi:
    """The handlers, which change nothing; accounts and settings are for administrators alone."""

    def __init__(
        self, servers: Servers, access: Access, beside: OtherBrokers, interval: float = 0
    ) -> None:
        """``interval`` is the time between looks for the history, in seconds; 0: none."""
        self._servers = servers
        self._beside = beside
        self._access = access
        self._rates = GroupRates()
        self.watch = RocketWatch(servers, self._rates, interval)

    def add_routes(self, router: AdminRouter) -> None:
        for path, handler in (
            ("/api/rocketmq", self._cluster),
            ("/api/rocketmq/attention", self._attention),
            ("/api/rocketmq/history", self._history),
            ("/api/rocketmq/topics", self._topics),
            ("/api/rocketmq/topics/:topic", self._topic),
            ("/api/rocketmq/groups", self._groups),
            ("/api/rocketmq/groups/:group", self._group),
            ("/api/rocketmq/groups/:group/offsets", self._offsets),
            ("/api/rocketmq/messages", self._find),
            ("/api/rocketmq/tracks", self._tracks),
            ("/api/rocketmq/trace", self._trace),
            ("/api/rocketmq/accounts", self._accounts),
            ("/api/rocketmq/settings", self._settings),
        ):
            router.v1("GET", path, answering(telling(handler)))

    async def _cluster(self, request: Request) -> Any:
        return await brokers.cluster(self._servers)

    async def _attention(self, request: Request) -> Any:
        return await attention.attention(self._servers, self._rates, self._beside)

    async def _history(self, request: Request) -> Any:
        return {**self.watch.series(), "message": ""}

    async def _topics(self, request: Request) -> Any:
        if Query.parse(request.query).get("names") == "true":
            return {"topics": await self._servers.topics(), "message": ""}
        return await topics.all_topics(self._servers)

    async def _topic(self, request: Request) -> Any:
        return await topics.one_topic(self._servers, text_of(request.param))

    async def _groups(self, request: Request) -> Any:
        return await consumer_groups.all_groups(self._servers, self._rates)

    async def _group(self, request: Request) -> Any:
        return await consumer_groups.one_group(self._servers, self._rates, text_of(request.param))

    async def _offsets(self, request: Request) -> Any:
        """The offsets of a group, if it were set to a time."""
        group, what = names(request)
        if what != "offsets":  # the path's last part is any, to the router
            raise ApiError(404, "NOT_FOUND")
        query = Query.parse(request.query)
        topic = required(said(query, "topic"), "topic")
        time_ms = time_of(query.get("time_ms") or "")
        return await offsets.preview(self._servers, group, topic, time_ms)

    async def _find(self, request: Request) -> Any:
        return await find(self._servers, MessageQuery.parse(request.query))

    async def _tracks(self, request: Request) -> Any:
        query = Query.parse(request.query)
        topic, message_id = (required(said(query, name), name) for name in ("topic", "id"))
        return await tracks(self._servers, topic, message_id)

    async def _trace(self, request: Request) -> Any:
        query = Query.parse(request.query)
        message_id = required(said(query, "id"), "id")
        return await trace(self._servers, message_id, said(query, "trace_topic"))

    async def _accounts(self, request: Request) -> Any:
        self._access.check_admin(request)
        return await accounts(self._servers)

    async def _settings(self, request: Request) -> Any:
        self._access.check_admin(request)
        return await configuration(self._servers)
