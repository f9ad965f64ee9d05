"""A node with what popping needs, and requests that wait."""

from __future__ import annotations

from collections.abc import Callable

from penstock.rocketmq.broker.node import Node
from penstock.rocketmq.broker.pop_channel import PopChannel, Popped
from penstock.rocketmq.broker.pop_notices import Arrivals
from penstock.rocketmq.broker.pops import Pops
from penstock.rocketmq.broker.subscriptions import Subscription
from penstock.rocketmq.protocol.registration import TopicConfig


class Request:
    """Takes note of what it is answered."""

    def __init__(self, count: int = 32, text: str = "*", connection: object = None) -> None:
        self.count = count
        self.subscription = Subscription.parse("T", text)
        self.connection = connection
        self.popped: list[Popped] = []
        self.answers = 0
        self.is_expired = False
        self.is_cancelled = False

    def answer(self, popped: list[Popped]) -> None:
        self.popped += popped
        self.answers += 1

    def expire(self) -> None:
        self.is_expired = True

    def cancel(self) -> None:
        self.is_cancelled = True

    @property
    def bodies(self) -> list[bytes]:
        from penstock.rocketmq.protocol.message import decode

        return [decode(bytes(each.frame))[0].body for each in self.popped]


def with_pops(node: Node, queues: int = 1) -> Pops:
    """The node's popping groups, and a topic T."""
    node.pops = Pops(node)
    node.arrivals = Arrivals(node.store)
    node.topics.put(TopicConfig("T", queues, queues), node.now_ms)
    return node.pops


def dispatch(node: Node) -> Callable[[], None]:
    """What the program around does after each commit, and by the clock."""

    def run() -> None:
        now = node.clock.monotonic_ns()
        for channel in node.base.broker.tick(now):
            channel.dispatch(now)
        for topic in node.base.broker.topics.values():
            for channel in topic.channels.values():
                channel.dispatch(now)

    return run


def popper(node: Node, group: str = "G", *, from_end: bool = False) -> PopChannel:
    return node.pops.channel("T", group, from_end=from_end)
