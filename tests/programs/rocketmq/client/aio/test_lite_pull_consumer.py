"""The asyncio lite pull consumer with real servers."""

from __future__ import annotations

import asyncio
import time

import pytest

from penstock.rocketmq.client import LitePullConsumer, Message, Producer, Stopped, sql
from penstock.rocketmq.client.consume.pulling import PullStatus
from penstock.rocketmq.client.errors import NoRoute, NotAssigned
from tools.harness.rocketmq.servers import QUICK, Servers, wait_for_route


async def fill(servers: Servers, topic: str, count: int) -> None:
    async with Producer("PG", servers.address, config=QUICK) as producer:
        for number in range(count):
            await producer.send(Message(topic, b"%d" % number), queue=lambda every: every[0])


async def test_what_was_polled_is_done_with_the_next_poll(servers: Servers) -> None:
    servers.make_topic("Polled", 1)
    await fill(servers, "Polled", 10)
    async with LitePullConsumer("LG", servers.address, config=QUICK) as consumer:
        consumer.subscribe("Polled")
        first = await consumer.poll(timeout=60, max_messages=4)
        (queue,) = await consumer.topic_queues("Polled")
        assert [each.queue_offset for each in first] == [0, 1, 2, 3]
        assert consumer.queues[0].commit_offset == 0
        second = await consumer.poll(timeout=60, max_messages=4)
        assert [each.queue_offset for each in second] == [4, 5, 6, 7]
        assert consumer.queues[0].commit_offset == 4
    async with LitePullConsumer("LG", servers.address, config=QUICK) as consumer:
        assert await consumer.committed(queue) == 8


async def test_without_auto_commit_a_crash_brings_messages_again(servers: Servers) -> None:
    servers.make_topic("Again", 1)
    await fill(servers, "Again", 6)

    def consumer() -> LitePullConsumer:
        made = LitePullConsumer("MG", servers.address, config=QUICK, auto_commit=False)
        made.subscribe("Again")
        return made

    first = consumer()
    assert len(await first.poll(timeout=60, max_messages=2)) == 2
    await first.commit()
    assert len(await first.poll(timeout=60, max_messages=2)) == 2
    first._hub.close()  # without a word to anybody
    async with consumer() as second:
        found = await second.poll(timeout=60, max_messages=2)
    assert [each.body for each in found] == [b"2", b"3"]


async def test_queues_can_be_chosen_and_sought(servers: Servers) -> None:
    servers.make_topic("Sought", 2)
    await fill(servers, "Sought", 10)
    async with LitePullConsumer("ZG", servers.address, config=QUICK) as consumer:
        queues = await consumer.topic_queues("Sought")
        await consumer.assign(queues[:1])
        assert [each.queue for each in consumer.queues] == queues[:1]
        assert await consumer.max_offset(queues[0]) == 10
        assert await consumer.min_offset(queues[0]) == 0
        consumer.seek(queues[0], 7)
        assert [each.queue_offset for each in await consumer.poll(timeout=60)] == [7, 8, 9]
        await consumer.seek_to_begin(queues[0])
        assert (await consumer.poll(timeout=60))[0].queue_offset == 0
        await consumer.seek_to_end(queues[0])
        assert await consumer.poll(timeout=0.2) == []
        with pytest.raises(NotAssigned, match="not in assigned list"):
            consumer.seek(queues[1], 0)


async def test_a_time_finds_an_offset(servers: Servers) -> None:
    servers.make_topic("Timed", 1)
    await fill(servers, "Timed", 3)
    await asyncio.sleep(0.5)  # Java's broker of 4.9 takes the message that is nearest in time
    since = time.time()
    await asyncio.sleep(0.01)
    await fill(servers, "Timed", 3)
    async with LitePullConsumer("TiG", servers.address, config=QUICK) as consumer:
        (queue,) = await consumer.topic_queues("Timed")
        assert await consumer.offset_at(queue, since) == 3


async def test_a_paused_queue_is_pulled_no_further(servers: Servers) -> None:
    servers.make_topic("Paused", 1)
    async with LitePullConsumer("PaG", servers.address, config=QUICK) as consumer:
        (queue,) = await consumer.topic_queues("Paused")
        await consumer.assign([queue])
        await fill(servers, "Paused", 1)
        assert len(await consumer.poll(timeout=60)) == 1
        consumer.pause(queue)
        assert consumer.queues[0].is_paused
        consumer.resume(queue)
        await fill(servers, "Paused", 1)
        assert len(await consumer.poll(timeout=60)) == 1


async def test_a_single_pull_leaves_no_trace(servers: Servers) -> None:
    servers.make_topic("Single", 1)
    await fill(servers, "Single", 3)
    async with LitePullConsumer("SiG", servers.address, config=QUICK) as consumer:
        (queue,) = await consumer.topic_queues("Single")
        pulled = await consumer.pull(queue, 1)
        assert pulled.status is PullStatus.FOUND
        assert [each.body for each in pulled.messages] == [b"1", b"2"]
        assert (await consumer.pull(queue, 3)).status is PullStatus.NO_NEW_MSG
        assert (await consumer.pull(queue, 99)).status is PullStatus.OFFSET_ILLEGAL


async def test_messages_are_iterated_until_it_is_closed(servers: Servers) -> None:
    await fill(servers, "Iterated", 5)
    consumer = LitePullConsumer("IG", servers.address, config=QUICK)
    consumer.subscribe("Iterated")
    found = []
    async for message in consumer:
        found.append(message.body)
        if len(found) == 5:
            await consumer.close()
    assert sorted(found) == [b"%d" % n for n in range(5)]
    with pytest.raises(Stopped):
        await consumer.poll()


async def test_an_iteration_does_no_message_that_it_has_not_given(servers: Servers) -> None:
    servers.make_topic("Given", 1)
    await fill(servers, "Given", 6)
    async with LitePullConsumer("GiG", servers.address, config=QUICK) as consumer:
        consumer.subscribe("Given")
        (queue,) = await consumer.topic_queues("Given")
        async for message in consumer:
            if message.queue_offset == 1:
                break
    async with LitePullConsumer(
        "GiG", servers.address, config=QUICK, auto_commit=False
    ) as consumer:
        assert await consumer.committed(queue) == 2
        consumer.subscribe("Given")
        async for _ in consumer:
            await consumer.commit()
            break
        assert await consumer.committed(queue) == 3


async def test_what_was_polled_last_is_not_done_by_an_exception(servers: Servers) -> None:
    servers.make_topic("Raised", 1)
    await fill(servers, "Raised", 6)

    async def work() -> None:
        async with LitePullConsumer("RaG", servers.address, config=QUICK) as consumer:
            consumer.subscribe("Raised")
            for count in (4, 1):
                assert len(await consumer.poll(timeout=60, max_messages=count)) == count
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await work()
    async with LitePullConsumer("RaG", servers.address, config=QUICK) as consumer:
        (queue,) = await consumer.topic_queues("Raised")
        assert await consumer.committed(queue) == 4


async def test_a_start_that_has_failed_is_tried_again(servers: Servers) -> None:
    async with LitePullConsumer("EarlyG", servers.address, config=QUICK) as consumer:
        consumer.subscribe("Early", sql("number >= 0"))
        for _ in range(2):
            with pytest.raises(NoRoute):
                await consumer.poll()
        servers.make_topic("Early", 1)
        await asyncio.to_thread(wait_for_route, servers.address, "Early")
        async with Producer("PG", servers.address, config=QUICK) as producer:
            await producer.send(Message("Early", b"x", properties={"number": "1"}))
        assert [each.body for each in await consumer.poll(timeout=60)] == [b"x"]
