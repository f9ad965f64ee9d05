from __future__ import annotations

import asyncio

import pytest

from penstock.rocketmq.broker.controller import Controller
from penstock.rocketmq.broker.processor import UNDER_WAY_MAX
from penstock.rocketmq.broker.pull import arrivals as module
from tests.unit.rocketmq.broker.filling import store


async def test_a_message_ends_the_wait_for_its_topic_alone(controller: Controller) -> None:
    arrivals, listeners = controller.arrivals, len(controller.store.on_append)
    waits = [asyncio.ensure_future(arrivals.wait(topic, 60)) for topic in ("T", "U")]
    await asyncio.sleep(0)
    assert len(controller.store.on_append) == listeners + 1
    await store(controller, "T", 0, b"x")
    assert await waits[0]
    assert not waits[1].done()
    arrivals.wake("U")
    assert await waits[1]
    assert len(controller.store.on_append) == listeners  # nobody waits any more


async def test_a_wait_ends_with_its_time(controller: Controller) -> None:
    assert await controller.arrivals.wait("T", 0.001)


async def test_no_more_may_wait_than_there_is_room_for(
    controller: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "WAITING_MAX", 0)
    assert not await controller.arrivals.wait("T", 60)


def test_those_who_wait_leave_room_for_other_answers() -> None:
    assert module.WAITING_MAX <= UNDER_WAY_MAX // 2
