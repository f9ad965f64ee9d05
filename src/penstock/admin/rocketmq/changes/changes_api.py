"""POST and DELETE below /api/rocketmq: all that changes something, for administrators alone."""

from __future__ import annotations

from typing import Any

from msgspec import Struct, field

from penstock.admin.messages.choice import read_body
from penstock.admin.notifications import Action, Notifier
from penstock.admin.permissions import Access
from penstock.admin.read_api import answering, text_of
from penstock.admin.rocketmq import offsets
from penstock.admin.rocketmq.answers import required, telling, time_of
from penstock.admin.rocketmq.changes import group_changes, topic_changes
from penstock.admin.rocketmq.changes.group_changes import GroupChange
from penstock.admin.rocketmq.changes.topic_changes import TopicChange
from penstock.admin.rocketmq.messages.resend import IDS_MAX, hand_over, resend
from penstock.admin.rocketmq.servers import Servers
from penstock.admin.router import AdminRouter
from penstock.net.http.server.service import Request
from penstock.net.http.server.v1_api import ApiError


class GroupBody(GroupChange):
    """The body that changes a group or sets it to a time, in ms since 1970; -1 is the end of each
    queue.
    """

    topic: str = ""
    time_ms: int | None = None


class MessagesBody(Struct):
    """The body that sends messages again, or hands one of them to a member of a group."""

    action: str = ""
    topic: str = ""
    ids: list[str] = field(default_factory=list)
    group: str = ""
    client: str = ""


class RocketmqChangesApi:
    """The handlers; each asks first whether the user may."""

    def __init__(self, servers: Servers, access: Access, notifier: Notifier) -> None:
        self._servers = servers
        self._access = access
        self._notifier = notifier

    def add_routes(self, router: AdminRouter) -> None:
        for method, path, handler in (
            ("POST", "/api/rocketmq/topics", self._create_topic),
            ("POST", "/api/rocketmq/topics/:topic", self._change_topic),
            ("DELETE", "/api/rocketmq/topics/:topic", self._delete_topic),
            ("POST", "/api/rocketmq/groups", self._create_group),
            ("POST", "/api/rocketmq/groups/:group", self._act_on_group),
            ("DELETE", "/api/rocketmq/groups/:group", self._delete_group),
            ("POST", "/api/rocketmq/messages", self._act_on_messages),
        ):
            router.v1(method, path, answering(telling(handler)))

    # --- topics ----------------------------------------------------------------------------------

    async def _create_topic(self, request: Request) -> Any:
        self._access.check_admin(request)
        body = read_body(request, TopicChange)
        done = await topic_changes.create(self._servers, body)
        self._notifier.tell(Action("create_rocketmq_topic", body.topic), request)
        return done

    async def _change_topic(self, request: Request) -> Any:
        self._access.check_admin(request)
        body = read_body(request, TopicChange)
        body.topic = text_of(request.param)
        if body.action != "change":
            raise ApiError(400, "INVALID_ACTION")
        done = await topic_changes.change(self._servers, body)
        self._notifier.tell(Action("change_rocketmq_topic", body.topic), request)
        return done

    async def _delete_topic(self, request: Request) -> Any:
        self._access.check_admin(request)
        topic = text_of(request.param)
        done = await topic_changes.delete(self._servers, topic)
        self._notifier.tell(Action("delete_rocketmq_topic", topic), request)
        return done

    # --- groups ----------------------------------------------------------------------------------

    async def _create_group(self, request: Request) -> Any:
        self._access.check_admin(request)
        body = read_body(request, GroupChange)
        done = await group_changes.create(self._servers, body)
        self._notifier.tell(Action("create_rocketmq_group", "", body.group), request)
        return done

    async def _act_on_group(self, request: Request) -> Any:
        self._access.check_admin(request)
        body = read_body(request, GroupBody)
        body.group = text_of(request.param)
        if body.action == "change":
            done = await group_changes.change(self._servers, body)
            self._notifier.tell(Action("change_rocketmq_group", "", body.group), request)
            return done
        if body.action == "reset":
            return await self._reset(request, body)
        raise ApiError(400, "INVALID_ACTION")

    async def _reset(self, request: Request, body: GroupBody) -> Any:
        given = "" if body.time_ms is None else str(body.time_ms)
        topic, time_ms = required(body.topic, "topic"), time_of(given)
        try:
            return await offsets.reset(self._servers, body.group, topic, time_ms)
        finally:  # the notification goes out even when only a part was done
            self._notifier.tell(Action("reset_rocketmq_offsets", topic, body.group), request)

    async def _delete_group(self, request: Request) -> Any:
        self._access.check_admin(request)
        group = text_of(request.param)
        done = await group_changes.delete(self._servers, group)
        self._notifier.tell(Action("delete_rocketmq_group", "", group), request)
        return done

    # --- messages --------------------------------------------------------------------------------

    async def _act_on_messages(self, request: Request) -> Any:
        self._access.check_admin(request)
        body = read_body(request, MessagesBody)
        actions = {"resend": self._resend, "consume": self._consume}
        if body.action not in actions:
            raise ApiError(400, "INVALID_ACTION")
        required(body.topic, "topic")
        body.ids = list(dict.fromkeys(body.ids))
        if not body.ids:
            raise ApiError(400, "MISSING_IDS")
        return await actions[body.action](request, body)

    async def _resend(self, request: Request, body: MessagesBody) -> Any:
        if len(body.ids) > IDS_MAX:
            raise ApiError(400, "TOO_MANY_IDS")
        try:
            return await resend(self._servers, body.topic, body.ids)
        finally:
            self._notifier.tell(Action("resend_rocketmq_messages", body.topic), request)

    async def _consume(self, request: Request, body: MessagesBody) -> Any:
        if len(body.ids) > 1:
            raise ApiError(400, "TOO_MANY_IDS")
        group, client = required(body.group, "group"), required(body.client, "client")
        try:
            return await hand_over(self._servers, body.topic, body.ids[0], group, client)
        finally:  # of a time-out nobody knows whether it was handled
            self._notifier.tell(Action("consume_rocketmq_message", body.topic, group), request)
