"""The log over HTTP: what Spark and other replaying readers use. Penstock's own, beside NSQ's API.

A reader asks for the offsets of topics and fetches whole batches as they are stored; how far it has
got it commits as a group (``log_group_api``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from penstock.broker.dialects import nsq_raw
from penstock.broker.topic import Topic
from penstock.core.errors import OffsetOutOfRangeError, StorageError
from penstock.core.ids import format_id
from penstock.net.address import join_host_port
from penstock.net.http import Request, Response
from penstock.nsq.http_api import NSQ_HEADER, ApiError, NsqRouter, Query, all_values
from penstock.nsq.nsqd.api_arguments import number, offset_at, out_of_range, topic_named
from penstock.nsq.nsqd.many_topics import check_number, names_in

if TYPE_CHECKING:
    from penstock.nsq.nsqd.daemon import Nsqd

FETCH_BYTES: Final = 4 * 1024 * 1024
FETCH_BYTES_MAX: Final = 64 * 1024 * 1024


class LogApi:
    """The /log endpoints of one nsqd."""

    def __init__(self, nsqd: Nsqd) -> None:
        self._nsqd = nsqd

    def add_routes(self, router: NsqRouter) -> None:
        router.v1("GET", "/log/offsets", self._offsets, quiet=True)
        router.v1("POST", "/log/offsets", self._offsets_of_many, quiet=True)
        router.v1("GET", "/log/fetch", self._fetch, quiet=True)
        router.v1("GET", "/log/offset_at", self._offset_at)

    @property
    def _node(self) -> str:
        nsqd = self._nsqd
        return join_host_port(nsqd.options.broadcast_address, nsqd.broadcast_http_port)

    def _offsets(self, request: Request) -> Any:
        """Bounds of the topic's queues and how far its groups are; of each topic if several are
        named.
        """
        names = all_values(request.query, "topic")
        if len(names) > 1:
            return self._of_each(names)
        return {"node": self._node, **_bounds(self._topic(Query.parse(request.query)))}

    def _offsets_of_many(self, request: Request) -> Any:
        names = names_in(request, Query.parse(request.query))
        if names is None:
            raise ApiError(400, "INVALID_BODY")
        return self._of_each(names)

    def _of_each(self, names: Sequence[str]) -> Any:
        check_number(names)
        topics = [self._bounds_or_error(name) for name in dict.fromkeys(names)]
        return {"node": self._node, "topics": topics}

    def _bounds_or_error(self, name: str) -> dict[str, Any]:
        try:
            return _bounds(topic_named(self._nsqd, name))
        except ApiError as error:
            return {"topic": name, **error.content}

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
        log_id = ("X-Penstock-Log", _log_id(topic))
        try:
            pieces = log.read_raw(offset, nbytes)
        except OffsetOutOfRangeError as error:
            refusal = out_of_range(error)
            refusal.headers = (*refusal.headers, log_id)
            return refusal
        except StorageError:
            raise ApiError(500, "INTERNAL_ERROR") from None
        headers = (
            NSQ_HEADER,
            log_id,
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

    def _topic(self, query: Query) -> Topic:
        return topic_named(self._nsqd, query.required("topic"))

    def _check_queue(self, query: Query) -> None:
        if query.get("queue") not in (None, "0"):
            raise ApiError(404, "QUEUE_NOT_FOUND")


def _bounds(topic: Topic) -> dict[str, Any]:
    log = topic.log
    queue = {
        "queue": 0,
        "log": _log_id(topic),
        "start": log.start_offset,
        "end": log.next_offset,
        "bytes": log.nbytes,
    }
    groups = {name: {"0": offset} for name, offset in topic.groups.items()}
    return {"topic": topic.name, "queues": [queue], "groups": groups}


def _log_id(topic: Topic) -> str:
    """The id of the topic's log: another one when the topic is deleted and created again."""
    return format_id(topic.log.id_base).decode()


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
