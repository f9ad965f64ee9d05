"""Looking into queues without being a group that consumes them."""

from __future__ import annotations

from typing import Final, NamedTuple

from penstock.admin.rocketmq.servers import Servers
from penstock.rocketmq.client.consume.received import Received, all_received
from penstock.rocketmq.mqadmin.errors import Refused
from penstock.rocketmq.mqadmin.topology import Broker, TopicRoute
from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode

GROUP: Final = "TOOLS_CONSUMER"
_WITH_SUBSCRIPTION: Final = 4
_NOTHING: Final = (
    ResponseCode.PULL_NOT_FOUND,
    ResponseCode.PULL_RETRY_IMMEDIATELY,
    ResponseCode.PULL_OFFSET_MOVED,
)


class Queue(NamedTuple):
    """A queue, and the broker that has it."""

    broker: Broker
    topic: str
    number: int

    def __str__(self) -> str:
        return f"broker {self.broker.name}, queue {self.number}"


def queues_of(route: TopicRoute, topic: str) -> list[Queue]:
    """The queues that can be read, of brokers that have an address."""
    brokers = {each.name: each for each in route.brokers if each.any_address()}
    return [
        Queue(brokers[each.brokerName], topic, each.queueId)
        for each in route.readable(topic)
        if each.brokerName in brokers
    ]


async def offset(servers: Servers, queue: Queue, code: RequestCode, **more: object) -> int:
    """An offset of a queue: its first, its end, or the one at a time."""
    fields = {"topic": queue.topic, "queueId": queue.number, **more}
    return (await servers.ask(queue.broker.any_address(), code, fields)).int64("offset")


async def pull(servers: Servers, queue: Queue, start: int, most: int) -> list[Received]:
    """Messages of a queue from an offset on. Nothing is committed."""
    fields = {
        "consumerGroup": GROUP, "topic": queue.topic, "queueId": queue.number,
        "queueOffset": start, "maxMsgNums": most, "sysFlag": _WITH_SUBSCRIPTION,
        "commitOffset": 0, "suspendTimeoutMillis": 0, "subscription": "*", "subVersion": 0,
        "expressionType": "TAG",
    }  # fmt: skip
    address = queue.broker.any_address()
    try:
        answer = await servers.ask(address, RequestCode.PULL_MESSAGE, fields)
    except Refused as error:
        if error.code in _NOTHING:
            return []
        raise
    return all_received(answer.body, queue.broker.name)
