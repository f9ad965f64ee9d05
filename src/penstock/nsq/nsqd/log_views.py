"""The log as readers of a dialect see it: queues with dense offsets, messages in its form.

For NSQ's a topic is one queue, which is its log. A companion of another dialect has a view, too;
the argument ``dialect`` of a request asks for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from penstock.broker.dialects import nsq_raw
from penstock.nsq.http_api import ApiError, Query
from penstock.nsq.nsqd.api_arguments import offset_at

if TYPE_CHECKING:
    from penstock.broker.topic import Topic
    from penstock.nsq.nsqd.companion import Companion
    from penstock.storage.batch import Buffer


Extent: TypeAlias = tuple[int, int, int]
"""A queue's first offset, the one its next message will get, and about how many bytes it has."""


class LogView(Protocol):
    """One dialect's view. Queues are numbered from 0 on; offsets are of queues."""

    @property
    def dialect(self) -> str: ...

    def queue_count(self, topic: Topic) -> int: ...

    def extent(self, topic: Topic, queue: int) -> Extent: ...

    def read(self, topic: Topic, queue: int, offset: int, nbytes: int) -> Sequence[Buffer]:
        """Messages from an offset on, at least one unless it is the end.

        Raises OffsetOutOfRangeError, StorageError.
        """
        ...

    def offset_at(self, topic: Topic, queue: int, timestamp_ns: int) -> int:
        """The first offset published at or after a time. Raises StorageError or ApiError."""
        ...

    def groups(self, topic: Topic) -> dict[str, dict[int, int]]:
        """The offsets of the topic's groups, by queue."""
        ...

    def commit(self, topic: Topic, group: str, offsets: Mapping[int, int]) -> int | None:
        """Take how far a group is; from where on the log is to be held for it, None: not moved.

        Raises ValueError for a name that no group can have.
        """
        ...

    def forget(self, topic: Topic, group: str) -> None:
        """The group is deleted."""
        ...


class NsqView:
    """One queue, whose offsets are the log's; whole batches, those of others translated."""

    dialect: Final = "nsq"

    def queue_count(self, topic: Topic) -> int:
        return 1

    def extent(self, topic: Topic, queue: int) -> Extent:
        log = topic.log
        return log.start_offset, log.next_offset, log.nbytes

    def read(self, topic: Topic, queue: int, offset: int, nbytes: int) -> Sequence[Buffer]:
        """Of batches that grow by their translation, as many as fit."""
        body: list[Buffer] = []
        for piece in topic.log.read_raw(offset, nbytes):
            shown = nsq_raw(piece)
            nbytes -= len(shown)
            if body and nbytes < 0:
                break
            body.append(shown)
        return body

    def offset_at(self, topic: Topic, queue: int, timestamp_ns: int) -> int:
        return offset_at(topic, timestamp_ns)

    def groups(self, topic: Topic) -> dict[str, dict[int, int]]:
        return {name: {0: offset} for name, offset in topic.groups.items()}

    def commit(self, topic: Topic, group: str, offsets: Mapping[int, int]) -> int | None:
        return offsets.get(0)

    def forget(self, topic: Topic, group: str) -> None:
        """There is nothing else that knows it."""


NSQ_VIEW: Final[LogView] = NsqView()


def view_for(companions: Sequence[Companion], query: Query) -> LogView:
    """The view that a request asks for; ApiError 400 when this node does not speak the dialect."""
    dialect = query.get("dialect")
    if dialect is None or dialect == NSQ_VIEW.dialect:
        return NSQ_VIEW
    for companion in companions:
        view = companion.log_view()
        if view is not None and view.dialect == dialect:
            return view
    raise ApiError(400, "DIALECT_NOT_SPOKEN")


def queue_named(view: LogView, topic: Topic, name: str) -> int | None:
    """The queue of that number; None if there is none."""
    if not (name.isascii() and name.isdigit() and len(name) <= 9) or str(int(name)) != name:
        return None
    return int(name) if int(name) < view.queue_count(topic) else None
