"""All clients against our own nsqd, the program itself."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator

import pytest

from penstock.nsq.client import aio, blocking
from penstock.nsq.client.errors import BadTopic
from penstock.nsq.client.lookup import lookup
from penstock.testing.daemons import Daemon, run_nsqd, run_nsqlookupd

_numbers = itertools.count()


@pytest.fixture(scope="module")
def nsqd() -> Iterator[Daemon]:
    with run_nsqd() as daemon:
        yield daemon


@pytest.fixture
def topic() -> str:
    """A topic nobody else uses."""
    return f"clients_{next(_numbers)}"


def test_blocking(nsqd: Daemon, topic: str) -> None:
    with blocking.Producer(nsqd.tcp) as producer:
        producer.publish(topic, b"one")
        producer.multi_publish(topic, [b"two", b"three" * 50])
        with pytest.raises(BadTopic):
            producer.publish("no topic", b"x")
        producer.publish(topic, b"four")
    with blocking.Consumer(topic, "c", nsqd_tcp_addresses=[nsqd.tcp], max_in_flight=2) as consumer:
        first = consumer.get(30)
        assert first is not None
        assert (first.body, first.attempts) == (b"one", 1)
        assert first.touch()
        assert first.requeue(0, backoff=False)
        bodies: list[bytes] = []
        while len(bodies) < 4:
            message = consumer.get(30)
            assert message is not None
            bodies.append(message.body)
            assert message.finish()
        assert sorted(bodies) == sorted([b"one", b"two", b"three" * 50, b"four"])
        assert consumer.get(0.1) is None


def test_blocking_many(nsqd: Daemon, topic: str) -> None:
    with blocking.Producer(nsqd.tcp) as producer:
        for start in range(0, 10_000, 500):
            producer.multi_publish(topic, [b"%05d" % n for n in range(start, start + 500)])
    consumer = blocking.Consumer(topic, "c", nsqd_tcp_addresses=[nsqd.tcp], max_in_flight=2500)
    with consumer:
        bodies: list[bytes] = []
        while len(bodies) < 10_000:
            delivery = consumer.get_delivery(30)
            assert delivery is not None
            bodies += delivery.bodies()
            assert delivery.finish()
        assert bodies == [b"%05d" % n for n in range(10_000)]
        assert consumer.get_delivery(0.05) is None


async def test_aio(nsqd: Daemon, topic: str) -> None:
    async with (
        aio.Producer(nsqd.tcp) as producer,
        aio.Consumer(topic, "c", nsqd_tcp_addresses=[nsqd.tcp], max_in_flight=50) as consumer,
    ):
        await asyncio.gather(*(producer.publish(topic, b"%d" % n) for n in range(200)))
        await producer.multi_publish(topic, [b"%d" % n for n in range(200, 300)])
        seen = set()
        async for message in consumer:
            if message.attempts == 1 and message.body.endswith(b"7"):
                assert message.requeue(0, backoff=False)
                continue
            seen.add(int(message.body))
            assert message.finish()
            if len(seen) == 300:
                break
        assert seen == set(range(300))


async def test_discovery() -> None:
    with (
        run_nsqlookupd() as lookupd,
        run_nsqd(f"--lookupd-tcp-address={lookupd.tcp}") as one,
        run_nsqd(f"--lookupd-tcp-address={lookupd.tcp}") as two,
    ):
        for daemon in (one, two):
            async with aio.Producer(daemon.tcp) as producer:
                await producer.publish("found", daemon.tcp.encode())
        async with asyncio.timeout(60):
            while len(lookup([lookupd.http], "found", 60)) < 2:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        lookupds = [lookupd.http]
        consumer = aio.Consumer("found", "c", lookupd_http_addresses=lookupds, max_in_flight=2)
        async with consumer:
            bodies = set()
            async for message in consumer:
                bodies.add(message.body)
                message.finish()
                if len(bodies) == 2:
                    break
        assert bodies == {one.tcp.encode(), two.tcp.encode()}
