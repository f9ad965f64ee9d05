"""The client guide's duties of a consumer, with real nsqds and nsqlookupds."""

from __future__ import annotations

import asyncio

import pytest

from penstock.nsq.client import Config, Consumer, Message

from .client_site import (
    CHANNEL,
    QUICK,
    Site,
    are,
    channel,
    consuming,
    counts,
    is_empty,
    is_sum,
    publish,
    readies,
    tcp,
    until,
)


async def test_nodes_that_come_and_go_and_an_nsqlookupd_that_dies(site: Site, topic: str) -> None:
    dying, staying = await site.nsqlookupd(), await site.nsqlookupd()
    flags = [f"--lookupd-tcp-address={one.tcp}" for one in (dying, staying)]
    first, second = await asyncio.gather(site.nsqd(*flags), site.nsqd(*flags))
    seen: set[bytes] = set()
    lookupds = [dying.http, staying.http]
    async with consuming(
        topic, lambda message: seen.add(message.body), lookupd_http_addresses=lookupds, config=QUICK
    ) as consumer:
        await publish(topic, first, b"1")
        await until(lambda: b"1" in seen)
        await asyncio.to_thread(dying.kill)
        await publish(topic, second, b"2")
        await until(lambda: b"2" in seen)
        await asyncio.to_thread(first.stop)
        await until(lambda: list(consumer.connections) == [second.tcp])
        await publish(topic, second, b"3")
        await until(lambda: b"3" in seen)
        await asyncio.to_thread(first.start)
        await publish(topic, first, b"4")
        await until(lambda: b"4" in seen)
        assert sorted(consumer.connections) == sorted([first.tcp, second.tcp])


@pytest.mark.parametrize("max_in_flight", [2, 7])
async def test_ready_is_never_more_than_max_in_flight(
    site: Site, topic: str, max_in_flight: int
) -> None:
    nsqds = await site.nsqds(4)
    for number, nsqd in enumerate(nsqds):
        await publish(topic, nsqd, b"%d" % number)
    seen: set[bytes] = set()
    async with consuming(
        topic,
        lambda message: seen.add(message.body),
        nsqd_tcp_addresses=tcp(nsqds),
        max_in_flight=max_in_flight,
        config=QUICK,
    ) as consumer:
        looks = 0
        async with asyncio.timeout(60):
            while len(seen) < len(nsqds) or looks < 20:
                found = await readies(topic, nsqds)
                assert sum(max(0, one) for one in found) <= max_in_flight
                looks += 1
        for bound in (3, 0):
            consumer.max_in_flight = bound
            await until(lambda bound=bound: is_sum(topic, nsqds, bound))
        consumer.max_in_flight = 8
        await until(lambda: are(topic, nsqds, [2, 2, 2, 2]))
    assert seen == {b"0", b"1", b"2", b"3"}


async def test_no_more_than_a_node_allows(site: Site, topic: str) -> None:
    nsqds = [await site.nsqd("--max-rdy-count=5"), *await site.nsqds(1)]
    async with consuming(
        topic, lambda _: None, nsqd_tcp_addresses=tcp(nsqds), max_in_flight=100, config=QUICK
    ):
        await until(lambda: are(topic, nsqds, [5, 50]))


async def test_backoff_as_the_nodes_see_it(site: Site, topic: str) -> None:
    nsqds = await site.nsqds(3)
    healthy = False

    def handle(message: Message) -> None:
        if not healthy:
            raise ValueError("not yet")

    config = Config(max_in_flight=30, backoff_multiplier=0.2, default_requeue_delay=0)
    async with consuming(topic, handle, nsqd_tcp_addresses=tcp(nsqds), config=config) as consumer:
        await until(lambda: are(topic, nsqds, [10, 10, 10]))
        await publish(topic, nsqds[0], b"a")
        await until(lambda: are(topic, nsqds, [0, 0, 0]))
        assert consumer.backoff.level > 0
        healthy = True
        for nsqd in nsqds:  # any of them may be the one to test the waters with
            await publish(topic, nsqd, *[b"b"] * 10)
        await until(lambda: are(topic, nsqds, [10, 10, 10]))
        assert consumer.backoff.level == 0
        for nsqd in nsqds:
            await until(lambda nsqd=nsqd: is_empty(topic, nsqd))


async def test_one_message_tests_the_waters(site: Site, topic: str) -> None:
    nsqds = await site.nsqds(3)

    def handle(message: Message) -> None:
        raise ValueError("never")

    config = Config(max_in_flight=30, backoff_multiplier=0.05)
    async with consuming(topic, handle, nsqd_tcp_addresses=tcp(nsqds), config=config) as consumer:
        await until(lambda: are(topic, nsqds, [10, 10, 10]))
        await publish(topic, nsqds[0], b"a")  # it comes again in 90 s
        await until(lambda: is_sum(topic, nsqds, 1))
        assert consumer.backoff == (1, 0)
        assert sorted(await readies(topic, nsqds)) == [0, 0, 1]


async def test_giving_up(site: Site, topic: str) -> None:
    nsqds = await site.nsqds(1)
    tries: list[int] = []
    given_up: list[bytes] = []

    def handle(message: Message) -> None:
        tries.append(message.attempts)
        message.requeue(0, backoff=False)

    config = Config(max_attempts=3)
    async with consuming(topic, handle, nsqd_tcp_addresses=tcp(nsqds), config=config) as consumer:
        consumer.on_give_up = lambda message: given_up.append(message.body)
        await publish(topic, nsqds[0], b"never")
        await until(lambda: given_up == [b"never"])
        assert tries == [1, 2, 3]
        await until(lambda: is_empty(topic, nsqds[0]))


async def test_closing_gives_back_what_nobody_saw(site: Site, topic: str) -> None:
    (nsqd,) = await site.nsqds(1)
    await publish(topic, nsqd, *[b"%d" % number for number in range(20)])
    consumer = Consumer(topic, CHANNEL, nsqd_tcp_addresses=[nsqd.tcp], max_in_flight=20)
    held = [await anext(consumer) for _ in range(3)]
    await until(lambda: consumer.in_flight == 20)
    closing = asyncio.ensure_future(consumer.close(grace=120))

    async def is_now(*wanted: int) -> bool:
        return await counts(topic, nsqd) == wanted

    await until(lambda: is_now(17, 3, 1))
    assert all(message.finish() for message in held)
    await closing
    await until(lambda: is_now(17, 0, 0))


async def test_touching(site: Site, topic: str) -> None:
    (nsqd,) = await site.nsqds(1)
    config = Config(msg_timeout=14)  # a machine that is busy for 10 s is to change nothing
    async with Consumer(topic, CHANNEL, nsqd_tcp_addresses=[nsqd.tcp], config=config) as consumer:
        await publish(topic, nsqd, b"long")
        message = await consumer.get(30)
        assert message is not None
        for _ in range(6):
            await asyncio.sleep(2.5)
            assert message.touch()
        assert message.finish()
        await until(lambda: is_empty(topic, nsqd))
        assert (await channel(topic, nsqd))["timeout_count"] == 0


async def test_a_node_that_is_started_late(site: Site, topic: str) -> None:
    nsqd = await site.nsqd()
    await asyncio.to_thread(nsqd.stop)
    seen: list[bytes] = []
    async with consuming(
        topic,
        lambda message: seen.append(message.body),
        nsqd_tcp_addresses=[nsqd.tcp],
        config=QUICK,
    ) as consumer:
        await until(lambda: consumer.last_error is not None)
        await asyncio.to_thread(nsqd.start)
        await publish(topic, nsqd, b"a")
        await until(lambda: seen == [b"a"])
