"""Actions of administrators: create, delete, pause, unpause, empty, tombstone (NSQ spec 5.2)."""

from __future__ import annotations

from typing import Any, Final

from penstock.admin.api import answering, names, text_of
from penstock.admin.json_body import read_strings
from penstock.admin.notifications import Action, Notifier
from penstock.admin.permissions import Access
from penstock.admin.router import AdminRouter
from penstock.cluster.fanout import Warnings
from penstock.cluster.writes import Changes
from penstock.core.names import is_valid_name
from penstock.net.http.server.api import ApiError
from penstock.net.http.server.service import Request

_ACTIONS: Final = frozenset(("pause", "unpause", "empty"))
_ACCEPT: Final = "accept_damage"


class ActionsApi:
    """The handlers that change something; each asks first whether the user may."""

    def __init__(self, changes: Changes, access: Access, notifier: Notifier) -> None:
        self._changes = changes
        self._access = access
        self._notifier = notifier

    def add_routes(self, router: AdminRouter) -> None:
        router.v1("POST", "/api/topics", answering(self._create))
        router.v1("POST", "/api/topics/:topic", answering(self._act_on_topic))
        router.v1("POST", "/api/topics/:topic/:channel", answering(self._act_on_channel))
        router.v1("DELETE", "/api/topics/:topic", answering(self._delete_topic))
        router.v1("DELETE", "/api/topics/:topic/:channel", answering(self._delete_channel))
        router.v1("DELETE", "/api/nodes/:node", answering(self._tombstone))

    async def _create(self, request: Request) -> Any:
        self._access.check_admin(request)
        topic, channel = _strings(request, "topic", "channel")
        if not is_valid_name(topic):
            raise ApiError(400, "INVALID_TOPIC")
        if channel and not is_valid_name(channel):
            raise ApiError(400, "INVALID_CHANNEL")
        errors = await self._changes.create(topic, channel)
        self._notifier.tell(Action("create_topic", topic), request)
        if channel:
            self._notifier.tell(Action("create_channel", topic, channel), request)
        return _done(errors)

    async def _act_on_topic(self, request: Request) -> Any:
        return await self._act(request, text_of(request.param), "")

    async def _act_on_channel(self, request: Request) -> Any:
        return await self._act(request, *names(request))

    async def _act(self, request: Request, topic: str, channel: str) -> Any:
        self._access.check_admin(request)
        (action,) = _strings(request, "action")
        if action == _ACCEPT and not channel:
            return await self._accept(request, topic)
        if action not in _ACTIONS:
            raise ApiError(400, "INVALID_ACTION")
        what = "channel" if channel else "topic"
        try:
            return _done(await self._changes.act(action, topic, channel))
        finally:  # the notification goes out even when no node could be asked
            self._notifier.tell(Action(f"{action}_{what}", topic, channel), request)

    async def _accept(self, request: Request, topic: str) -> Any:
        errors = await self._changes.accept_damage(topic)
        self._notifier.tell(Action(_ACCEPT, topic), request)
        return _done(errors)

    async def _delete_topic(self, request: Request) -> Any:
        self._access.check_admin(request)
        topic = text_of(request.param)
        errors = await self._changes.delete(topic)
        self._notifier.tell(Action("delete_topic", topic), request)
        return _done(errors)

    async def _delete_channel(self, request: Request) -> Any:
        self._access.check_admin(request)
        topic, channel = names(request)
        errors = await self._changes.delete(topic, channel)
        self._notifier.tell(Action("delete_channel", topic, channel), request)
        return _done(errors)

    async def _tombstone(self, request: Request) -> Any:
        self._access.check_admin(request)
        node = text_of(request.param)
        try:
            (topic,) = read_strings(request.body, ("topic",))
        except ValueError:
            raise ApiError(400, "INVALID_BODY") from None
        if not is_valid_name(topic):
            raise ApiError(400, "INVALID_TOPIC")
        errors = await self._changes.tombstone(topic, node)
        self._notifier.tell(Action("tombstone_topic_producer", topic, node=node), request)
        return _done(errors)


def _strings(request: Request, *wanted: str) -> list[str]:
    try:
        return read_strings(request.body, wanted)
    except ValueError as error:
        raise ApiError(400, str(error)) from None


def _done(errors: list[str]) -> dict[str, str]:
    warnings = Warnings()
    warnings.add(errors)
    return {"message": warnings.message}
