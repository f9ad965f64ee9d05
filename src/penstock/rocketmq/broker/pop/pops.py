"""All groups that pop, by topic (RocketMQ spec 2.7)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

from penstock.broker.channels.consumer import Delivery
from penstock.broker.progress import ChannelSettings
from penstock.broker.retrieval import retrieve
from penstock.broker.topic import Topic
from penstock.core.names import MAX_NAME_LENGTH, is_valid_name
from penstock.core.units import SECOND
from penstock.rocketmq.broker import permissions
from penstock.rocketmq.broker.answering import RefusedError
from penstock.rocketmq.broker.delays.publisher import Publisher
from penstock.rocketmq.broker.pop.ordered_pops import OrderedPops
from penstock.rocketmq.broker.pop.pop_channel import PopChannel, Popped, popped
from penstock.rocketmq.broker.pull.offsets_api import YOUNG_BYTES_MAX
from penstock.rocketmq.broker.state.group_table import GroupConfig
from penstock.rocketmq.broker.store.retention import TopicRetention
from penstock.rocketmq.protocol.codes import ResponseCode
from penstock.rocketmq.protocol.messages.message import decode

if TYPE_CHECKING:
    from penstock.broker.channels.channel import Channel
    from penstock.core.clock import Clock
    from penstock.core.errors import StorageError
    from penstock.node.registry import Registry
    from penstock.rocketmq.broker.broker_settings import BrokerSettings
    from penstock.rocketmq.broker.send.retries import Retries
    from penstock.rocketmq.broker.state.consumer_offsets import ConsumerOffsets
    from penstock.rocketmq.broker.state.group_table import GroupTable
    from penstock.rocketmq.broker.state.topic_table import TopicTable
    from penstock.rocketmq.broker.store.draft import Placed
    from penstock.rocketmq.broker.store.message_store import MessageStore
    from penstock.rocketmq.remoting import Connection

Waiting: TypeAlias = tuple[int, int, int]

_NO_LIMIT: Final = 0  # of attempts, in a channel's settings
COMMIT_S: Final = 5.0
"""The interval at which popping groups' offsets are noted, to show how far behind they are."""


