"""The asyncio consumer against a scripted server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from penstock.nsq.client.aio import Consumer
from penstock.nsq.client.config import Config
from penstock.nsq.client.errors import SubFailed
from penstock.nsq.protocol import frames
from penstock.nsq.protocol.events import Close, Nop, Ready, Subscribe
from tests.unit.nsq.client.fakes import (
    FakeNsqd,
    fake_http,
    fake_nsqd,
    lookup_answer,
)
from tools.harness.ports import unused_address

POLL_OFTEN = Config(lookupd_poll_interval=0.05)


@pytest.fixture
def nsqd() -> Iterator[FakeNsqd]:
    with fake_nsqd() as server:
        yield server


def consume(nsqd: FakeNsqd, max_in_flight: int = 10, **options: Any) -> Consumer:
    return Consumer(
        "t",
        "c",
        nsqd_tcp_addresses=[nsqd.address],
        config=Config(max_in_flight=max_in_flight, **options),
        reconnect_delay=0.01,
    )


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110  # the condition is a matter of another thread
            await asyncio.sleep(0.005)


async def test_messages(nsqd: FakeNsqd) -> None:
    nsqd.put(b"a", b"b", b"c")
    bodies = []
    async with consume(nsqd) as consumer:
        async for message in consumer:
            bodies.append(message.body)
            assert message.finish()
            if len(bodies) == 3:
                break
    assert bodies == [b"a", b"b", b"c"]
    assert len(nsqd.finished) == 3
    assert nsqd.count(Close) == 1


async def test_looking_without_waiting(nsqd: FakeNsqd) -> None:
    nsqd.put(b"a", b"b")
    async with consume(nsqd) as consumer:
        await until(lambda: consumer.in_flight == 2)
        for expected in (b"a", b"b"):
            consumer._turn_ends = 0  # a while has passed since the last look
            message = await consumer.get(0)
            assert message is not None
            assert message.body == expected
            message.finish()
        assert await consumer.get(0) is None


async def test_what_arrived_together_or_nothing_after_a_while(nsqd: FakeNsqd) -> None:
    nsqd.put(b"a", b"b")
    async with consume(nsqd) as consumer:
        bodies: list[bytes] = []
        while len(bodies) < 2:
            delivery = await consumer.get_delivery(30)
            assert delivery is not None
            bodies += [message.body for message in delivery.messages()]
            delivery.finish()
        assert bodies == [b"a", b"b"]
        assert await consumer.get_delivery(0.02) is None


async def test_looking_again_and_again_at_a_quiet_channel_gathers_nothing(nsqd: FakeNsqd) -> None:
    async with consume(nsqd) as consumer:
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


async def test_requeue(nsqd: FakeNsqd) -> None:
    nsqd.put(b"a")
    async with consume(nsqd) as consumer:
        message = await consumer.get(30)
        assert message is not None
        assert message.touch()
        assert message.requeue(0.25)
        await until(lambda: nsqd.requeued == [(message.id, 250)])
        assert await consumer.get(0.02) is None
        assert consumer.in_flight == 0


async def test_no_more_than_wanted_in_flight(nsqd: FakeNsqd) -> None:
    nsqd.put(b"a", b"b", b"c")
    async with consume(nsqd, max_in_flight=2) as consumer:
        first, second = await consumer.get(30), await consumer.get(30)
        assert first is not None
        assert second is not None
        assert await consumer.get(0.05) is None
        assert consumer.in_flight == 2
        first.finish()
        third = await consumer.get(30)
        assert third is not None
        assert third.body == b"c"
        second.finish()
        third.finish()


async def test_close_waits_for_answers_and_gives_back_the_rest(nsqd: FakeNsqd) -> None:
    nsqd.put(b"a", b"b", b"c")
    consumer = consume(nsqd)
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
    consumer = consume(nsqd)
    message = await anext(consumer)
    await consumer.close(grace=0.05)
    assert not message.finish()
    assert nsqd.finished == []


async def test_close_before_anything(nsqd: FakeNsqd) -> None:
    await consume(nsqd).close()
    consumer = consume(nsqd)
    consumer.start()
    await consumer.close()


async def test_a_lost_node_is_found_again(nsqd: FakeNsqd) -> None:
    nsqd.put(b"a")
    async with consume(nsqd) as consumer:
        held = await consumer.get(30)
        assert held is not None
        nsqd.drop_connections()
        await until(lambda: nsqd.count(Subscribe) == 2)
        nsqd.put(b"b")
        message = await consumer.get(30)
        assert message is not None
        assert message.body == b"b"
        assert message.finish()
        assert not held.finish()


async def test_a_node_that_comes_up_later() -> None:
    address = unused_address()
    async with Consumer("t", "c", nsqd_tcp_addresses=[address], reconnect_delay=0.01) as consumer:
        assert await consumer.get(0.05) is None
        assert not consumer.connections


async def test_a_refused_subscription(nsqd: FakeNsqd) -> None:
    nsqd.refusals["Subscribe"] = "E_SUB_FAILED SUB failed consumers for t:c exceeds limit of 1"
    async with consume(nsqd) as consumer:
        with pytest.raises(SubFailed, match="exceeds limit"):
            await consumer.get(30)


async def test_heartbeats_and_errors(nsqd: FakeNsqd) -> None:
    async with consume(nsqd) as consumer:
        await until(lambda: nsqd.count(Ready) == 1)
        nsqd.send(frames.HEARTBEAT_FRAME)
        nsqd.send(frames.error("E_FIN_FAILED FIN x failed ID not in flight"))
        await until(lambda: nsqd.count(Nop) == 1)
        nsqd.put(b"a")
        message = await consumer.get(30)
        assert message is not None
        message.finish()


async def test_a_silent_server_is_left(nsqd: FakeNsqd) -> None:
    addresses = [nsqd.address]
    config = Config(heartbeat_interval=0.1)
    async with Consumer(
        "t", "c", nsqd_tcp_addresses=addresses, config=config, reconnect_delay=0.01
    ) as consumer:
        consumer.start()
        await until(lambda: nsqd.count(Subscribe) >= 2)


async def test_nodes_by_lookup(nsqd: FakeNsqd) -> None:
    with fake_http() as lookupd, fake_nsqd() as other:
        lookupd.json("/lookup", lookup_answer(nsqd.address, unused_address()))
        nsqd.put(b"a")
        lookupds = [unused_address(), lookupd.address]
        async with Consumer(
            "t", "c", lookupd_http_addresses=lookupds, max_in_flight=2, config=POLL_OFTEN
        ) as consumer:
            message = await consumer.get(30)
            assert message is not None
            message.finish()
            assert list(consumer.connections) == [nsqd.address]
            lookupd.json("/lookup", lookup_answer(other.address))
            nsqd.close()
            other.put(b"b")
            message = await consumer.get(30)
            assert message is not None
            assert message.body == b"b"
            message.finish()


async def test_more_nodes_than_messages_wanted(nsqd: FakeNsqd) -> None:
    config = Config(low_rdy_idle_timeout=1, rdy_redistribute_interval=0.01)
    with fake_nsqd() as other:
        addresses = [nsqd.address, other.address]
        async with Consumer("t", "c", nsqd_tcp_addresses=addresses, config=config) as consumer:
            nsqd.put(b"a")
            other.put(b"b")
            seen: set[bytes] = set()
            while len(seen) < 2:
                message = await consumer.get(30)
                assert message is not None
                seen.add(message.body)
                message.finish()


def test_bad_addresses_are_refused_at_once() -> None:
    with pytest.raises(ValueError, match="port"):
        Consumer("t", "c", nsqd_tcp_addresses=["nowhere"])


async def test_a_topic_nsqlookupd_does_not_know_yet(nsqd: FakeNsqd) -> None:
    with fake_http() as lookupd:
        lookupd.json("/lookup", {"message": "TOPIC_NOT_FOUND"}, 404)
        consumer = Consumer(
            "t",
            "c",
            lookupd_http_addresses=[lookupd.address],
            config=Config(lookupd_poll_interval=0.01),
        )
        async with consumer:
            assert await consumer.get(0.05) is None
            lookupd.json("/lookup", lookup_answer(nsqd.address))
            nsqd.put(b"a")
            message = await consumer.get(30)
            assert message is not None
            message.finish()
