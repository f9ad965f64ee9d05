"""Waiting for something to pop."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from penstock.rocketmq.broker import pop_notices
from penstock.rocketmq.broker.answering import RefusedError
from penstock.rocketmq.broker.node import Node
from penstock.rocketmq.broker.pop_notices import Arrivals, notification
from penstock.rocketmq.protocol.codes import RequestCode
from penstock.rocketmq.protocol.command import Command

from .filling import store
from .peers import FakePeer, request
from .popping import with_pops

PEER = FakePeer().connection


@pytest.fixture
def topic(node: Node) -> Node:
    with_pops(node)
    node.arrivals = Arrivals(node.store)
    return node


async def ask(node: Node, **changes: Any) -> Command:
    fields = {"consumerGroup": "G", "topic": "T", "queueId": -1, "pollTime": 30_000,
              "bornTime": 1, **changes}  # fmt: skip
    answer: Command = await notification(node, PEER, request(RequestCode.NOTIFICATION, **fields))
    return answer


async def test_there_is_something(topic: Node) -> None:
    await store(topic, "T", 0, b"a")
    assert (await ask(topic)).ext == {"hasMsg": "true", "pollingFull": "false"}


async def test_something_comes(topic: Node) -> None:
    listeners = len(topic.store.appended)
    waiting = [asyncio.ensure_future(ask(topic)) for _ in range(2)]
    for _ in range(5):
        await asyncio.sleep(0)
    assert len(topic.store.appended) == listeners + 1
    await store(topic, "other", 0, b"a")
    assert not any(each.done() for each in waiting)
    await store(topic, "T", 0, b"a")
    for answer in await asyncio.gather(*waiting):
        assert answer.ext == {"hasMsg": "true", "pollingFull": "false"}
    assert len(topic.store.appended) == listeners


async def test_nothing_comes(topic: Node) -> None:
    for poll_ms in (0, 10):
        answer = await ask(topic, pollTime=poll_ms)
        assert answer.ext == {"hasMsg": "false", "pollingFull": "false"}


async def test_too_many_wait(topic: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pop_notices, "WAITING_MAX", 0)
    assert (await ask(topic)).ext == {"hasMsg": "false", "pollingFull": "true"}


async def test_in_order_is_refused(topic: Node) -> None:
    with pytest.raises(RefusedError, match="in order"):
        await ask(topic, order="true")
