"""Requests to pop that wait while what they may have changes."""

from __future__ import annotations

import asyncio

import pytest

from penstock.rocketmq.broker.answering import RefusedError
from penstock.rocketmq.broker.services import Services
from penstock.rocketmq.protocol.codes import RequestCode
from penstock.rocketmq.protocol.command import Command
from tests.unit.rocketmq.broker.filling import store
from tests.unit.rocketmq.broker.forbidding import PLACES, forbid_reading
from tests.unit.rocketmq.broker.peers import FakePeer, hand_over, request
from tests.unit.rocketmq.broker.popping import dispatch, with_pops


class Popper(FakePeer):
    """A connection that notes which requests it is to take again."""

    def __init__(self) -> None:
        super().__init__()
        self.again: list[Command] = []

    def take_again(self, request: Command) -> None:
        self.again.append(request)


def ask(services: Services, peer: Popper, *, order: bool) -> None:
    hand_over(services, peer.connection, request(
        RequestCode.POP_MESSAGE, consumerGroup="G", topic="T", queueId=-1, maxMsgNums=32,
        invisibleTime=1000, pollTime=30_000, bornTime=1, initMode=0, order=str(order).lower(),
    ))  # fmt: skip


@pytest.mark.parametrize("order", [False, True])
@pytest.mark.parametrize("forbids", PLACES)
async def test_a_request_that_waits_is_asked_again_whether_it_may(
    services: Services, forbids: str, order: bool
) -> None:
    pops = with_pops(services)
    first, second = Popper(), Popper()
    for peer in (first, second):
        ask(services, peer, order=order)
    forbid_reading(services, forbids)
    await store(services, "T", 0, b"a")
    dispatch(services)()
    for _ in range(6):
        await asyncio.sleep(0)
    assert len(pops) == 0
    for peer in (first, second):
        (again,) = peer.again
        with pytest.raises(RefusedError, match=r"forbidden|no permission"):
            hand_over(services, peer.connection, again)
        assert not peer.sent
    if not order:  # the message waits for those who may have it
        channel = pops.find("T", "G")
        assert channel is not None
        state = channel.channel.state
        assert (state.depth, state.in_flight_count) == (1, 0)
