"""A node with what popping needs, and requests that wait."""

from __future__ import annotations

from collections.abc import Callable

from penstock.rocketmq.broker.pop.pop_channel import PopChannel, Popped
from penstock.rocketmq.broker.pop.pops import Pops
from penstock.rocketmq.broker.services import Services
from penstock.rocketmq.broker.state.subscriptions import Subscription
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

    def take_again(self) -> None:
        raise AssertionError("it may read on")

    def expire(self) -> None:
        self.is_expired = True

    def cancel(self) -> None:
        self.is_cancelled = True

    @property
    def bodies(self) -> list[bytes]:
        from penstock.rocketmq.protocol.messages.message import decode

        return [decode(bytes(each.frame))[0].body for each in self.popped]


def with_pops(services: Services, queues: int = 1) -> Pops:
    """The node's popping groups, and a topic T."""
    services.topics.put(TopicConfig("T", queues, queues), services.now_ms)
    return services.pops


def dispatch(services: Services) -> Callable[[], None]:
    """What the program around does after each commit, and by the clock."""

    def run() -> None:
        now = services.clock.monotonic_ns()
        for channel in services.node.broker.tick(now):
            channel.dispatch(now)
        for topic in services.node.broker.topics.values():
            for channel in topic.channels.values():
                channel.dispatch(now)

    return run


def popper(services: Services, group: str = "G", *, from_end: bool = False) -> PopChannel:
    return services.pops.channel("T", group, from_end=from_end)
