"""The log over HTTP: what Spark and other replaying readers use. Penstock's own, beside NSQ's API.

A reader asks for a topic's offsets, fetches whole batches as they are stored, and commits how far
it has got as a group; retention waits for the group.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from penstock.broker.dialects import nsq_raw
from penstock.broker.topic import Topic
from penstock.core.errors import OffsetOutOfRangeError, StorageError
from penstock.core.malformed import MALFORMED
from penstock.core.units import SECOND
from penstock.net.address import join_host_port
from penstock.net.http import Request, Response
from penstock.nsq.http_api import NSQ_HEADER, ApiError, NsqRouter, Query
from penstock.nsq.nsqd.api_arguments import number, offset_at, out_of_range, topic_named
from penstock.nsq.nsqd.log_groups import QueryProgress
from penstock.nsq.nsqd.write_down import write_down

if TYPE_CHECKING:
    from penstock.nsq.nsqd.daemon import Nsqd

FETCH_BYTES: Final = 4 * 1024 * 1024
FETCH_BYTES_MAX: Final = 64 * 1024 * 1024
GROUPS_MAX: Final = 1000
_PROGRESS_MAX: Final = 4096


class GroupCommit(msgspec.Struct):
    """The body of /log/commit: an offset for each queue."""

    offsets: dict[str, int]


class LogApi:
    """The /log endpoints of one nsqd."""

    def __init__(self, nsqd: Nsqd) -> None:
        self._nsqd = nsqd

    def add_routes(self, router: NsqRouter) -> None:
        router.v1("GET", "/log/offsets", self._offsets, quiet=True)
        router.v1("GET", "/log/fetch", self._fetch, quiet=True)
        router.v1("GET", "/log/offset_at", self._offset_at)
        router.v1("POST", "/log/commit", self._commit, quiet=True)
        router.v1("POST", "/log/group/delete", self._delete_group)
        router.v1("POST", "/log/group/progress", self._tell_progress, max_body=_PROGRESS_MAX,
                  quiet=True)  # fmt: skip

    @property
    def _node(self) -> str:
        nsqd = self._nsqd
        return join_host_port(nsqd.options.broadcast_address, nsqd.broadcast_http_port)

    def _offsets(self, request: Request) -> Any:
        """Bounds of the topic's queues and how far its groups are."""
        topic = self._topic(Query.parse(request.query))
        log = topic.log
        queue = {"queue": 0, "start": log.start_offset, "end": log.next_offset, "bytes": log.nbytes}
        groups = {name: {"0": offset} for name, offset in topic.groups.items()}
        return {"node": self._node, "topic": topic.name, "queues": [queue], "groups": groups}

    def _fetch(self, request: Request) -> Response:
        """Whole batches from the one that holds ``offset`` on; at least one, unless at the end.

        Those of another dialect come as batches of NSQ messages.
        """
        query = Query.parse(request.query)
        topic = self._topic(query)
        self._check_queue(query)
        offset = number(query, "offset", None)
        nbytes = min(number(query, "max_bytes", FETCH_BYTES), FETCH_BYTES_MAX)
        log = topic.log
        try:
            pieces = log.read_raw(offset, nbytes)
        except OffsetOutOfRangeError as error:
            return out_of_range(error)
        except StorageError:
            raise ApiError(500, "INTERNAL_ERROR") from None
        headers = (
            NSQ_HEADER,
            ("X-Penstock-Start", str(log.start_offset)),
            ("X-Penstock-End", str(log.next_offset)),
        )
        body = _as_nsq(pieces, nbytes)
        return Response(200, body, "application/octet-stream", headers)

    def _offset_at(self, request: Request) -> Any:
        """The first offset published at or after a time (``timestamp_ns``)."""
        query = Query.parse(request.query)
        topic = self._topic(query)
        self._check_queue(query)
        return {"offset": offset_at(topic, number(query, "timestamp_ns", None))}

    def _commit(self, request: Request) -> Any:
        """Move a group, or make it at the start of the log when no offset is given."""
        query = Query.parse(request.query)
        topic = self._topic(query)
        group = query.required("group")
        if not 0 < len(group) <= 256 or not group.isprintable():
            raise ApiError(400, "INVALID_ARG_GROUP")
        if group not in topic.groups and len(topic.groups) >= GROUPS_MAX:
            raise ApiError(400, "TOO_MANY_GROUPS")
        offset = self._committed_offset(request, topic)
        is_new = group not in topic.groups
        topic.commit_group(group, offset)
        if is_new:  # a kill must not let go of what it holds from now on
            write_down(topic)
        self._nsqd.log_groups.moved(topic, group)
        return {}

    def _committed_offset(self, request: Request, topic: Topic) -> int | None:
        try:
            commit = msgspec.json.decode(request.body or b'{"offsets":{}}', type=GroupCommit)
        except MALFORMED:
            raise ApiError(400, "INVALID_BODY") from None
        if not commit.offsets:
            return None
        if list(commit.offsets) != ["0"]:
            raise ApiError(400, "INVALID_ARG_QUEUE")
        offset = commit.offsets["0"]
        if not 0 <= offset <= topic.log.next_offset:
            raise ApiError(400, "INVALID_ARG_OFFSET")
        return offset

    def _delete_group(self, request: Request) -> None:
        query = Query.parse(request.query)
        topic = self._topic(query)
        group = self._group(query, topic)
        topic.delete_group(group)
        write_down(topic)  # else a kill would restore a reader that keeps the log
        self._nsqd.log_groups.deleted(topic, group)

    def _tell_progress(self, request: Request) -> Any:
        """Keep what the reader of a group has done last, for those who look."""
        query = Query.parse(request.query)
        topic = self._topic(query)
        group = self._group(query, topic)
        try:
            progress = msgspec.json.decode(request.body, type=QueryProgress)
        except MALFORMED:
            raise ApiError(400, "INVALID_BODY") from None
        if not progress.query.isprintable():
            raise ApiError(400, "INVALID_BODY")
        progress.at = round(self._nsqd.clock.wall_ns() / SECOND, 3)
        self._nsqd.log_groups.told(topic, group, progress)
        return {}

    def _topic(self, query: Query) -> Topic:
        return topic_named(self._nsqd, query.required("topic"))

    def _group(self, query: Query, topic: Topic) -> str:
        group = query.required("group")
        if group not in topic.groups:
            raise ApiError(404, "GROUP_NOT_FOUND")
        return group

    def _check_queue(self, query: Query) -> None:
        if query.get("queue") not in (None, "0"):
            raise ApiError(404, "QUEUE_NOT_FOUND")


def _as_nsq(pieces: Sequence[memoryview], nbytes: int) -> list[bytes | memoryview]:
    """The batches for readers of NSQ's; of those that grow by it, as many as fit."""
    body: list[bytes | memoryview] = []
    for piece in pieces:
        shown = nsq_raw(piece)
        nbytes -= len(shown)
        if body and nbytes < 0:
            break
        body.append(shown)
    return body
