"""The log over HTTP: what Spark and other replaying readers use. Penstock's own, beside NSQ's API.

A reader asks for the offsets of topics and fetches whole batches as they are stored; how far it
has got it commits as a group (nsqd's ``log_group_api``). What queues and messages are is a matter
of the view (``log_views``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

from penstock.broker.topic import Topic
from penstock.core.clock import SYSTEM_CLOCK
from penstock.core.errors import OffsetOutOfRangeError, StorageError
from penstock.net.address import join_host_port
from penstock.net.http.server.service import Request, Response
from penstock.net.http.server.v1_api import NSQ_HEADER, ApiError, ApiRouter, Query, all_values
from penstock.node.dialect import Dialect, LogView
from penstock.node.http.api_arguments import number, out_of_range, topic_named
from penstock.node.http.log_changes import LogChanges
from penstock.node.http.log_views import NSQ_VIEW, queue_named, view_for
from penstock.node.http.many_topics import check_number, names_in
from penstock.node.ports import Ports
from penstock.storage.epochs import LogEpochs

FETCH_BYTES: Final = 4 * 1024 * 1024
FETCH_BYTES_MAX: Final = 64 * 1024 * 1024


class LogApi:
    """The /log endpoints of one node."""

    def __init__(
        self,
        topics: Mapping[str, Topic],
        dialects: Sequence[Dialect],
        ports: Ports,
        broadcast_address: str,
        epochs: LogEpochs,
    ) -> None:
        self._topics = topics
        self._dialects = dialects
        self._ports = ports
        self._address = broadcast_address
        self._epochs = epochs
        self._changes = LogChanges(topics, SYSTEM_CLOCK.wall_ns() // 1000)

    def add_routes(self, router: ApiRouter) -> None:
        router.v1("GET", "/log/offsets", self._offsets, quiet=True)
        router.v1("POST", "/log/offsets", self._offsets_of_many, quiet=True)
        router.v1("GET", "/log/changes", self._changes_since, quiet=True)
        router.v1("GET", "/log/fetch", self._fetch, quiet=True)
        router.v1("GET", "/log/offset_at", self._offset_at)

    @property
    def _node(self) -> str:
        return join_host_port(self._address, self._ports.broadcast_http)

    def _view(self, query: Query) -> LogView:
        return view_for(self._dialects, query)

    def _offsets(self, request: Request) -> Any:
        """Bounds of the topic's queues and how far its groups are; of each topic if several are
        named.
        """
        names = all_values(request.query, "topic")
        query = Query.parse(request.query)
        if len(names) > 1:
            return self._of_each(names, self._view(query))
        view = self._view(query)
        return {"node": self._node, **self._bounds(self._topic(query), view)}

    def _offsets_of_many(self, request: Request) -> Any:
        query = Query.parse(request.query)
        names = names_in(request, query)
        if names is None:
            raise ApiError(400, "INVALID_BODY")
        return self._of_each(names, self._view(query))

    def _changes_since(self, request: Request) -> Any:
        """The topics whose logs have changed after ``since``, a ``revision`` of an earlier answer;
        all of them may have where there are none named.
        """
        revision, topics = self._changes.since(number(Query.parse(request.query), "since", 0))
        named = {} if topics is None else {"topics": topics}
        return {"node": self._node, "revision": revision, **named}

    def _of_each(self, names: Sequence[str], view: LogView) -> Any:
        check_number(names)
        topics = [self._bounds_or_error(name, view) for name in dict.fromkeys(names)]
        return {"node": self._node, "topics": topics}

    def _bounds_or_error(self, name: str, view: LogView) -> dict[str, Any]:
        try:
            return self._bounds(topic_named(self._topics, name), view)
        except ApiError as error:
            return {"topic": name, **error.content}

    def _fetch(self, request: Request) -> Response:
        """Whole batches from the one that holds ``offset`` on; at least one, unless at the end.

        Those of another dialect come as batches of NSQ messages. A view of another dialect gives
        its messages instead, the first of which is at ``offset``.
        """
        query = Query.parse(request.query)
        view = self._view(query)
        topic = self._topic(query)
        queue = self._queue(query, view, topic)
        offset = number(query, "offset", None)
        nbytes = min(number(query, "max_bytes", FETCH_BYTES), FETCH_BYTES_MAX)
        log_id = ("X-Penstock-Log", self._log_id(topic, view, queue))
        try:
            pieces = view.read(topic, queue, offset, nbytes)
        except OffsetOutOfRangeError as error:
            refusal = out_of_range(error)
            refusal.headers = (*refusal.headers, log_id)
            return refusal
        except StorageError:
            raise ApiError(500, "INTERNAL_ERROR") from None
        body: list[bytes | memoryview] = [memoryview(piece) for piece in pieces]
        start, end, _ = view.extent(topic, queue)
        headers = (
            NSQ_HEADER,
            log_id,
            ("X-Penstock-Start", str(start)),
            ("X-Penstock-End", str(end)),
        )
        return Response(200, body, "application/octet-stream", headers)

    def _offset_at(self, request: Request) -> Any:
        """The first offset published at or after a time (``timestamp_ns``)."""
        query = Query.parse(request.query)
        view = self._view(query)
        topic = self._topic(query)
        queue = self._queue(query, view, topic)
        try:
            return {"offset": view.offset_at(topic, queue, number(query, "timestamp_ns", None))}
        except StorageError:
            raise ApiError(500, "INTERNAL_ERROR") from None

    def _topic(self, query: Query) -> Topic:
        return topic_named(self._topics, query.required("topic"))

    def _queue(self, query: Query, view: LogView, topic: Topic) -> int:
        queue = queue_named(view, topic, query.get("queue") or "0")
        if queue is None:
            raise ApiError(404, "QUEUE_NOT_FOUND")
        return queue

    def _bounds(self, topic: Topic, view: LogView) -> dict[str, Any]:
        queues = []
        for queue in range(view.queue_count(topic)):
            start, end, nbytes = view.extent(topic, queue)
            log_id = self._log_id(topic, view, queue)
            queues.append(
                {"queue": queue, "log": log_id, "start": start, "end": end, "bytes": nbytes}
            )
        groups = {
            name: {str(queue): offset for queue, offset in offsets.items()}
            for name, offsets in view.groups(topic).items()
        }
        dialect = {} if view is NSQ_VIEW else {"dialect": view.dialect}
        return {"topic": topic.name, **dialect, "queues": queues, "groups": groups}

    def _log_id(self, topic: Topic, view: LogView, queue: int) -> str:
        """The id of the topic's log: another one when the topic is deleted and created again, and
        with an epoch more when the log was restored.
        """
        place = partial(view.place, topic, queue)
        return self._epochs.log_id(topic.name, topic.log.id_base, place)
