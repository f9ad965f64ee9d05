"""The lite pull consumers of both libraries with real servers."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from penstock.core.units import SECOND
from penstock.rocketmq.client import Message, Stopped, blocking, sql
from penstock.rocketmq.client.consume.pulling import PullStatus
from penstock.rocketmq.client.errors import NoRoute, NotAssigned
from tests.programs.rocketmq.client.conftest import Site
from tests.unit.rocketmq.leaping import Leaping
from tools.harness.rocketmq.servers import QUICK, Servers, wait_for_route


def numbers(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


async def test_what_was_polled_is_done_with_the_next_poll(site: Site) -> None:
    site.make()
    await site.fill(*numbers(10))
    async with site.lite_pull_consumer() as consumer:
        consumer.subscribe(site.topic)
        first = await consumer.poll(timeout=60, max_messages=4)
        (queue,) = await consumer.topic_queues(site.topic)
        assert [each.queue_offset for each in first] == [0, 1, 2, 3]
        assert consumer.queues[0].commit_offset == 0
        second = await consumer.poll(timeout=60, max_messages=4)
        assert [each.queue_offset for each in second] == [4, 5, 6, 7]
        assert consumer.queues[0].commit_offset == 4
    async with site.lite_pull_consumer() as consumer:
        assert await consumer.committed(queue) == 8


async def test_without_auto_commit_a_crash_brings_messages_again(site: Site) -> None:
    site.make()
    await site.fill(*numbers(6))

    def consumer() -> Any:
        made = site.lite_pull_consumer(auto_commit=False)
        made.subscribe(site.topic)
        return made

    first = consumer()
    assert len(await first.poll(timeout=60, max_messages=2)) == 2
    await first.commit()
    assert len(await first.poll(timeout=60, max_messages=2)) == 2
    first._hub.close()  # without a word to anybody
    async with consumer() as second:
        found = await second.poll(timeout=60, max_messages=2)
    assert [each.body for each in found] == [b"2", b"3"]


async def test_queues_can_be_chosen_and_sought(site: Site) -> None:
    site.make(2)
    await site.fill(*numbers(10))
    async with site.lite_pull_consumer() as consumer:
        queues = await consumer.topic_queues(site.topic)
        await consumer.assign(queues[:1])
        assert [each.queue for each in consumer.queues] == queues[:1]
        assert await consumer.max_offset(queues[0]) == 10
        assert await consumer.min_offset(queues[0]) == 0
        assert await consumer.offset_at(queues[0], 1.0) == 0
        consumer.seek(queues[0], 7)
        assert [each.queue_offset for each in await consumer.poll(timeout=60)] == [7, 8, 9]
        await consumer.seek_to_begin(queues[0])
        assert (await consumer.poll(timeout=60))[0].queue_offset == 0
        await consumer.seek_to_end(queues[0])
        assert await consumer.poll(timeout=0.2) == []
        with pytest.raises(NotAssigned, match="not in assigned list"):
            consumer.seek(queues[1], 0)


async def test_a_time_finds_an_offset(site: Site) -> None:
    site.make()
    await site.fill(*numbers(3))
    await asyncio.sleep(0.5)  # Java's broker of 4.9 takes the message that is nearest in time
    since = time.time()
    await asyncio.sleep(0.01)
    await site.fill(*numbers(3))
    async with site.lite_pull_consumer() as consumer:
        (queue,) = await consumer.topic_queues(site.topic)
        assert await consumer.offset_at(queue, since) == 3


async def test_a_paused_queue_is_pulled_no_further(site: Site) -> None:
    site.make()
    async with site.lite_pull_consumer() as consumer:
        (queue,) = await consumer.topic_queues(site.topic)
        await consumer.assign([queue])
        await site.fill(b"0")
        assert len(await consumer.poll(timeout=60)) == 1
        consumer.pause(queue)
        assert consumer.queues[0].is_paused
        consumer.resume(queue)
        await site.fill(b"0")
        assert len(await consumer.poll(timeout=60)) == 1


async def test_a_single_pull_leaves_no_trace(site: Site) -> None:
    site.make()
    await site.fill(*numbers(3))
    async with site.lite_pull_consumer() as consumer:
        (queue,) = await consumer.topic_queues(site.topic)
        pulled = await consumer.pull(queue, 1)
        assert pulled.status is PullStatus.FOUND
        assert [each.body for each in pulled.messages] == [b"1", b"2"]
        assert (await consumer.pull(queue, 3)).status is PullStatus.NO_NEW_MSG
        assert (await consumer.pull(queue, 99)).status is PullStatus.OFFSET_ILLEGAL


async def test_messages_are_iterated_until_it_is_closed(site: Site) -> None:
    await site.fill(*numbers(5))
    consumer = site.lite_pull_consumer()
    consumer.subscribe(site.topic)
    found = []
    async for message in consumer:
        found.append(message.body)
        if len(found) == 5:
            await consumer.close()
    assert sorted(found) == numbers(5)
    with pytest.raises(Stopped):
        await consumer.poll()


async def test_an_iteration_does_no_message_that_it_has_not_given(site: Site) -> None:
    site.make()
    await site.fill(*numbers(6))
    async with site.lite_pull_consumer() as consumer:
        consumer.subscribe(site.topic)
        (queue,) = await consumer.topic_queues(site.topic)
        async for message in consumer:
            if message.queue_offset == 1:
                break
    async with site.lite_pull_consumer(auto_commit=False) as consumer:
        assert await consumer.committed(queue) == 2
        consumer.subscribe(site.topic)
        async for _ in consumer:
            await consumer.commit()
            break
        assert await consumer.committed(queue) == 3


async def test_what_was_polled_last_is_not_done_by_an_exception(site: Site) -> None:
    site.make()
    await site.fill(*numbers(6))

    async def work() -> None:
        async with site.lite_pull_consumer() as consumer:
            consumer.subscribe(site.topic)
            for count in (4, 1):
                assert len(await consumer.poll(timeout=60, max_messages=count)) == count
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await work()
    async with site.lite_pull_consumer() as consumer:
        (queue,) = await consumer.topic_queues(site.topic)
        assert await consumer.committed(queue) == 4


async def test_a_start_that_has_failed_is_tried_again(site: Site) -> None:
    async with site.lite_pull_consumer() as consumer:
        consumer.subscribe(site.topic, sql("number >= 0"))
        for _ in range(2):
            with pytest.raises(NoRoute):
                await consumer.poll()
        site.make()
        await asyncio.to_thread(wait_for_route, site.servers.address, site.topic)
        async with site.producer() as producer:
            await producer.send(Message(site.topic, b"x", properties={"number": "1"}))
        assert [each.body for each in await consumer.poll(timeout=60)] == [b"x"]


def test_a_blocking_loop_that_ends_with_an_exception(servers: Servers) -> None:
    """All but the last of what it was given is done, and nothing else; others work meanwhile."""
    servers.make_topic("BRaised", 1)
    with blocking.Producer("PG", servers.address, config=QUICK) as producer:
        producer.send_batch([Message("BRaised", b"%d" % n) for n in range(6)])

    def work() -> None:
        clock = Leaping()
        made = blocking.LitePullConsumer("BRaG", servers.address, config=QUICK, clock=clock)
        with made as consumer:
            consumer.subscribe("BRaised")
            (queue,) = consumer.topic_queues("BRaised")
            for message in consumer:
                assert (consumer.committed(queue) or 0) <= message.queue_offset
                clock.ahead_ns += SECOND  # as a handler that takes long
                if message.queue_offset == 3:
                    assert consumer.committed(queue), "of the first ones, in the loop"
                    raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        work()
    with blocking.LitePullConsumer("BRaG", servers.address, config=QUICK) as consumer:
        (queue,) = consumer.topic_queues("BRaised")
        assert consumer.committed(queue) == 3
