"""The asyncio consumer against a scripted server."""

from __future__ import annotations

import asyncio

from penstock.nsq.client.aio import Consumer
from penstock.nsq.protocol.events import Ready
from tests.programs.nsq.client.conftest import consume, until
from tests.unit.nsq.client.fakes import (
    FakeNsqd,
)
from tools.harness.ports import unused_address


async def test_looking_without_waiting(nsqd: FakeNsqd) -> None:
    nsqd.put(b"a", b"b")
    async with consume(Consumer, nsqd) as consumer:
        await until(lambda: consumer.in_flight == 2)
        for expected in (b"a", b"b"):
            consumer._turn_ends = 0  # a while has passed since the last look
            message = await consumer.get(0)
            assert message is not None
            assert message.body == expected
            message.finish()
        assert await consumer.get(0) is None


async def test_looking_again_and_again_at_a_quiet_channel_gathers_nothing(nsqd: FakeNsqd) -> None:
    async with consume(Consumer, nsqd) as consumer:
        await until(lambda: nsqd.count(Ready) == 1)
        for _ in range(20):
            assert await consumer.get(0.001) is None
            assert await consumer.get_delivery(0.001) is None
        assert not consumer._waiters
        waits = asyncio.ensure_future(consumer.get(30))
        nsqd.put(b"a")
        message = await waits
        assert message is not None
        message.finish()


async def test_close_waits_for_answers_and_gives_back_the_rest(nsqd: FakeNsqd) -> None:
    nsqd.put(b"a", b"b", b"c")
    consumer = consume(Consumer, nsqd)
    message = await anext(consumer)
    closing = asyncio.ensure_future(consumer.close())
    await until(lambda: len(nsqd.requeued) == 2)
    assert not closing.done()
    assert message.finish()
    await closing
    await until(lambda: len(nsqd.finished) == 1)
    assert [late async for late in consumer] == []
    assert await consumer.get() is None
    await consumer.close()
    assert not consumer._tasks


async def test_close_does_not_wait_for_ever(nsqd: FakeNsqd) -> None:
    nsqd.put(b"a")
    consumer = consume(Consumer, nsqd)
    message = await anext(consumer)
    await consumer.close(grace=0.05)
    assert not message.finish()
    assert nsqd.finished == []


async def test_close_before_anything(nsqd: FakeNsqd) -> None:
    await consume(Consumer, nsqd).close()
    consumer = consume(Consumer, nsqd)
    consumer.start()
    await consumer.close()


async def test_a_node_that_comes_up_later() -> None:
    address = unused_address()
    async with Consumer("t", "c", nsqd_tcp_addresses=[address], reconnect_delay=0.01) as consumer:
        assert await consumer.get(0.05) is None
        assert not consumer.connections
