"""/api/rocketmq: RocketMQ's topics, groups, servers and messages. Ours (docs/nsqadmin.md)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

from msgspec import Struct, field

from penstock.admin.access import Access
from penstock.admin.api import answering, names, text_of
from penstock.admin.messages.choice import read_body
from penstock.admin.notifications import Action, Notifier
from penstock.admin.rocketmq import brokers, groups, messages, offsets, topics
from penstock.admin.rocketmq.resend import IDS_MAX, resend
from penstock.admin.rocketmq.servers import Servers
from penstock.admin.router import AdminRouter
from penstock.net.http.server.service import Request
from penstock.nsq.http_api import ApiError, Query
from penstock.rocketmq.client.errors import ClientError
from penstock.rocketmq.mqadmin.errors import CommandFailed
from penstock.rocketmq.protocol.errors import BodyError

_TIME_MAX: Final = 1 << 53


class ResetBody(Struct):
    """The body that sets a group to a time, in ms since 1970; -1 is the end of each queue."""

    action: str = ""
    topic: str = ""
    time_ms: int = 0


class ResendBody(Struct):
    """The body that sends messages again."""

    action: str = ""
    topic: str = ""
    ids: list[str] = field(default_factory=list)


class RocketmqApi:
    """The handlers; those that change something ask first whether the user may."""

    def __init__(self, servers: Servers, access: Access, notifier: Notifier) -> None:
        self._servers = servers
        self._access = access
        self._notifier = notifier

    def add_routes(self, router: AdminRouter) -> None:
        for method, path, handler in (
            ("GET", "/api/rocketmq", self._cluster),
            ("GET", "/api/rocketmq/topics", self._topics),
            ("GET", "/api/rocketmq/topics/:topic", self._topic),
            ("GET", "/api/rocketmq/groups", self._groups),
            ("GET", "/api/rocketmq/groups/:group", self._group),
            ("POST", "/api/rocketmq/groups/:group", self._reset),
            ("GET", "/api/rocketmq/groups/:group/offsets", self._offsets),
            ("GET", "/api/rocketmq/messages", self._find),
            ("POST", "/api/rocketmq/messages", self._resend),
        ):
            router.v1(method, path, answering(_telling(handler)))

    async def _cluster(self, request: Request) -> Any:
        return await brokers.cluster(self._servers)

    async def _topics(self, request: Request) -> Any:
        if Query.parse(request.query).get("names") == "true":
            return {"topics": await self._servers.topics(), "message": ""}
        return await topics.all_topics(self._servers)

    async def _topic(self, request: Request) -> Any:
        return await topics.one_topic(self._servers, text_of(request.param))

    async def _groups(self, request: Request) -> Any:
        return await groups.all_groups(self._servers)

    async def _group(self, request: Request) -> Any:
        return await groups.one_group(self._servers, text_of(request.param))

    async def _offsets(self, request: Request) -> Any:
        """Where a group would be, if it were set to a time."""
        group, what = names(request)
        if what != "offsets":  # the path's last part is any, to the router
            raise ApiError(404, "NOT_FOUND")
        query = Query.parse(request.query)
        topic = _required(query.get("topic") or "")
        return await offsets.preview(self._servers, group, topic, _time(query.get("time_ms") or ""))

    async def _reset(self, request: Request) -> Any:
        self._access.check_admin(request)
        body, group = read_body(request, ResetBody), text_of(request.param)
        if body.action != "reset":
            raise ApiError(400, "INVALID_ACTION")
        topic, time_ms = _required(body.topic), _time(str(body.time_ms))
        try:
            return await offsets.reset(self._servers, group, topic, time_ms)
        finally:  # this is told of even when only a part was done
            self._notifier.tell(Action("reset_rocketmq_offsets", topic, group), request)

    async def _find(self, request: Request) -> Any:
        return await messages.find(self._servers, messages.Wish.parse(request.query))

    async def _resend(self, request: Request) -> Any:
        self._access.check_admin(request)
        body = read_body(request, ResendBody)
        if body.action != "resend":
            raise ApiError(400, "INVALID_ACTION")
        topic, ids = _required(body.topic), list(dict.fromkeys(body.ids))
        if not ids:
            raise ApiError(400, "MISSING_IDS")
        if len(ids) > IDS_MAX:
            raise ApiError(400, "TOO_MANY_IDS")
        try:
            return await resend(self._servers, topic, ids)
        finally:
            self._notifier.tell(Action("resend_rocketmq_messages", topic), request)


def _required(topic: str) -> str:
    if not topic:
        raise ApiError(400, "MISSING_ARG_TOPIC")
    return topic


def _time(text: str) -> int:
    if text == str(offsets.TO_THE_END):
        return offsets.TO_THE_END
    if not (text.isascii() and text.isdecimal()) or int(text) > _TIME_MAX:
        raise ApiError(400, "INVALID_TIME")
    return int(text)


def _telling(handler: Callable[[Request], Awaitable[Any]]) -> Callable[[Request], Awaitable[Any]]:
    """The handler, with 502 for what a server refused or said that makes no sense."""

    async def answer(request: Request) -> Any:
        try:
            return await handler(request)
        except (ClientError, CommandFailed, BodyError) as error:
            raise ApiError(502, f"UPSTREAM_ERROR: {error}") from error

    return answer
