"""A node with what popping needs, and requests that wait."""

from __future__ import annotations

import asyncio
from typing import cast

from penstock.core.units import MILLISECOND
from penstock.rocketmq.broker.pop.pop_channel import PopChannel, Popped
from penstock.rocketmq.broker.pop.pops import Pops
from penstock.rocketmq.broker.services import Services
from penstock.rocketmq.broker.state.subscriptions import Subscription
from penstock.rocketmq.protocol.messages.message import StoredMessage, decode
from penstock.rocketmq.protocol.registration import TopicConfig
from penstock.testing.clock import FakeClock


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
    def messages(self) -> list[StoredMessage]:
        return [decode(bytes(each.frame))[0] for each in self.popped]

    @property
    def bodies(self) -> list[bytes]:
        return [each.body for each in self.messages]

    @property
    def offsets(self) -> list[int]:
        return [each.offset for each in self.popped]

    @property
    def places(self) -> list[tuple[int, int]]:
        return [(each.queue, each.queue_offset) for each in self.popped]


def with_pops(services: Services, queues: int = 1) -> Pops:
    """The node's popping groups, and a topic T."""
    services.topics.put(TopicConfig("T", queues, queues), services.now_ms)
    return services.pops


async def settled() -> None:
    """Until what was delivered has been handed out, and what followed from it."""
    for _ in range(6):
        await asyncio.sleep(0)


async def dispatched(services: Services, ms: int = 0) -> None:
    """What the program around does after a commit and by the clock, once this time has passed."""
    cast(FakeClock, services.clock).advance(ms * MILLISECOND)
    now = services.clock.monotonic_ns()
    for channel in services.node.broker.tick(now):
        channel.dispatch(now)
    for topic in services.node.broker.topics.values():
        for channel in topic.channels.values():
            channel.dispatch(now)
    await settled()


def popper(services: Services, group: str = "G", *, from_end: bool = False) -> PopChannel:
    return services.pops.channel("T", group, from_end=from_end)


async def take(
    channel: PopChannel, count: int = 32, text: str = "*", *, hidden_ms: int = 1000
) -> Request:
    """A request, once it has what there is."""
    request = Request(count, text)
    assert channel.wait(request, hidden_ms)
    await settled()
    return request
