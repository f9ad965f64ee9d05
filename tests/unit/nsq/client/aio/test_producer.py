"""The asyncio producer against a scripted server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import pytest

from penstock.nsq.client.aio import Producer
from penstock.nsq.client.config import Config
from penstock.nsq.client.errors import BadMessage, BadTopic, ClientError, NotConnected
from penstock.nsq.protocol import frames
from tests.unit.nsq.client.fakes import FakeNsqd, fake_nsqd, unused_address


@pytest.fixture
def nsqd() -> Iterator[FakeNsqd]:
    with fake_nsqd() as server:
        yield server


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not condition():  # noqa: ASYNC110  # the condition is a matter of another thread
            await asyncio.sleep(0.005)


async def test_publish(nsqd: FakeNsqd) -> None:
    async with Producer(nsqd.address) as producer:
        await producer.publish("t", b"one")
        await producer.multi_publish("t", [b"two", b"three"])
        await producer.multi_publish("t", [])
        await producer.deferred_publish("t", 0.05, b"four")
    assert nsqd.published == [("t", [b"one"]), ("t", [b"two", b"three"]), ("t", [b"four"])]


async def test_side_by_side_over_one_connection(nsqd: FakeNsqd) -> None:
    async with Producer(nsqd.address) as producer:
        await asyncio.gather(*(producer.publish("t", b"%d" % n) for n in range(100)))
    assert sorted(int(bodies[0]) for _, bodies in nsqd.published) == list(range(100))
    assert sum(type(event).__name__ == "Identify" for event in nsqd.asked) == 1


async def test_a_refusal_and_a_new_connection(nsqd: FakeNsqd) -> None:
    async with Producer(nsqd.address) as producer:
        with pytest.raises(BadTopic):
            await producer.publish("two words", b"x")
        with pytest.raises(BadMessage):
            await producer.publish("t", b"")
        await until(lambda: producer._link is None or not producer._link.is_open)
        await producer.publish("t", b"x")
    assert nsqd.published == [("t", [b"x"])]


async def test_a_loss_fails_all_under_way(nsqd: FakeNsqd) -> None:
    async with Producer(nsqd.address) as producer:
        await producer.publish("t", b"1")
        nsqd.silent = True
        under_way = [asyncio.ensure_future(producer.publish("t", b"2")) for _ in range(3)]
        await until(lambda: len(nsqd.asked) == 5)
        nsqd.drop_connections()
        results = await asyncio.gather(*under_way, return_exceptions=True)
        assert [type(result) for result in results] == [NotConnected] * 3
        nsqd.silent = False
        await producer.publish("t", b"3")


async def test_a_cancelled_publish_does_not_confuse_the_next(nsqd: FakeNsqd) -> None:
    async with Producer(nsqd.address) as producer:
        await producer.publish("t", b"1")
        nsqd.silent = True
        cancelled = asyncio.ensure_future(producer.publish("t", b"2"))
        following = asyncio.ensure_future(producer.publish("t", b"3"))
        await until(lambda: len(nsqd.asked) == 4)
        cancelled.cancel()
        nsqd.send(frames.response(b"OK"))
        await asyncio.sleep(0.02)
        assert not following.done()
        nsqd.send(frames.response(b"OK"))
        await following


async def test_no_answer(nsqd: FakeNsqd) -> None:
    async with Producer(nsqd.address, Config(read_timeout=0.1)) as producer:
        await producer.publish("t", b"1")
        nsqd.silent = True
        with pytest.raises(NotConnected, match="no answer"):
            await producer.publish("t", b"1")


async def test_nobody_there() -> None:
    address = unused_address()
    with pytest.raises(NotConnected, match=address):
        await Producer(address).publish("t", b"1")


async def test_strange_answers(nsqd: FakeNsqd) -> None:
    async with Producer(nsqd.address) as producer:
        await producer.publish("t", b"1")
        nsqd.silent = True
        for answer, error in ((frames.response(b"WHAT"), ClientError), (b"HTTP/1.1", NotConnected)):
            pending = asyncio.ensure_future(producer.publish("t", b"x"))
            await until(lambda: len(nsqd.asked) >= 3)
            nsqd.send(answer)
            with pytest.raises(error):
                await pending
