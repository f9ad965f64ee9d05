"""A look into a queue: what it knows of its messages (RocketMQ spec 2.4, QUERY_CONSUME_QUEUE)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from penstock.core.units import MILLISECOND
from penstock.rocketmq.broker import names
from penstock.rocketmq.broker.answering import RefusedError, answers, json_answer
from penstock.rocketmq.broker.state.subscriptions import SQL92, Subscription
from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode
from penstock.rocketmq.protocol.command import Command
from penstock.rocketmq.protocol.ids import java_hash
from penstock.rocketmq.protocol.messages import message, properties
from penstock.storage.batch import Buffer

if TYPE_CHECKING:
    from penstock.rocketmq.broker.state.clients import Clients
    from penstock.rocketmq.broker.state.levels import DelayLevels
    from penstock.rocketmq.broker.state.topic_table import TopicTable
    from penstock.rocketmq.broker.store.message_store import MessageStore
    from penstock.rocketmq.protocol.messages.message import StoredMessage
    from penstock.rocketmq.remoting import Connection

COUNT_MAX: Final = 1024
"""One answer shows no more messages."""
_READ_BYTES: Final = 1024 * 1024


@dataclass(slots=True, eq=False)
class QueueView:
    """Answers about the entries of queues."""

    topics: TopicTable
    clients: Clients[Connection]
    levels: DelayLevels
    store: MessageStore

    @answers(RequestCode.QUERY_CONSUME_QUEUE)
    def queue_view(self, connection: Connection, request: Command) -> Command:
        """A queue's bounds; place, size and tag of up to ``count`` messages from ``index`` on."""
        topic, queue = request.text("topic"), request.int32("queueId")
        index, count = request.int64("index"), request.int32("count")
        group = request.optional("consumerGroup")
        config = self.topics.get(topic)
        if config is None or not 0 <= queue < max(config.read_queues, config.write_queues):
            # The wording is Java's; tools show it as it is.
            raise RefusedError(ResponseCode.SYSTEM_ERROR, f"{queue}@{topic} is not exist!")
        low, high = self.store.bounds(topic, queue)
        shown = range(max(index, low), min(index + count, high))
        answer = json_answer(
            request,
            {
                "maxQueueIndex": high,
                "minQueueIndex": low,
                "queueData": self._entries(topic, queue, shown),
                **(self._filter(group, topic) if group else {}),
            },
        )
        if not low <= index < high:
            answer.remark = f"Index {index} of {queue}@{topic} is not exist!"
        return answer

    def _entries(self, topic: str, queue: int, offsets: range) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        offset = offsets.start
        while offset < offsets.stop and len(found) < COUNT_MAX:
            wanted = min(offsets.stop - offset, COUNT_MAX - len(found))
            read = self.store.read(topic, queue, offset, wanted, _READ_BYTES)
            if not read:
                break
            found += [self._entry(frame) for _, frame in read]
            offset = read[-1].queue_offset + 1
        return found

    def _entry(self, frame: Buffer) -> dict[str, Any]:
        stored, _ = message.decode(bytes(frame))
        return {
            "eval": False,  # whether filters were precomputed for the message: we never do
            "physicOffset": stored.physical_offset,
            "physicSize": len(frame),
            "tagsCode": self._tags_code(stored),
        }

    def _tags_code(self, stored: StoredMessage) -> int:
        """The hash of the tag; of a delayed message, when it is due (ms)."""
        level = properties.number(properties.value_of(stored.properties, properties.DELAY))
        # Java's queue of delayed messages holds the time of delivery in place of the hash.
        if stored.topic == names.SCHEDULE_TOPIC and level is not None:
            return stored.store_ms + self.levels.delay_ns(level) // MILLISECOND
        return java_hash(properties.value_of(stored.properties, properties.TAGS) or "")

    def _filter(self, group: str, topic: str) -> dict[str, Any]:
        """The subscription of a group and how it is filtered, as text."""
        online = self.clients.consumers.get(group)
        subscription = online.subscriptions.get(topic) if online is not None else None
        if subscription is None:
            return {"filterData": f"{group}@{topic} is not online!"}
        return {
            "filterData": _filter_text(group, subscription),
            "subscriptionData": subscription.as_json(),
        }


def _filter_text(group: str, subscription: Subscription) -> str:
    if subscription.kind != SQL92:
        return "null"
    data = {
        "bloomFilterData": {"bitNum": 0, "bitPos": []},  # nothing is precomputed per message
        "bornTime": subscription.born_ms,
        "clientVersion": subscription.version,
        "consumerGroup": group,
        "dead": False,  # Java would drop a dead one
        "deadTime": 0,
        "expression": subscription.text,
        "expressionType": subscription.kind,
        "topic": subscription.topic,
    }
    return json.dumps(data, indent="\t", separators=(",", ":"), ensure_ascii=False)
