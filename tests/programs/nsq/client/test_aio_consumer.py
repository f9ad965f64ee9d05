"""The asyncio consumer against a scripted server: looks, ``run(handler)``, closing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from penstock.nsq.client.aio import Consumer
from penstock.nsq.client.aio.consumer import Handler
from penstock.nsq.client.config import Config
from penstock.nsq.client.errors import SubFailed
from penstock.nsq.client.message import Message
from penstock.nsq.protocol.events import Close, Ready
from tests.programs.nsq.client.conftest import consume, until
from tests.unit.nsq.client.fakes import FakeHttp, FakeNsqd, fake_http, fake_nsqd, lookup_answer


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


# --- handlers, and what else is asked of it


@asynccontextmanager
async def running(
    consumer: Consumer, handler: Handler, concurrency: int = 1
) -> AsyncIterator[None]:
    task = asyncio.ensure_future(consumer.run(handler, concurrency))
    yield
    await consumer.close()
    async with asyncio.timeout(30):
        await task


@asynccontextmanager
async def consuming_what_is_found(
    *addresses: str, **options: Any
) -> AsyncIterator[tuple[Consumer, FakeHttp]]:
    """A consumer of the nodes that an nsqlookupd names."""
    with fake_http() as lookupd:
        lookupd.json("/lookup", lookup_answer(*addresses))
        lookupds = [lookupd.address]
        config = Config(**options)
        async with Consumer("t", "c", lookupd_http_addresses=lookupds, config=config) as consumer:
            yield consumer, lookupd


async def finish_one(consumer: Consumer) -> None:
    message = await consumer.get(30)
    assert message is not None
    message.finish()


def readies(nsqd: FakeNsqd) -> list[int]:
    return [event.count for event in nsqd.asked if isinstance(event, Ready)]


@pytest.mark.parametrize("concurrency", [1, 3])
async def test_so_many_at_once(nsqd: FakeNsqd, concurrency: int) -> None:
    nsqd.put(*[b"x"] * 10)
    under_way = most = 0
    reached = asyncio.Event()

    async def handle(message: Message) -> None:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        if under_way == concurrency:
            reached.set()
        await reached.wait()  # messages may come one by one
        await asyncio.sleep(0.005)
        under_way -= 1

    async with running(consume(Consumer, nsqd), handle, concurrency):
        await until(lambda: len(nsqd.finished) == 10)
    assert most == concurrency


async def test_a_handler_that_raises(nsqd: FakeNsqd, caplog: pytest.LogCaptureFixture) -> None:
    def handle(message: Message) -> None:
        if message.body == b"bad":
            raise ValueError("no sense in it")

    nsqd.put(b"bad")
    consumer = consume(Consumer, nsqd, backoff_multiplier=0.01, default_requeue_delay=3)
    async with running(consumer, handle):
        await until(lambda: len(nsqd.requeued) == 1)
        assert nsqd.requeued[0][1] == 3000
        assert consumer.backoff.level == 1
        await until(lambda: readies(nsqd) == [10, 0, 1])
        nsqd.put(b"good")
        await until(lambda: readies(nsqd) == [10, 0, 1, 10])
        assert consumer.backoff == (0, 0)
    line = "[t/c] Handler returned error (no sense in it) for msg 0000000000000001"
    assert line in caplog.messages
    assert "[t/c] backing off for 20ms (backoff level 1), setting all to RDY 0" in caplog.messages
    assert f"[t/c] ({nsqd.address}) backoff timeout expired, sending RDY 1" in caplog.messages
    assert "[t/c] exiting backoff, returning all to RDY 10" in caplog.messages
    assert 'raise ValueError("no sense in it")' in caplog.text  # its traceback
    events = {record.nsq["event"] for record in caplog.records}  # type: ignore[attr-defined]
    assert {"handler-failed", "backoff", "waters", "resume"} <= events


@pytest.mark.parametrize("concurrency", [1, 2])
async def test_a_handler_that_something_inside_of_cancels(
    nsqd: FakeNsqd, caplog: pytest.LogCaptureFixture, concurrency: int
) -> None:
    async def handle(message: Message) -> None:
        if message.body == b"bad":
            raise asyncio.CancelledError  # as of a task that it waits for, not its own

    nsqd.put(b"bad", b"bad", b"good")
    consumer = consume(Consumer, nsqd, max_backoff_duration=0, default_requeue_delay=3)
    async with running(consumer, handle, concurrency):
        await until(lambda: len(nsqd.requeued) == 2 and len(nsqd.finished) == 1)
    assert "Handler returned error (CancelledError) for msg" in caplog.text


@pytest.mark.parametrize("concurrency", [1, 2])
async def test_a_handler_that_hangs_is_cancelled_with_the_grace(
    nsqd: FakeNsqd, concurrency: int
) -> None:
    started = asyncio.Event()

    async def handle(_: Message) -> None:
        started.set()
        await asyncio.Event().wait()

    nsqd.put(b"a")
    consumer = consume(Consumer, nsqd)
    running = asyncio.ensure_future(consumer.run(handle, concurrency))
    async with asyncio.timeout(30):
        await started.wait()
        await consumer.close(grace=0.01)
        await running
    with pytest.raises(ValueError, match="concurrency 0"):
        await consumer.run(handle, 0)


async def test_a_handler_that_answers_itself(nsqd: FakeNsqd) -> None:
    nsqd.put(b"a")
    async with running(consume(Consumer, nsqd), lambda message: message.requeue(0, backoff=False)):
        await until(lambda: len(nsqd.requeued) == 1)
    assert nsqd.finished == []
    assert readies(nsqd) == [10]


async def test_close_lets_handlers_finish(nsqd: FakeNsqd) -> None:
    nsqd.put(*[b"x"] * 8)
    started, go_on = asyncio.Event(), asyncio.Event()

    async def handle(message: Message) -> None:
        started.set()
        await go_on.wait()

    consumer = consume(Consumer, nsqd)
    task = asyncio.ensure_future(consumer.run(handle, 2))
    async with asyncio.timeout(30):
        await started.wait()
    closing = asyncio.ensure_future(consumer.close())
    await until(lambda: len(nsqd.requeued) == 6)
    go_on.set()
    await closing
    await task
    await until(lambda: len(nsqd.finished) == 2)


async def test_cancelling(nsqd: FakeNsqd) -> None:
    nsqd.put(b"a", b"b")
    consumer = consume(Consumer, nsqd)
    started = asyncio.Event()

    async def handle(message: Message) -> None:
        started.set()
        await asyncio.sleep(60)

    async def main() -> None:
        async with consumer:
            await consumer.run(handle, 2)

    task = asyncio.ensure_future(main())
    async with asyncio.timeout(30):
        await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await until(lambda: nsqd.count(Close) == 1)
    assert not consumer._tasks


async def test_a_refusal_ends_run(nsqd: FakeNsqd) -> None:
    nsqd.refusals["Subscribe"] = "E_SUB_FAILED SUB failed"
    for concurrency in (1, 3):
        async with consume(Consumer, nsqd) as consumer:
            with pytest.raises(SubFailed):
                await consumer.run(lambda _: None, concurrency)


@pytest.mark.parametrize("error", [OSError("disk full"), asyncio.CancelledError()])
async def test_giving_up_fails(nsqd: FakeNsqd, error: BaseException) -> None:
    async def keep(message: Message) -> None:
        raise error

    nsqd.put(b"spent", attempts=6)
    async with consume(Consumer, nsqd, backoff_multiplier=0.01) as consumer:
        consumer.on_give_up = keep
        while not nsqd.requeued:
            assert await consumer.get(0.05) is None
    assert nsqd.finished == []


async def test_giving_up_takes_longer_than_somebody_waits(nsqd: FakeNsqd) -> None:
    told: list[bytes] = []

    async def keep(message: Message) -> None:
        told.append(message.body)
        if len(told) == 1:
            await asyncio.sleep(600)

    nsqd.put(b"spent", attempts=6)
    async with consume(Consumer, nsqd) as consumer:
        consumer.on_give_up = keep
        while not told:
            assert await consumer.get(0.05) is None
        assert await consumer.get(0.05) is None
        await until(lambda: len(nsqd.finished) == 1)
    assert told == [b"spent"] * 2


async def test_starved_a_little_early(nsqd: FakeNsqd) -> None:
    async with consume(Consumer, nsqd) as consumer:
        nsqd.put(*[b"x"] * 7)
        await until(lambda: consumer.in_flight == 7)
        assert not consumer.is_starved
        nsqd.put(b"x")
        await until(lambda: consumer.in_flight == 8)
        assert consumer.is_starved


async def test_an_exception_in_the_block_waits_for_no_answers(nsqd: FakeNsqd) -> None:
    nsqd.put(b"a")

    async def fail() -> None:
        async with consume(Consumer, nsqd) as consumer:
            assert await consumer.get(30)
            raise KeyError

    async with asyncio.timeout(30):
        with pytest.raises(KeyError):
            await fail()
    await until(lambda: nsqd.count(Close) == 1)


async def test_the_loop_gets_its_turn(nsqd: FakeNsqd) -> None:
    """FINs go out and heartbeats are answered while a backlog is worked off without waiting."""
    nsqd.put(*[b"x"] * 40)
    async with consume(Consumer, nsqd, max_in_flight=40) as consumer:
        await until(lambda: consumer.in_flight == 40)
        count = 0
        async for message in consumer:
            message.finish()
            count += 1
            consumer._turn_ends = 0  # as if it had taken long
            if count == 39:
                break
        assert consumer.connections[nsqd.address].finished > 30


async def test_nodes_that_nsqlookupd_does_not_name_any_more_are_kept(nsqd: FakeNsqd) -> None:
    found = consuming_what_is_found(nsqd.address, lookupd_poll_interval=0.01)
    async with found as (consumer, lookupd):
        await until(lambda: nsqd.count(Ready) == 1)
        lookupd.json("/lookup", lookup_answer())
        asked = len(lookupd.requests)
        await until(lambda: len(lookupd.requests) > asked + 3)
        assert list(consumer.connections) == [nsqd.address]


async def test_nonsense_of_nsqlookupd(nsqd: FakeNsqd) -> None:
    nsqd.put(b"a")
    async with consuming_what_is_found("no host at all:0", nsqd.address) as (consumer, _):
        await finish_one(consumer)


async def test_a_found_node_that_refuses_ends_nothing(nsqd: FakeNsqd) -> None:
    nsqd.put(b"a")
    with fake_nsqd() as refusing:
        refusing.refusals["Subscribe"] = "E_SUB_FAILED SUB failed"
        async with consuming_what_is_found(refusing.address, nsqd.address) as (consumer, _):
            await finish_one(consumer)
            await until(lambda: isinstance(consumer.last_error, SubFailed))


async def test_closing_that_is_cancelled_still_closes(nsqd: FakeNsqd) -> None:
    nsqd.put(b"a")
    consumer = consume(Consumer, nsqd)
    assert await consumer.get(30)
    closing = asyncio.ensure_future(consumer.close())
    await until(lambda: nsqd.count(Close) == 1)
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    await consumer.close()
    await until(lambda: not nsqd._sessions)
    assert not consumer.connections


async def test_closing_while_a_node_is_slow_to_answer(nsqd: FakeNsqd) -> None:
    nsqd.silent = True
    consumer = consume(Consumer, nsqd)
    consumer.start()
    await until(lambda: len(nsqd.asked) == 1)
    async with asyncio.timeout(30):
        await consumer.close()
    await until(lambda: not nsqd._sessions)
