"""The progress of groups: the offsets of their queues, gathered from all brokers of a group."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from penstock.rocketmq.mqadmin.admin import LONG_TIMEOUT_S, RETRY, Admin
from penstock.rocketmq.mqadmin.errors import Refused
from penstock.rocketmq.mqadmin.java_text import queue_order
from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode
from penstock.rocketmq.protocol.message_queue import MessageQueue

_NOTHING = (
    "Not found the consumer group consume stats, because return offset table is empty, "
    "maybe the consumer not consume any message"
)


class Progress(NamedTuple):
    """A group in one queue: the queue's end, the group's offset, the time of the newest message."""

    broker_offset: int
    consumer_offset: int
    last_ms: int

    @property
    def lag(self) -> int:
        return self.broker_offset - self.consumer_offset


@dataclass(slots=True)
class ConsumeStats:
    """A group in all its queues, in their order."""

    tps: float = 0.0
    queues: dict[MessageQueue, Progress] = field(default_factory=dict)

    @property
    def lag(self) -> int:
        return sum(each.lag for each in self.queues.values())


def queue_table(value: Any) -> dict[MessageQueue, Any]:
    """A map with queues as its keys, sorted by them."""
    table = {MessageQueue.from_json(dict(key)): item for key, item in (value or {}).items()}
    return {queue: table[queue] for queue in sorted(table, key=queue_order)}


def parse(value: dict[str, Any]) -> ConsumeStats:
    """From a broker's answer."""
    queues = {
        queue: Progress(
            int(each["brokerOffset"]), int(each["consumerOffset"]), int(each["lastTimestamp"])
        )
        for queue, each in queue_table(value.get("offsetTable")).items()
    }
    return ConsumeStats(float(value.get("consumeTps") or 0.0), queues)


def consume_stats(admin: Admin, group: str, topic: str = "") -> ConsumeStats:
    """A group in all its queues, or those of a topic. Raises Refused when there are none."""
    fields = {"consumerGroup": group} | ({"topic": topic} if topic else {})
    found = ConsumeStats()
    for address in admin.route(RETRY + group).addresses:
        code = RequestCode.GET_CONSUME_STATS
        part = parse(admin.ask_json(address, code, fields, seconds=LONG_TIMEOUT_S))
        found.tps += part.tps
        found.queues |= part.queues
    if not found.queues:
        raise Refused(ResponseCode.CONSUMER_NOT_ONLINE, _NOTHING)
    found.queues = {queue: found.queues[queue] for queue in sorted(found.queues, key=queue_order)}
    return found
