from __future__ import annotations

import asyncio

import pytest

from penstock.rocketmq.broker.processor import UNDER_WAY_MAX
from penstock.rocketmq.broker.pull import arrivals as module
from penstock.rocketmq.broker.services import Services
from tests.unit.rocketmq.broker.filling import store


async def test_a_message_ends_the_wait_for_its_topic_alone(services: Services) -> None:
    arrivals, listeners = services.arrivals, len(services.store.on_append)
    waits = [asyncio.ensure_future(arrivals.wait(topic, 60)) for topic in ("T", "U")]
    await asyncio.sleep(0)
    assert len(services.store.on_append) == listeners + 1
    await store(services, "T", 0, b"x")
    assert await waits[0]
    assert not waits[1].done()
    arrivals.wake("U")
    assert await waits[1]
    assert len(services.store.on_append) == listeners  # nobody waits any more


async def test_a_wait_ends_with_its_time(services: Services) -> None:
    assert await services.arrivals.wait("T", 0.001)


async def test_no_more_may_wait_than_there_is_room_for(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "WAITING_MAX", 0)
    assert not await services.arrivals.wait("T", 60)


def test_those_who_wait_leave_room_for_other_answers() -> None:
    assert module.WAITING_MAX <= UNDER_WAY_MAX // 2
