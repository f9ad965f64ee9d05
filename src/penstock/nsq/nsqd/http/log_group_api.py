"""Groups over HTTP: readers of the log that say how far they have got, in one topic or in many.

Retention waits for a group. One that names its owner is taken by no other while that one commits.
"""

from __future__ import annotations

from collections.abc import Awaitable, Collection, Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec

from penstock.broker.topic import Topic
from penstock.core.malformed import MALFORMED
from penstock.net.http.server.service import Request
from penstock.net.http.server.v1_api import ApiError, ApiRouter, Query
from penstock.node.dialect import LogView
from penstock.node.http.api_arguments import topic_named
from penstock.node.http.log_views import queue_named, view_for
from penstock.node.http.many_topics import change_each, names_in, offsets_in
from penstock.nsq.nsqd.http.write_down import write_down, write_down_all

if TYPE_CHECKING:
    from penstock.node.node import Node

# Each save of a topic's journal writes all of its groups.
GROUPS_MAX: Final = 1000
GROUP_MAX: Final = 256
OWNER_MAX: Final = 128


class GroupCommit(msgspec.Struct):
    """The body of /log/commit for one topic: an offset for each queue."""

    offsets: dict[str, int]


class LogGroupApi:
    """The endpoints of groups of one nsqd."""

    def __init__(self, node: Node) -> None:
        self._topics = node.broker.topics
        self._dialects = node.dialects
        self._groups = node.log_groups
        self._store = node.broker.store

    def add_routes(self, router: ApiRouter) -> None:
        router.v1("POST", "/log/commit", self._commit, quiet=True)
        router.v1("POST", "/log/group/delete", self._delete)

    def _commit(self, request: Request) -> Any:
        """Move a group, or make it at the start of the log where no offset is given."""
        query = Query.parse(request.query)
        view = view_for(self._dialects, query)
        topics = offsets_in(request, query)
        if topics is None:
            topic = topic_named(self._topics, query.required("topic"))
            if self._move(
                view, topic, _group_of(query), _owner_of(query), _offsets_of_one(request)
            ):
                write_down(topic)
            return {}
        group, owner = _group_of(query), _owner_of(query)

        def move(name: str) -> Topic | None:
            topic = topic_named(self._topics, name)
            return topic if self._move(view, topic, group, owner, topics[name]) else None

        return change_each(topics, move, self._write_down)

    def _write_down(self, topics: Collection[Topic]) -> Awaitable[set[str]]:
        return write_down_all(topics, self._store)

    def _move(
        self,
        view: LogView,
        topic: Topic,
        group: str,
        owner: str | None,
        offsets: Mapping[str, int],
    ) -> bool:
        """Move a group in one topic; True if it is new, and so is to be written down: a kill must
        not let go of what it holds from now on.
        """
        is_new = group not in topic.groups
        if is_new and len(topic.groups) >= GROUPS_MAX:
            raise ApiError(400, "TOO_MANY_GROUPS")
        other_owner = self._groups.other_owner(topic, group, owner)
        if other_owner is not None:
            raise ApiError(
                409, "GROUP_IN_USE", owner=other_owner.owner, seconds=other_owner.seconds
            )
        given = _checked(view, topic, offsets)
        try:
            topic.commit_group(group, view.commit(topic, group, given))
        except ValueError:
            raise ApiError(400, "INVALID_ARG_GROUP") from None
        # An owner that asks for the group without moving it learns whether it may, no more.
        self._groups.moved(topic, group, owner if offsets else None)
        return is_new

    def _delete(self, request: Request) -> Any:
        query = Query.parse(request.query)
        view = view_for(self._dialects, query)
        names = names_in(request, query)
        if names is None:
            topic = topic_named(self._topics, query.required("topic"))
            self._forget(view, topic, query.required("group"))
            write_down(topic)
            return None
        group = query.required("group")

        def forget(name: str) -> Topic:
            topic = topic_named(self._topics, name)
            self._forget(view, topic, group)
            return topic

        return change_each(names, forget, self._write_down)

    def _forget(self, view: LogView, topic: Topic, group: str) -> None:
        """Delete a group, to be written down: a kill would restore a reader that keeps the log."""
        _check_there(topic, group)
        view.forget(topic, group)
        topic.delete_group(group)
        self._groups.deleted(topic, group)


def _group_of(query: Query) -> str:
    """The group to move; ApiError 400."""
    group = query.required("group")
    if not 0 < len(group) <= GROUP_MAX or not group.isprintable():
        raise ApiError(400, "INVALID_ARG_GROUP")
    return group


def _owner_of(query: Query) -> str | None:
    """The owner that moves it, if it names itself; ApiError 400."""
    owner = query.get("owner")
    if owner is not None and not (0 < len(owner) <= OWNER_MAX and owner.isprintable()):
        raise ApiError(400, "INVALID_ARG_OWNER")
    return owner


def _offsets_of_one(request: Request) -> dict[str, int]:
    try:
        return msgspec.json.decode(request.body or b'{"offsets":{}}', type=GroupCommit).offsets
    except MALFORMED:
        raise ApiError(400, "INVALID_BODY") from None


def _checked(view: LogView, topic: Topic, offsets: Mapping[str, int]) -> dict[int, int]:
    """The offsets by queue; ApiError 400 for what the topic does not have."""
    checked: dict[int, int] = {}
    for name, offset in offsets.items():
        queue = queue_named(view, topic, name)
        if queue is None:
            raise ApiError(400, "INVALID_ARG_QUEUE")
        if not 0 <= offset <= view.extent(topic, queue)[1]:
            raise ApiError(400, "INVALID_ARG_OFFSET")
        checked[queue] = offset
    return checked


def _check_there(topic: Topic, group: str) -> None:
    if group not in topic.groups:
        raise ApiError(404, "GROUP_NOT_FOUND")
