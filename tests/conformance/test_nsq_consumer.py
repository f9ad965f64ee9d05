"""The client guide's duties of a consumer, with real nsqds and nsqlookupds.

They are ours, and Go's as well where ``PENSTOCK_GO_NSQ`` names the folder of its programs.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from penstock.net.http_client import get
from penstock.nsq.client import Config, Consumer, Message, Producer
from penstock.testing.daemons import Daemon, run_nsqd, run_nsqlookupd

GO = os.environ.get("PENSTOCK_GO_NSQ")
MAKES = [None, GO] if GO else [None]
CHANNEL = "c"
QUICK = Config(lookupd_poll_interval=0.1, rdy_redistribute_interval=0.05, low_rdy_idle_timeout=1)
_numbers = itertools.count()


class Site:
    """Daemons of one make. ``nsqds`` are there for all tests, each with a topic of its own."""

    def __init__(self, folder: str | None, stack: ExitStack) -> None:
        self._folder = folder
        self._stack = stack
        self._shared: list[Daemon] = []

    def _program(self, name: str) -> str | None:
        return str(Path(self._folder) / name) if self._folder else None

    async def nsqd(self, *flags: str) -> Daemon:
        running = run_nsqd("--broadcast-address=127.0.0.1", *flags, program=self._program("nsqd"))
        return await asyncio.to_thread(self._stack.enter_context, running)

    async def nsqds(self, count: int) -> list[Daemon]:
        missing = range(count - len(self._shared))
        self._shared += await asyncio.gather(*(self.nsqd() for _ in missing))
        return self._shared[:count]

    async def nsqlookupd(self) -> Daemon:
        running = run_nsqlookupd(program=self._program("nsqlookupd"))
        return await asyncio.to_thread(self._stack.enter_context, running)


@pytest.fixture(scope="module", params=MAKES, ids=lambda folder: "go" if folder else "ours")
def site(request: pytest.FixtureRequest) -> Iterator[Site]:
    with ExitStack() as stack:
        yield Site(request.param, stack)


@pytest.fixture
def topic() -> str:
    return f"duties_{next(_numbers)}"


@asynccontextmanager
async def consuming(
    topic: str, handler: Callable[[Message], object], **options: Any
) -> AsyncIterator[Consumer]:
    """A consumer at work in the background."""
    consumer = Consumer(topic, CHANNEL, **options)
    task = asyncio.ensure_future(consumer.run(handler))
    try:
        yield consumer
    finally:
        await consumer.close()
        await task


def tcp(nsqds: list[Daemon]) -> list[str]:
    return [nsqd.tcp for nsqd in nsqds]


async def publish(topic: str, nsqd: Daemon, *bodies: bytes) -> None:
    async with Producer(nsqd.tcp) as producer:
        await producer.multi_publish(topic, bodies)


async def channel(topic: str, nsqd: Daemon) -> dict[str, Any]:
    """What /stats says of the channel; nothing while there is none."""
    answer = await get(f"http://{nsqd.http}/stats?format=json&topic={topic}&channel={CHANNEL}", 5)
    for found in json.loads(answer.body)["topics"] or []:
        for one in found["channels"] or []:
            return dict(one)
    return {}


async def counts(topic: str, nsqd: Daemon) -> tuple[int, int, int]:
    """How many messages wait, how many are in flight, how many consumers there are."""
    found = await channel(topic, nsqd)
    return found["depth"], found["in_flight_count"], found["client_count"]


async def readies(topic: str, nsqds: list[Daemon]) -> list[int]:
    """The RDY of the consumer at each node, -1 where it is not, as two looks agree on."""
    before: list[int] = []
    while True:
        found = []
        for stats in await asyncio.gather(*(channel(topic, nsqd) for nsqd in nsqds)):
            clients = stats.get("clients") or [{"ready_count": -1}]
            found.append(sum(client["ready_count"] for client in clients))
        if found == before:
            return found
        before = found


async def until(condition: Callable[[], Awaitable[object] | object], seconds: float = 20) -> None:
    """Wait for it; other processes have to be asked again and again."""
    async with asyncio.timeout(seconds):
        while True:
            found = condition()
            if await found if isinstance(found, Awaitable) else found:
                return
            await asyncio.sleep(0.01)


async def are(topic: str, nsqds: list[Daemon], wanted: list[int]) -> bool:
    return await readies(topic, nsqds) == wanted


async def is_sum(topic: str, nsqds: list[Daemon], wanted: int) -> bool:
    return sum(await readies(topic, nsqds)) == wanted


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
        async with asyncio.timeout(20):
            while len(seen) < len(nsqds) or looks < 20:
                found = await readies(topic, nsqds)
                assert sum(max(0, one) for one in found) <= max_in_flight
                looks += 1
        for bound in (3, 0):
            consumer.max_in_flight = bound
            await until(lambda bound=bound: is_sum(topic, nsqds, bound))  # type: ignore[misc]
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
            await until(lambda nsqd=nsqd: _is_empty(topic, nsqd))  # type: ignore[misc]


async def _is_empty(topic: str, nsqd: Daemon) -> bool:
    return (await counts(topic, nsqd))[:2] == (0, 0)


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
        await until(lambda: _is_empty(topic, nsqds[0]))


async def test_closing_gives_back_what_nobody_saw(site: Site, topic: str) -> None:
    (nsqd,) = await site.nsqds(1)
    await publish(topic, nsqd, *[b"%d" % number for number in range(20)])
    consumer = Consumer(topic, CHANNEL, nsqd_tcp_addresses=[nsqd.tcp], max_in_flight=20)
    held = [await anext(consumer) for _ in range(3)]
    await until(lambda: consumer.in_flight == 20)
    closing = asyncio.ensure_future(consumer.close(grace=20))

    async def is_now(*wanted: int) -> bool:
        return await counts(topic, nsqd) == wanted

    await until(lambda: is_now(17, 3, 1))
    assert all(message.finish() for message in held)
    await closing
    await until(lambda: is_now(17, 0, 0))


async def test_touching(site: Site, topic: str) -> None:
    (nsqd,) = await site.nsqds(1)
    config = Config(msg_timeout=1)
    async with Consumer(topic, CHANNEL, nsqd_tcp_addresses=[nsqd.tcp], config=config) as consumer:
        await publish(topic, nsqd, b"long")
        message = await consumer.get(10)
        assert message is not None
        for _ in range(5):
            await asyncio.sleep(0.3)
            assert message.touch()
        assert message.finish()
        await until(lambda: _is_empty(topic, nsqd))
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