class Pops:
    """The channels of popping groups, made when they are first used."""

    def __init__(
        self,
        settings: BrokerSettings,
        topics: TopicTable,
        groups: GroupTable,
        offsets: ConsumerOffsets,
        store: MessageStore,
        registry: Registry,
        retention: TopicRetention,
        retries: Retries,
        publisher: Publisher,
        ordered: OrderedPops,
        clock: Clock,
    ) -> None:
        self._settings = settings
        self._topics = topics
        self._groups = groups
        self._offsets = offsets
        self._store = store
        self._registry = registry
        self._retention = retention
        self._retries = retries
        self._publisher = publisher
        self._clock = clock
        self._channels: dict[tuple[str, str], PopChannel] = {}
        self.ordered = ordered

    def find(self, topic: str, group: str) -> PopChannel | None:
        """The channel of a group on a topic; None when it never popped there, also if NSQ's side
        has made a channel of that name.
        """
        key = (topic, group)
        known = self._channels.get(key)
        found = self._store.topics.get(topic)
        channel = found.channels.get(group) if found is not None else None
        if known is not None and known.channel is not channel:
            # Identity, not name: a new channel of the same name has nothing that ours had in
            # flight.
            self._drop(key)  # somebody deleted it, through NSQ or with its topic
            known = None
        # Popping made it, before a restart perhaps: no other channel is without a limit.
        if known is None and found is not None and channel is not None and _is_made(found, group):
            known = self._share(found, channel)
        return known

    def _share(self, topic: Topic, channel: Channel) -> PopChannel:
        """Let the group of a channel's name pop from it."""
        group = channel.name
        shared = self._channels[topic.name, group] = PopChannel(
            topic,
            channel,
            self._store,
            self._clock,
            partial(self._attempts_max, group),
            partial(self._bury, group),
            partial(self._may_consume, topic.name, group),
        )
        return shared

    def channel(self, topic: str, group: str, *, from_end: bool) -> PopChannel:
        """The channel of a group on a topic, made when it is not there. It starts where the group
        has committed to if it has ever pulled, else at the topic's start; at its end only if that
        is wanted and the topic is not young, as with pulling (RocketMQ spec 4.4).

        Raises RefusedError for a name that no channel can have, StorageError.
        """
        known = self.find(topic, group)
        # The last pop decides whether a group pops in order; batches that are out come again.
        was_ordered = self.ordered.table.leave((topic, group))
        if known is not None:
            if was_ordered:
                # In order it has committed offsets: the channel goes on from there.
                known.topic.seek(known.channel, self._start(known.topic, group, from_end))
            return known
        if not is_valid_name(group):
            remark = (
                f"the group {group} cannot pop: a group that pops is a channel, and those have "
                f"names of 1 to {MAX_NAME_LENGTH} letters, digits, '-' and '_'"
            )
            raise RefusedError(ResponseCode.SYSTEM_ERROR, remark)
        made = self._store.topic(topic)
        channel = made.channels.get(group)
        if channel is None:  # one that NSQ's side has made stays where it is
            start = self._start(made, group, from_end)
            channel = self._registry.channel(made, group)
            # Which messages were tried too often is decided here (``_attempts_max``).
            made.configure_channel(ChannelSettings(group, _NO_LIMIT))
            # Made where NSQ's channels begin; a group has a rule for its start (RocketMQ spec 4.4).
            made.seek(channel, start)
        return self._share(made, channel)

    def in_order(self, topic: str, group: str, *, from_end: bool) -> int:
        """A group pops a topic in order from now on; how many queues that has.

        What it had popped otherwise comes again, from where its channel had done all.
        Raises BodyError when there are too many such groups, StorageError.
        """
        key, config = (topic, group), self._topics.get(topic)
        queues = config.read_queues if config is not None else 1
        # Committed now: offsets of a channel are noted every COMMIT_S only, and are the start in
        # order.
        if key not in self.ordered.table and key in self._channels:
            self._commit(topic, group)
        self.ordered.enter(key, queues, from_end=from_end)
        return queues

    def reset(
        self, topic: str, group: str, offsets: Mapping[int, int], place: int, *, is_force: bool
    ) -> bool:
        """Let a group that pops a topic go on elsewhere: in order at these queue offsets, otherwise
        at a place of the topic's log, no later than it is unless forced. False if it does not pop
        there. Raises StorageError.
        """
        key = (topic, group)
        if key in self.ordered.table:
            for queue, offset in offsets.items():
                self._offsets.commit(topic, group, queue, offset)
                self.ordered.moved(key, queue)
            return True
        channel = self.find(topic, group)
        if channel is None:
            return False
        # RocketMQ spec 4.11: without force only back.
        channel.seek(place if is_force else min(place, channel.channel.state.floor()))
        self._commit(topic, group)
        return True

    def reset_queue(self, topic: str, group: str, queue: int, offset: int) -> None:
        """Let a group that pops a topic go on elsewhere in one queue, which its committed offset
        names already; nothing if it does not pop there. Raises RefusedError, StorageError.
        """
        key = (topic, group)
        if key in self.ordered.table:
            self.ordered.moved(key, queue)
        elif (channel := self.find(topic, group)) is not None:
            channel.seek_queue(queue, offset)
            self._commit(topic, group)

    def _start(self, topic: Topic, group: str, from_end: bool) -> int:
        if self._offsets.of(topic.name, group):
            return self._retention.log_offset(topic, group)
        is_young = not topic.log.start_offset and topic.log.nbytes <= YOUNG_BYTES_MAX
        return topic.log.next_offset if from_end and not is_young else topic.log.start_offset

    def __len__(self) -> int:
        """Requests that wait."""
        waiting = sum(channel.waiting for channel in self._channels.values())
        return waiting + len(self.ordered)

    def forget(self, connection: Connection) -> None:
        """A connection is gone, and its requests with it."""
        self.ordered.forget(connection)
        for channel in self._channels.values():
            channel.forget(connection)

    def deleted(self, topic: str) -> None:
        """A topic is gone, and its channels with it."""
        for key in [key for key in self._channels if key[0] == topic]:
            self._drop(key)

    def _drop(self, key: tuple[str, str]) -> None:
        self._channels.pop(key).close()

    # --- looking -------------------------------------------------------------------------------

    def waiting(self, topic: str, group: str) -> list[Waiting]:
        """Ranges of messages that wait for a group on a topic, in log order: first, next, attempts.

        Raises StorageError.
        """
        found = self.find(topic, group)
        if found is None:
            log = self._store.topic(topic).log
            return [(log.start_offset, log.next_offset, 0)]
        channel = found.channel
        if channel.paused:
            return []
        again = [(each.first, each.next, each.attempts) for each in channel.state.requeued]
        return sorted([*again, *((first, next_, 0) for first, next_ in channel.state.backlog())])

    def hidden_s(self, topic: str, group: str) -> float | None:
        """The seconds until the next message that is hidden from a group is visible again, perhaps
        too few; None if none is hidden.
        """
        found = self.find(topic, group)
        deadline = None if found is None else found.channel.state.next_deadline()
        return None if deadline is None else (deadline - self._clock.monotonic_ns()) / SECOND

    def peek(self, topic: str, group: str, count: int) -> tuple[list[Popped], int]:
        """The first messages that wait, and how many wait behind them. Raises StorageError."""
        config = self._topics.get(topic)
        if (topic, group) in self.ordered.table and config is not None:
            return self.ordered.peek((topic, group), config.read_queues, count)
        waiting = self.waiting(topic, group)
        found: list[Popped] = []
        made = self._store.topic(topic)
        for first, next_, attempts in waiting:
            last = min(next_, first + count - len(found))
            if last > first:
                for batch, low, high in retrieve(made.log, first, last, lambda count: None):
                    delivery = Delivery(batch, low, high, attempts + 1)
                    found += popped(self._store, made, delivery)
        return found, sum(next_ - first for first, next_, _ in waiting) - len(found)

    # --- what was tried too often --------------------------------------------------------------

    def _may_consume(self, topic: str, group: str) -> bool:
        config, known = self._topics.get(topic), self._groups.get(group)
        return permissions.may_consume(self._settings, config, known)

    def _attempts_max(self, group: str) -> int:
        config = self._groups.configs.get(group) or GroupConfig(group)
        return max(0, config.retry_max_times) + 1  # with a negative number, too, it is had once

    def _bury(self, group: str, channel: PopChannel, message: Popped) -> None:
        """Store a message in the group's dead letters; only then is it done here."""
        stored, _ = decode(bytes(message.frame))
        stored.reconsume_times -= 1  # it was not delivered this time

        def done(_placed: list[Placed], error: StorageError | None) -> None:
            if error is None:
                channel.finish([message.offset])

        self._publisher.publish((self._retries.dead_letter(stored, group),), done)

    # --- how far they are ----------------------------------------------------------------------

    def commit(self) -> None:
        """Note for each queue below which offset a group has done all."""
        for topic, group in list(self._channels):
            if (topic, group) not in self.ordered.table:
                self._commit(topic, group)

    def _commit(self, topic: str, group: str) -> None:
        found, config = self.find(topic, group), self._topics.get(topic)
        if found is None or config is None:
            return
        floor = found.channel.state.floor()
        for queue in range(config.read_queues):
            offset = found.topic.queues.search(queue, floor)
            if self._offsets.query(topic, group, queue) != offset:
                self._offsets.commit(topic, group, queue, offset)


def _is_made(topic: Topic, group: str) -> bool:
    """True if popping has made the channel of a group, and NSQ's side has not."""
    return topic.config.of_channel(group).max_attempts == _NO_LIMIT
