"""Retention of messages: RocketMQ's stay for a time, NSQ's until everybody has them.

A topic that RocketMQ's side has made keeps its messages for ``fileReservedTime``, read or not, and
longer while channels or replaying groups still want them. A topic that NSQ's side has made keeps
them until all have them, and RocketMQ's groups count among those: each holds it where it has
committed to, like a replaying group.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from penstock.broker.group_figures import ROCKETMQ_PREFIX
from penstock.broker.progress import TopicSettings
from penstock.core.units import HOUR
from penstock.rocketmq.broker import names
from penstock.rocketmq.protocol.errors import BodyError
from penstock.storage.retention import Retention

if TYPE_CHECKING:
    from penstock.broker.topic import Topic
    from penstock.rocketmq.broker.broker_settings import BrokerSettings
    from penstock.rocketmq.broker.state.consumer_offsets import ConsumerOffsets
    from penstock.rocketmq.broker.state.files import StateFiles
    from penstock.rocketmq.broker.state.topic_table import TopicTable
    from penstock.rocketmq.broker.store.message_store import MessageStore

FILE: Final = "nsqTopics.json"
HOLD_S: Final = 5.0


class TopicRetention:
    """The side that made each topic of a broker, and the retention that follows from it."""

    def __init__(
        self,
        settings: BrokerSettings,
        configs: TopicTable,
        offsets: ConsumerOffsets,
        store: MessageStore,
        files: StateFiles,
    ) -> None:
        self._settings = settings
        self._configs = configs
        self._offsets = offsets
        self._store = store
        self._files = files
        self._of_nsq: set[str] = set()

    def as_json(self) -> dict[str, list[str]]:
        """The list of NSQ's topics, as it is kept in ``FILE``."""
        return {"topics": sorted(self._of_nsq)}

    def load(self, value: Any) -> None:
        """Take over what was kept. Raises BodyError."""
        topics = value.get("topics") if isinstance(value, dict) else None
        if not isinstance(topics, list):
            raise BodyError("the list of NSQ's topics has no topics")
        self._of_nsq = {str(topic) for topic in topics}

    def made_by_nsq(self, topics: list[str]) -> None:
        """Note that topics are NSQ's. Written down at once; raises StorageError."""
        self._of_nsq.update(topics)
        self._files.save(FILE)

    def adopt(self, topic: Topic) -> None:
        """Keep the messages of a topic by the rule of those who made it. Raises StorageError."""
        if topic.name not in self._of_nsq:
            hours = self._settings.file_reserved_time
            topic.retention = Retention(time_ns=hours * HOUR)
        # What has waited stays for that time, too; no channel tells that it is done.
        is_set = topic.config.own != TopicSettings()
        if topic.name in names.NOT_FOR_CLIENTS and topic.config.bounds and not is_set:
            topic.configure(TopicSettings(max_depth=0, max_bytes=0))

    def adopt_all(self) -> None:
        """Adopt every topic, after a start or a change of ``fileReservedTime``."""
        for topic in self._store.topics.values():
            self.adopt(topic)

    def forget(self, name: str) -> None:
        """A topic is gone. Raises StorageError."""
        if name in self._of_nsq:
            self._of_nsq.discard(name)
            self._files.save(FILE)

    def hold(self) -> None:
        """Let RocketMQ's groups hold NSQ's topics where they have committed to."""
        for name in self._of_nsq:
            topic = self._store.topics.get(name)
            if topic is not None and not topic.exiting:
                self._hold(topic)

    def _hold(self, topic: Topic) -> None:
        groups = self._offsets.groups_of(topic.name)
        for group in groups:
            offset = self.log_offset(topic, group)
            # Only where it has moved: a commit sets back the age of the group, which may be stale.
            if topic.groups.get(ROCKETMQ_PREFIX + group) != offset:
                topic.commit_group(ROCKETMQ_PREFIX + group, offset)
        known = {ROCKETMQ_PREFIX + group for group in groups}
        for held in [each for each in topic.groups if each.startswith(ROCKETMQ_PREFIX)]:
            if held not in known:
                topic.delete_group(held)

    def log_offset(self, topic: Topic, group: str) -> int:
        """The log offset below which a group has consumed all, over all queues of a topic."""
        committed = self._offsets.of(topic.name, group)
        least = topic.log.next_offset
        for queue in range(self._configs.queue_count(topic.name)):
            low, high = topic.queues.bounds(queue)
            places = topic.queues.locate(queue, max(low, committed.get(queue, 0)), 1)
            if low < high and len(places):
                least = min(least, places[0])
        return least
