"""The progress of groups: the offsets of their queues, gathered from all brokers of a group."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from penstock.rocketmq.client.admin.client import AdminClient
from penstock.rocketmq.client.admin.errors import Refused
from penstock.rocketmq.client.names import RETRY
from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode
from penstock.rocketmq.protocol.message_queue import MessageQueue, queue_order

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


async def group_stats(
    client: AdminClient, address: str, group: str, topic: str = ""
) -> ConsumeStats:
    """A group in its queues on a broker, or in those of a topic."""
    fields = {"consumerGroup": group} | ({"topic": topic} if topic else {})
    code = RequestCode.GET_CONSUME_STATS
    return parse(await client.ask_json(address, code, fields, seconds=client.long_timeout_s))


class BrokerConsumeStats(NamedTuple):
    """The groups that a broker knows, with a part for each topic that they read, and their lag."""

    groups: list[tuple[str, ConsumeStats]]
    lag: int


async def broker_consume_stats(
    client: AdminClient, address: str, *, is_order: bool = False, seconds: float | None = None
) -> BrokerConsumeStats:
    """All groups that a broker knows; with ``is_order`` those that consume in order alone."""
    fields = {"isOrder": str(is_order).lower()}
    code = RequestCode.GET_BROKER_CONSUME_STATS
    found = await client.ask_json(address, code, fields, seconds=seconds)
    groups = [
        (str(group), parse(stats))
        for told in found.get("consumeStatsList") or ()
        for group, parts in told.items()
        for stats in parts
    ]
    return BrokerConsumeStats(groups, int(found.get("totalDiff") or 0))


async def consume_stats(client: AdminClient, group: str, topic: str = "") -> ConsumeStats:
    """A group in its queues on all its brokers. Raises Refused when there are none."""
    found = ConsumeStats()
    for address in (await client.route(RETRY + group)).addresses:
        part = await group_stats(client, address, group, topic)
        found.tps += part.tps
        found.queues |= part.queues
    if not found.queues:
        raise Refused(ResponseCode.CONSUMER_NOT_ONLINE, _NOTHING)
    found.queues = {queue: found.queues[queue] for queue in sorted(found.queues, key=queue_order)}
    return found
