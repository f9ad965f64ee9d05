"""Looking into queues without being a group that consumes them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from penstock.admin.rocketmq.servers import Servers
from penstock.rocketmq.client.admin.errors import Refused
from penstock.rocketmq.client.admin.offsets import end_offset, first_offset
from penstock.rocketmq.client.admin.topology import Broker, TopicRoute
from penstock.rocketmq.client.consume.received import Received, each_received
from penstock.rocketmq.protocol import requests
from penstock.rocketmq.protocol.codes import ResponseCode
from penstock.rocketmq.protocol.message_queue import MessageQueue

ROOM: Final = 32 << 20
"""Bytes of bodies that one look at a topic holds, over all its queues."""
BODY_LEAST: Final = 4 << 20
"""Bytes that any body may become; the clients' limit for what they send. A longer one is shown as
it is stored where there is no more room."""
# A pull gives one message at least, so LIMIT_MAX needs half as many; more is a broker that gets
# nowhere.
PULLS_MAX: Final = 128
"""Pulls of one look at a queue."""
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

    @property
    def address(self) -> str:
        return self.broker.any_address()

    @property
    def place(self) -> MessageQueue:
        return MessageQueue(self.broker.name, self.number, self.topic)

    def __str__(self) -> str:
        return f"broker {self.broker.name}, queue {self.number}"


class Part(NamedTuple):
    """Messages of a queue that follow each other, the oldest first; ``is_all``: none lie beyond."""

    messages: list[Received]
    is_all: bool


def queues_of(route: TopicRoute, topic: str) -> list[Queue]:
    """The queues that can be read, of brokers that have an address."""
    brokers = {each.name: each for each in route.brokers if each.any_address()}
    return [
        Queue(brokers[each.brokerName], topic, each.queueId)
        for each in route.readable(topic)
        if each.brokerName in brokers
    ]


async def onward(servers: Servers, queue: Queue, start: int, most: int, room: int) -> Part:
    """The messages from an offset on, about ``room`` bytes of them.

    A broker gives 32 messages or 256 KiB at a time, unless it is told otherwise: it is asked again.
    """
    found: list[Received] = []
    for _ in range(PULLS_MAX):
        if len(found) >= most or _size(found) >= room:
            break
        more = await pull(servers, queue, start, most - len(found), room)
        if not more:
            return Part(found, is_all=True)
        found += more
        start = more[-1].queue_offset + 1
    return Part(found, is_all=False)


async def backward(servers: Servers, queue: Queue, most: int, room: int) -> Part:
    """The newest messages, about ``room`` bytes of them.

    An answer that a broker ends early has those furthest away: fewer are asked for then.
    """
    end = await end_offset(servers, queue.address, queue.place)
    first = await first_offset(servers, queue.address, queue.place)
    found: list[Received] = []
    size = most
    for _ in range(PULLS_MAX):
        if end <= first or len(found) >= most or _size(found) >= room:
            break
        size = min(size, end - first, most - len(found))
        pulled = await pull(servers, queue, end - size, size, room)
        more = [each for each in pulled if each.queue_offset < end]
        # The broker ended early, and the newest messages are those that lack.
        if size > 1 and more and more[-1].queue_offset < end - 1:
            size = min(len(more), size // 2)
            continue
        found = more + found
        end -= size
    return Part(found, is_all=end <= first)


def _size(messages: list[Received]) -> int:
    return sum(len(each.body) for each in messages)


def most_of(room: int) -> int:
    """The most bytes that one decompressed body may have where all share this room."""
    return max(room, BODY_LEAST)


def fitting(messages: Iterable[Received], room: int) -> tuple[list[Received], bool]:
    """The first messages that have room for their bodies, one at least; and True if that is all.

    A message of a few kilobytes may unpack to megabytes: the rest is not unpacked.
    """
    found: list[Received] = []
    size = 0
    for each in messages:
        if size >= room:
            return found, False
        found.append(each)
        size += len(each.body)
    return found, True


async def pull(servers: Servers, queue: Queue, start: int, most: int, room: int) -> list[Received]:
    """Messages of a queue from an offset on, as many as the broker gives at once and have room.
    Nothing is committed.
    """
    request = requests.pull(requests.TOOLS_GROUP, queue.place, start, most)
    try:
        answer = await servers.ask(queue.address, *request)
    except Refused as error:
        if error.code in _NOTHING:
            return []
        raise
    messages = each_received(answer.body, queue.broker.name, first=start, most=most_of(room))
    return fitting(messages, room)[0]
