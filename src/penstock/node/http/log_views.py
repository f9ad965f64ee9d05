"""NSQ's view of the log, and the choice of a view for a request.

A topic is one queue for NSQ, which is its log. Other dialects on the node have views, too;
the argument ``dialect`` of a request asks for one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from penstock.broker.dialects import nsq_raw
from penstock.broker.topic import Topic
from penstock.net.http.server.v1_api import ApiError, Query
from penstock.node.dialect import Dialect, Extent, LogView
from penstock.node.http.api_arguments import offset_at
from penstock.storage.batch import Buffer


class NsqView:
    """One queue, whose offsets are the log's; whole batches, those of others translated."""

    dialect: Final = "nsq"

    def queue_count(self, topic: Topic) -> int:
        return 1

    def extent(self, topic: Topic, queue: int) -> Extent:
        log = topic.log
        return log.start_offset, log.next_offset, log.nbytes

    def place(self, topic: Topic, queue: int, log_offset: int) -> int:
        return log_offset

    def read(self, topic: Topic, queue: int, offset: int, nbytes: int) -> Sequence[Buffer]:
        """Read as many batches as fit, of a dialect whose translation makes them grow."""
        body: list[Buffer] = []
        for piece in topic.log.read_raw(offset, nbytes):
            shown = nsq_raw(piece)
            nbytes -= len(shown)
            if body and nbytes < 0:
                break
            body.append(shown)
        return body

    def offset_at(self, topic: Topic, queue: int, timestamp_ns: int) -> int:
        """ApiError 500 on a bad disk."""
        return offset_at(topic, timestamp_ns)

    def groups(self, topic: Topic) -> dict[str, dict[int, int]]:
        return {name: {0: offset} for name, offset in topic.groups.items()}

    def commit(self, topic: Topic, group: str, offsets: Mapping[int, int]) -> int | None:
        return offsets.get(0)

    def forget(self, topic: Topic, group: str) -> None:
        """Do nothing: nothing else knows it."""


NSQ_VIEW: Final[LogView] = NsqView()


def view_for(dialects: Sequence[Dialect], query: Query) -> LogView:
    """The view that a request asks for; ApiError 400 when this node does not speak the dialect."""
    dialect = query.get("dialect")
    if dialect is None or dialect == NSQ_VIEW.dialect:
        return NSQ_VIEW
    for each in dialects:
        if each.log_view.dialect == dialect:
            return each.log_view
    raise ApiError(400, "DIALECT_NOT_SPOKEN")


def queue_named(view: LogView, topic: Topic, name: str) -> int | None:
    """The queue of that number; None if there is no such queue."""
    # One spelling for each queue: 007 names none.
    if not (name.isascii() and name.isdigit() and len(name) <= 9) or str(int(name)) != name:
        return None
    return int(name) if int(name) < view.queue_count(topic) else None
