"""The log as RocketMQ's readers see it: real queues, and messages as their consumers get them.

How far a group of such a reader is goes among the consumer offsets, where tools look for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from penstock.core.errors import OffsetOutOfRangeError
from penstock.core.units import MILLISECOND
from penstock.rocketmq.broker import names
from penstock.storage.batch import Buffer

if TYPE_CHECKING:
    from penstock.broker.topic import Topic
    from penstock.rocketmq.broker.clients.group_topics import GroupTopics
    from penstock.rocketmq.broker.state.consumer_offsets import ConsumerOffsets
    from penstock.rocketmq.broker.state.topic_table import TopicTable
    from penstock.rocketmq.broker.store.message_store import MessageStore
    from penstock.rocketmq.broker.store.retention import TopicRetention

_MESSAGES_MAX: Final = 65_536


class RocketView:
    """The answers to nsqd's requests with ``dialect=rocketmq``."""

    dialect: Final = "rocketmq"

    def __init__(
        self,
        topics: TopicTable,
        offsets: ConsumerOffsets,
        store: MessageStore,
        group_topics: GroupTopics,
        retention: TopicRetention,
    ) -> None:
        self._topics = topics
        self._offsets = offsets
        self._store = store
        self._group_topics = group_topics
        self._retention = retention

    def queue_count(self, topic: Topic) -> int:
        return self._topics.queue_count(topic.name)

    def extent(self, topic: Topic, queue: int) -> tuple[int, int, int]:
        """Bytes are the queue's share of the log by its messages."""
        low, high = topic.queues.bounds(queue)
        log = topic.log
        messages = max(1, log.next_offset - log.start_offset)
        return low, high, log.nbytes * (high - low) // messages

    def place(self, topic: Topic, queue: int, log_offset: int) -> int:
        return topic.queues.search(queue, log_offset)

    def read(self, topic: Topic, queue: int, offset: int, nbytes: int) -> Sequence[Buffer]:
        """Stored messages back to back. Raises OffsetOutOfRangeError, StorageError."""
        low, high = topic.queues.bounds(queue)
        if not low <= offset <= high:
            raise OffsetOutOfRangeError(topic.name, queue, offset, low, high)
        store = self._store
        pieces: list[Buffer] = []
        for part in store.slices(topic.name, queue, offset, _MESSAGES_MAX):
            piece = store.piece(topic.name, part)
            nbytes -= len(piece)
            if nbytes >= 0:
                pieces.append(piece)
                continue
            nbytes += len(piece)
            for frame in store.frames(topic.name, part):
                nbytes -= len(frame)
                if pieces and nbytes < 0:
                    break
                pieces.append(frame)
            break
        return pieces

    def offset_at(self, topic: Topic, queue: int, timestamp_ns: int) -> int:
        """The first offset stored at a time or later. Raises StorageError."""
        return self._store.offset_at_time(topic.name, queue, -(-timestamp_ns // MILLISECOND))

    def groups(self, topic: Topic) -> dict[str, dict[int, int]]:
        offsets = self._offsets
        return {group: offsets.of(topic.name, group) for group in offsets.groups_of(topic.name)}

    def commit(self, topic: Topic, group: str, offsets: Mapping[int, int]) -> int | None:
        """Commit consumer offsets; the log offset below which the group has read all.

        Raises ValueError for a name that no group can have.
        """
        problem = names.group_problem(group)
        if problem is not None:
            raise ValueError(problem)
        if not offsets:
            return None
        config = self._group_topics.config(group)
        if config is not None:  # without its topic mqadmin does not find the group
            self._group_topics.retry_topic(config)
        for queue, offset in offsets.items():
            if self._offsets.query(topic.name, group, queue) != offset:
                self._offsets.commit(topic.name, group, queue, offset)
                self._offsets.moved(topic.name, group, queue)
        return self._retention.log_offset(topic, group)

    def forget(self, topic: Topic, group: str) -> None:
        """The group is deleted, and its consumer offsets with it."""
        self._offsets.forget(topic.name, group)
