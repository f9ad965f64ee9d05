"""Waiting for something to pop."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from penstock.core.units import MILLISECOND
from penstock.rocketmq.broker.pop.pop_orders import OpenBatch
from penstock.rocketmq.broker.pull import arrivals
from penstock.rocketmq.broker.services import Services
from penstock.rocketmq.protocol.codes import RequestCode
from penstock.rocketmq.protocol.command import Command
from penstock.testing.clock import FakeClock
from tests.unit.rocketmq.broker.filling import store
from tests.unit.rocketmq.broker.peers import FakePeer, answered_later, request
from tests.unit.rocketmq.broker.popping import Request, dispatch, popper, with_pops

PEER = FakePeer().connection


@pytest.fixture
def topic(services: Services) -> Services:
    with_pops(services)
    return services


async def ask(services: Services, **changes: Any) -> Command:
    fields = {"consumerGroup": "G", "topic": "T", "queueId": -1, "pollTime": 30_000,
              "bornTime": 1, **changes}  # fmt: skip
    answer: Command = await answered_later(
        services, PEER, request(RequestCode.NOTIFICATION, **fields)
    )
    return answer


async def test_there_is_something(topic: Services) -> None:
    await store(topic, "T", 0, b"a")
    assert (await ask(topic)).ext == {"hasMsg": "true", "pollingFull": "false"}


async def test_something_comes(topic: Services) -> None:
    listeners = len(topic.store.on_append)
    waiting = [asyncio.ensure_future(ask(topic)) for _ in range(2)]
    for _ in range(5):
        await asyncio.sleep(0)
    assert len(topic.store.on_append) == listeners + 1
    await store(topic, "other", 0, b"a")
    assert not any(each.done() for each in waiting)
    await store(topic, "T", 0, b"a")
    for answer in await asyncio.gather(*waiting):
        assert answer.ext == {"hasMsg": "true", "pollingFull": "false"}
    assert len(topic.store.on_append) == listeners


async def test_a_hidden_message_becomes_visible_again(topic: Services, clock: FakeClock) -> None:
    await store(topic, "T", 0, b"a")
    channel, request = popper(topic), Request()
    assert channel.wait(request, 20)
    dispatch(topic)()
    await asyncio.sleep(0)
    assert request.bodies == [b"a"]
    waiting = asyncio.ensure_future(ask(topic))
    await asyncio.sleep(0)
    clock.advance(20 * MILLISECOND)
    dispatch(topic)()
    async with asyncio.timeout(60):
        assert (await waiting).ext == {"hasMsg": "true", "pollingFull": "false"}


async def test_what_somebody_else_has_had_is_not_told(topic: Services) -> None:
    popper(topic)
    waiting = asyncio.ensure_future(ask(topic, pollTime=50))
    await asyncio.sleep(0)
    await store(topic, "T", 0, b"a")
    assert popper(topic).wait(Request(), 60_000)
    dispatch(topic)()
    for _ in range(5):
        await asyncio.sleep(0)
    assert not waiting.done()
    assert (await waiting).ext == {"hasMsg": "false", "pollingFull": "false"}


async def test_nothing_comes(topic: Services) -> None:
    for poll_ms in (0, 10):
        answer = await ask(topic, pollTime=poll_ms)
        assert answer.ext == {"hasMsg": "false", "pollingFull": "false"}


async def test_too_many_wait(topic: Services, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrivals, "WAITING_MAX", 0)
    assert (await ask(topic)).ext == {"hasMsg": "false", "pollingFull": "true"}


async def test_in_order_nothing_is_there_while_a_batch_is_out(topic: Services) -> None:
    ordered, key = topic.pops.ordered, ("T", "G")
    await store(topic, "T", 0, b"a", b"b")
    assert (await ask(topic, order="true")).ext == {"hasMsg": "true", "pollingFull": "false"}
    now_ms = topic.now_ms
    ordered.table.put(key, 0, OpenBatch([0], now_ms, 60_000))
    answer = await ask(topic, order="true", pollTime=10)
    assert answer.ext == {"hasMsg": "false", "pollingFull": "false"}
    waiting = asyncio.ensure_future(ask(topic, order="true"))
    await asyncio.sleep(0)
    assert ordered.finish(key, 0, [0], now_ms) == []
    assert (await waiting).ext == {"hasMsg": "true", "pollingFull": "false"}
