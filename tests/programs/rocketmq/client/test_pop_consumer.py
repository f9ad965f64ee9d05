"""The POP consumers with real servers: those with a ``shell`` of both libraries."""

from __future__ import annotations

import asyncio
import time

from penstock.rocketmq.client import Message, PopConsumer, Popped, Producer
from tests.programs.rocketmq.client.conftest import Site
from tools.harness.rocketmq.servers import QUICK, SECONDS, Servers, wait_for_route


async def fill(servers: Servers, topic: str, *bodies: bytes, tags: str = "") -> None:
    async with Producer("PG", servers.address, config=QUICK) as producer:
        for body in bodies:
            await producer.send(Message(topic, body, tags=tags))
    await asyncio.to_thread(wait_for_route, servers.address, topic)


async def test_a_message_can_be_given_back_or_hidden_for_longer(site: Site) -> None:
    await fill(site.servers, site.topic, b"a")
    async with site.pop_consumer() as consumer:
        (found,) = await consumer.receive(wait=30)
        await consumer.change_invisible(found, 30)
        assert await consumer.receive(wait=0) == []
        await consumer.change_invisible(found, 0)
        (again,) = await consumer.receive(wait=30)
        await consumer.ack(again)
        assert again.body == b"a"
        assert await consumer.receive(wait=0) == []


async def test_messages_are_iterated(site: Site) -> None:
    await fill(site.servers, site.topic, b"a", b"b", b"c")
    found = set()
    async with site.pop_consumer() as consumer:
        async for message in consumer:
            found.add(message.body)
            await consumer.ack(message)
            if len(found) == 3:
                break
    assert found == {b"a", b"b", b"c"}


async def test_only_what_is_not_acknowledged_comes_again(servers: Servers) -> None:
    """Alone or several together."""
    invisible_s = 1.0
    while not await _acknowledged_in_time(servers, invisible_s):
        invisible_s *= 4


async def _acknowledged_in_time(servers: Servers, invisible_s: float) -> bool:
    """Whether a busy machine came to acknowledge messages before they could come again."""
    topic = f"PopAcks-{invisible_s:g}"
    await fill(servers, topic, *[b"%d" % number for number in range(12)])
    made = PopConsumer("AG", topic, servers.address, config=QUICK, invisible=invisible_s)
    async with made as consumer:
        found: list[Popped] = []
        began = time.monotonic()
        while len(found) < 12:
            found += await consumer.receive(wait=30)
        alone, *together, left = found
        await consumer.ack(alone)
        await consumer.ack(*together)
        if time.monotonic() - began >= invisible_s:
            return False
        (again,) = await consumer.receive(wait=SECONDS)
        assert (again.body, again.reconsume_times) == (left.body, 1)
        await consumer.ack(again)
        assert await consumer.receive(wait=0) == []
    return True


async def test_tags_choose_messages(servers: Servers) -> None:
    await fill(servers, "PopTags", b"a", tags="yes")
    await fill(servers, "PopTags", b"b", tags="no")
    made = PopConsumer("TG", "PopTags", servers.address, config=QUICK, wanted="yes")
    async with made as consumer:
        (found,) = await consumer.receive(wait=30)
        await consumer.ack(found)
        assert found.body == b"a"
        assert await consumer.receive(wait=0) == []


async def test_iterating_ends_when_it_is_closed(servers: Servers) -> None:
    await fill(servers, "PopCloses", b"a")
    consumer = PopConsumer("EG", "PopCloses", servers.address, config=QUICK)
    seen = asyncio.Event()

    async def iterate() -> None:
        async for message in consumer:
            await consumer.ack(message)
            seen.set()

    task = asyncio.create_task(iterate())
    async with asyncio.timeout(SECONDS):
        await seen.wait()
        await consumer.close()
        await task


async def test_in_order_a_queue_gives_nothing_more_until_its_messages_are_done(
    servers: Servers,
) -> None:
    servers.make_topic("PopOrder", 1)
    await fill(servers, "PopOrder", b"0", b"1", b"2", b"3")
    async with (
        PopConsumer("OPG", "PopOrder", servers.address, config=QUICK, orderly=True) as first,
        PopConsumer("OPG", "PopOrder", servers.address, config=QUICK, orderly=True) as second,
    ):
        found = await first.receive(2, wait=30)
        assert [message.body for message in found] == [b"0", b"1"]
        assert await second.receive(wait=0.2) == [], "the queue is blocked"
        await first.ack(found[0])
        await first.change_invisible(found[1], 0)
        (again,) = await second.receive(1, wait=30)
        assert (again.body, again.reconsume_times) == (b"1", 1)
        await second.ack(again)
        rest = await second.receive(wait=30)
        assert [message.body for message in rest] == [b"2", b"3"]
        await second.ack(*rest)
