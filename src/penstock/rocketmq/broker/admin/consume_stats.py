"""The progress of consumer groups, and how far behind they are (RocketMQ spec 2.4, 4.11)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from penstock.core.clock import wall_ms
from penstock.rocketmq.broker.admin.topic_stats import known_topic, stored_ms
from penstock.rocketmq.broker.answering import answers, json_answer
from penstock.rocketmq.broker.state import files
from penstock.rocketmq.protocol.codes import RequestCode
from penstock.rocketmq.protocol.command import Command
from penstock.rocketmq.protocol.message_queue import MessageQueue

if TYPE_CHECKING:
    from penstock.core.clock import Clock
    from penstock.rocketmq.broker.broker_settings import BrokerSettings
    from penstock.rocketmq.broker.state.clients import Clients
    from penstock.rocketmq.broker.state.consumer_offsets import ConsumerOffsets
    from penstock.rocketmq.broker.state.files import StateFiles
    from penstock.rocketmq.broker.state.group_table import GroupTable
    from penstock.rocketmq.broker.state.stats import Stats
    from penstock.rocketmq.broker.state.topic_table import TopicTable
    from penstock.rocketmq.broker.store.message_store import MessageStore
    from penstock.rocketmq.protocol.ids import Host
    from penstock.rocketmq.protocol.registration import TopicConfig
    from penstock.rocketmq.remoting import Connection


@dataclass(slots=True, eq=False)
class ConsumeStats:
    """Answers about the offsets of groups."""

    settings: BrokerSettings
    topics: TopicTable
    groups: GroupTable
    offsets: ConsumerOffsets
    clients: Clients[Connection]
    stats: Stats
    files: StateFiles
    store: MessageStore
    address: Host
    clock: Clock

    @answers(RequestCode.GET_CONSUME_STATS)
    def consume_stats(self, connection: Connection, request: Command) -> Command:
        """The offsets of a group in one topic, or in all it has committed offsets in."""
        group, topic = request.text("consumerGroup"), request.optional("topic")
        tps, table = 0.0, {}
        for config in self._consumed(group, [topic] if topic else self.offsets.topics_of(group)):
            table.update(self._progress(group, config.name, config.read_queues))
            tps += self.stats.got_per_second(config.name, group)
        return json_answer(request, {"consumeTps": tps, "offsetTable": table})

    @answers(RequestCode.GET_BROKER_CONSUME_STATS)
    def broker_consume_stats(self, connection: Connection, request: Command) -> Command:
        """The offsets of all groups, a list for each; ``isOrder`` leaves only ordered topics."""
        request.text("isOrder")
        only_ordered = request.boolean("isOrder")
        groups, behind = [], 0
        for group in self.groups.configs:
            found = []
            for config in self._consumed(group, self.offsets.topics_of(group)):
                if only_ordered and not config.order:
                    continue
                table = self._progress(group, config.name, config.write_queues)
                tps = self.stats.got_per_second(config.name, group)
                found.append({"consumeTps": tps, "offsetTable": table})
                behind += sum(o["brokerOffset"] - o["consumerOffset"] for o in table.values())
            groups.append({group: found})
        return json_answer(
            request,
            {
                "brokerAddr": str(self.address),
                "consumeStatsList": groups,
                "totalDiff": behind,
            },
        )

    def _consumed(self, group: str, topics: Iterable[str]) -> list[TopicConfig]:
        """The topics that exist and that the group, if it is online, still subscribes."""
        configs = [self.topics.get(topic) for topic in topics]
        return [c for c in configs if c is not None and not self._gave_up(group, c.name)]

    def _gave_up(self, group: str, topic: str) -> bool:
        online = self.clients.consumers.get(group)
        return (
            online is not None and bool(online.subscriptions) and topic not in online.subscriptions
        )

    def _progress(self, group: str, topic: str, queues: int) -> dict[MessageQueue, dict[str, int]]:
        """A group's place in each queue; ``lastTimestamp`` is of the message it consumed last."""
        table = {}
        for queue in range(queues):
            consumed = max(0, self.offsets.query(topic, group, queue) or 0)
            last = stored_ms(self.store, topic, queue, consumed - 1) if consumed else 0
            table[MessageQueue(self.settings.broker_name, queue, topic)] = {
                "brokerOffset": self.store.bounds(topic, queue)[1],
                "consumerOffset": consumed,
                "lastTimestamp": max(0, last),
            }
        return table

    @answers(RequestCode.QUERY_CONSUME_TIME_SPAN)
    def consume_time_span(self, connection: Connection, request: Command) -> Command:
        """The store times of each queue's messages, and the time up to which a group has them."""
        topic, group = request.text("topic"), request.text("group")
        queues = range(known_topic(self.topics, topic).write_queues)
        spans = [self._span(topic, group, queue) for queue in queues]
        return json_answer(request, {"consumeTimeSpanSet": spans})

    def _span(self, topic: str, group: str, queue: int) -> dict[str, Any]:
        """Times in ms, -1 for those of messages that are not there.

        ``delayTime`` is the age of the first message that was not consumed; 0 without one. (The
        Java broker gives the time since 1970 where a group has no offset.)
        """
        low, high = self.store.bounds(topic, queue)
        next_ = max(low, self.offsets.query(topic, group, queue) or 0)
        oldest = stored_ms(self.store, topic, queue, low)
        times = {
            "minTimeStamp": oldest,
            "maxTimeStamp": stored_ms(self.store, topic, queue, high - 1),
            "consumeTimeStamp": stored_ms(self.store, topic, queue, next_ - 1)
            if next_ > low
            else oldest,
        }
        waiting = stored_ms(self.store, topic, queue, next_) if next_ < high else -1
        return {
            **times,
            **{f"{name}Str": _date_and_time(ms) for name, ms in times.items()},
            "delayTime": max(0, wall_ms(self.clock) - waiting) if waiting >= 0 else 0,
            "messageQueue": MessageQueue(self.settings.broker_name, queue, topic)._asdict(),
        }

    @answers(RequestCode.QUERY_CORRECTION_OFFSET)
    def correction_offsets(self, connection: Connection, request: Command) -> Command:
        """The least offset of each queue over all groups but some."""
        group, topic = request.text("compareGroup"), request.text("topic")
        without = set((request.optional("filterGroups") or "").split(","))
        return json_answer(
            request, {"correctionOffsets": self.offsets.least(topic, group, without)}
        )

    @answers(RequestCode.CLONE_GROUP_OFFSET)
    def clone_offsets(self, connection: Connection, request: Command) -> Command:
        """Let a group go on where another is, in one topic or in all.

        Unless ``offline``, topics that the other group no longer subscribes are left out.
        """
        source, target = request.text("srcGroup"), request.text("destGroup")
        topic = request.optional("topic")
        offline = request.boolean("offline")
        if source == target:
            return request.answer()
        for name in [topic] if topic else self.offsets.topics_of(source):
            if self.topics.get(name) and (offline or not self._gave_up(source, name)):
                self.offsets.clone(source, target, name)
                for queue in self.offsets.of(name, source):
                    self.offsets.moved(name, target, queue)
        self.files.save(files.OFFSETS)
        return request.answer()


def _date_and_time(ms: int) -> str:
    """A time in local time as the Java classes print it: ``2026-11-20#23:45:54:882``."""
    moment = datetime.fromtimestamp(ms // 1000)
    return f"{moment:%Y-%m-%d#%H:%M:%S}:{ms % 1000:03d}"
