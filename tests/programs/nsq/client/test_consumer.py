"""The consumers of both libraries against a scripted server."""

from __future__ import annotations

import socket

import pytest

from penstock.nsq.client.config import Config
from penstock.nsq.client.errors import NotConnected, SubFailed
from penstock.nsq.protocol import frames
from penstock.nsq.protocol.events import Close, Nop, Ready, Subscribe, Touch
from tests.programs.nsq.client.conftest import Shell, consume, until, work_until
from tests.unit.nsq.client.fakes import FakeNsqd, fake_http, fake_nsqd, lookup_answer
from tools.harness.ports import unused_address

POLL_OFTEN = Config(lookupd_poll_interval=0.05)


async def test_messages_one_by_one(shell: Shell, nsqd: FakeNsqd) -> None:
    nsqd.put(b"a", b"b", b"c")
    bodies = []
    async with consume(shell.consumer, nsqd) as consumer:
        async for message in consumer:
            bodies.append(message.body)
            assert message.finish()
            if len(bodies) == 3:
                break
        await until(lambda: len(nsqd.finished) == 3)
    assert bodies == [b"a", b"b", b"c"]
    assert Subscribe("t", "c") in nsqd.asked
    assert nsqd.count(Close) == 1


async def test_messages_that_arrived_together(shell: Shell, nsqd: FakeNsqd) -> None:
    nsqd.put(*[b"%02d" % n for n in range(100)])
    bodies: list[bytes] = []
    async with consume(shell.consumer, nsqd, max_in_flight=100) as consumer:
        while len(bodies) < 100:
            delivery = await consumer.get_delivery(30)
            assert delivery.address == nsqd.address
            assert delivery.block.count == len(delivery)
            assert delivery.bodies() == [message.body for message in delivery.messages()]
            bodies += delivery.bodies()
            assert delivery.touch()
            assert delivery.finish()
            assert not delivery.finish()
            assert not delivery.requeue()
        await until(lambda: len(nsqd.finished) == 100)
        assert consumer.in_flight == 0
        assert await consumer.get_delivery(0.02) is None
        assert await consumer.get_delivery(0) is None
    assert bodies == [b"%02d" % n for n in range(100)]


async def test_deliveries_until_it_is_closed(shell: Shell, nsqd: FakeNsqd) -> None:
    nsqd.put(b"a", b"b", b"c")
    bodies: list[bytes] = []
    async with consume(shell.consumer, nsqd) as consumer:
        async for delivery in consumer.deliveries():
            bodies += delivery.bodies()
            delivery.finish()
            if len(bodies) == 3:
                await consumer.close()
    assert bodies == [b"a", b"b", b"c"]
    await until(lambda: len(nsqd.finished) == 3)


async def test_requeue_and_touch(shell: Shell, nsqd: FakeNsqd) -> None:
    nsqd.put(b"a")
    async with consume(shell.consumer, nsqd) as consumer:
        message = await consumer.get(30)
        assert message.touch()
        assert message.requeue(0.25)
        await until(lambda: nsqd.requeued == [(message.id, 250)])
        assert nsqd.count(Touch) == 1
        assert await consumer.get(0.02) is None
        assert consumer.in_flight == 0


async def test_no_more_than_wanted_in_flight(shell: Shell, nsqd: FakeNsqd) -> None:
    nsqd.put(b"a", b"b", b"c")
    async with consume(shell.consumer, nsqd, max_in_flight=2) as consumer:
        first, second = await consumer.get(30), await consumer.get(30)
        assert await consumer.get(0.05) is None
        assert consumer.in_flight == 2
        first.finish()
        third = await consumer.get(30)
        assert third.body == b"c"
        second.finish()
        third.finish()
    assert [event.count for event in nsqd.asked if isinstance(event, Ready)] == [2]


async def test_close_gives_back_what_nobody_saw(shell: Shell, nsqd: FakeNsqd) -> None:
    nsqd.put(b"a", b"b", b"c")
    async with consume(shell.consumer, nsqd) as consumer:
        (await consumer.get(30)).finish()
    await until(lambda: len(nsqd.requeued) == 2)
    assert len(nsqd.finished) == 1
    await consumer.close()
    assert [late async for late in consumer] == []
    assert await consumer.get() is None


async def test_two_nodes_share_what_may_be_in_flight(shell: Shell, nsqd: FakeNsqd) -> None:
    with fake_nsqd() as other:
        addresses = [nsqd.address, other.address]
        async with shell.consumer(
            "t", "c", nsqd_tcp_addresses=addresses, max_in_flight=5
        ) as consumer:
            nsqd.put(b"a")
            other.put(b"b")
            bodies: set[bytes] = set()
            while len(bodies) < 2:
                message = await consumer.get(30)
                bodies.add(message.body)
                message.finish()
            await work_until(consumer, lambda: {nsqd.last_ready, other.last_ready} == {2, 3})


async def test_more_nodes_than_messages_wanted(shell: Shell, nsqd: FakeNsqd) -> None:
    config = Config(low_rdy_idle_timeout=1, rdy_redistribute_interval=0.01)
    with fake_nsqd() as other:
        addresses = [nsqd.address, other.address]
        async with shell.consumer(
            "t", "c", nsqd_tcp_addresses=addresses, config=config
        ) as consumer:
            nsqd.put(b"a")
            other.put(b"b")
            seen: set[bytes] = set()
            while len(seen) < 2:
                message = await consumer.get(30)
                seen.add(message.body)
                message.finish()


async def test_a_lost_node_is_found_again(shell: Shell, nsqd: FakeNsqd) -> None:
    nsqd.put(b"a")
    async with consume(shell.consumer, nsqd) as consumer:
        held = await consumer.get(30)
        nsqd.drop_connections()
        await work_until(consumer, lambda: nsqd.count(Subscribe) == 2)
        nsqd.put(b"b")
        message = await consumer.get(30)
        assert message.body == b"b"
        assert message.finish()
        assert not held.finish()


async def test_a_refused_subscription(shell: Shell, nsqd: FakeNsqd) -> None:
    nsqd.refusals["Subscribe"] = "E_SUB_FAILED SUB failed consumers for t:c exceeds limit of 1"
    async with consume(shell.consumer, nsqd) as consumer:
        with pytest.raises(SubFailed, match="exceeds limit"):
            await consumer.get(30)


async def test_heartbeats_and_errors(shell: Shell, nsqd: FakeNsqd) -> None:
    async with consume(shell.consumer, nsqd) as consumer:
        await work_until(consumer, lambda: nsqd.count(Ready) == 1)
        nsqd.send(frames.HEARTBEAT_FRAME)
        nsqd.send(frames.error("E_FIN_FAILED FIN x failed ID not in flight"))
        await work_until(consumer, lambda: nsqd.count(Nop) == 1)
        nsqd.put(b"a")
        (await consumer.get(30)).finish()


async def test_a_silent_server_is_left(
    shell: Shell, nsqd: FakeNsqd, caplog: pytest.LogCaptureFixture
) -> None:
    async with consume(shell.consumer, nsqd, heartbeat_interval=0.05) as consumer:
        await work_until(consumer, lambda: nsqd.count(Subscribe) >= 2)
    assert f"[t/c] ({nsqd.address}) IO error - silent for 0.1 s" in caplog.messages


async def test_nodes_by_lookup(shell: Shell, nsqd: FakeNsqd) -> None:
    with fake_http() as lookupd, fake_nsqd() as other:
        lookupd.json("/lookup", lookup_answer(nsqd.address, unused_address()))
        nsqd.put(b"a")
        lookupds = [unused_address(), lookupd.address]
        async with shell.consumer(
            "t", "c", lookupd_http_addresses=lookupds, max_in_flight=2, config=POLL_OFTEN
        ) as consumer:
            (await consumer.get(30)).finish()
            assert list(consumer.connections) == [nsqd.address]
            lookupd.json("/lookup", lookup_answer(other.address))
            nsqd.close()
            other.put(b"b")
            message = await consumer.get(30)
            assert message.body == b"b"
            assert list(consumer.connections) == [other.address]
            message.finish()


@pytest.mark.parametrize(
    ("status", "message"), [(404, "TOPIC_NOT_FOUND"), (500, "INTERNAL_ERROR")], ids=["404", "500"]
)
async def test_a_lookup_that_fails_is_tried_again_soon(
    shell: Shell, nsqd: FakeNsqd, status: int, message: str
) -> None:
    with fake_http() as lookupd:
        lookupd.json("/lookup", {"message": message}, status)
        lookupds = [lookupd.address]
        async with shell.consumer(
            "t", "c", lookupd_http_addresses=lookupds, config=POLL_OFTEN
        ) as consumer:
            await work_until(consumer, lambda: len(lookupd.requests) > 1)
            lookupd.json("/lookup", lookup_answer(nsqd.address))
            nsqd.put(b"a")
            (await consumer.get(30)).finish()


async def test_one_nsqlookupd_hangs_and_one_is_dead(shell: Shell, nsqd: FakeNsqd) -> None:
    nsqd.put(b"a")
    with fake_http() as lookupd, socket.create_server(("127.0.0.1", 0)) as hanging:
        old = {"status_code": 200, "status_txt": "OK", "data": lookup_answer(nsqd.address)}
        lookupd.json("/lookup", old)
        lookupds = [f"127.0.0.1:{hanging.getsockname()[1]}", unused_address(), lookupd.address]
        config = Config(auth_secret="secret", lookupd_poll_timeout=30)
        async with shell.consumer(
            "t", "c", lookupd_http_addresses=lookupds, config=config
        ) as consumer:
            (await consumer.get(20)).finish()
        assert lookupd.headers[0]["Authorization"] == "Bearer secret"
        assert lookupd.headers[0]["Accept"] == "application/vnd.nsq; version=1.0"


async def test_bad_addresses_are_refused_at_once(shell: Shell) -> None:
    with pytest.raises(ValueError, match="port"):
        shell.consumer("t", "c", nsqd_tcp_addresses=["nowhere"])


async def test_required_nodes(shell: Shell) -> None:
    address = unused_address()
    async with shell.consumer("t", "c", nsqd_tcp_addresses=[address], required=True) as consumer:
        with pytest.raises(NotConnected) as caught:
            await consumer.get(30)
        assert caught.value.reason == f"dial tcp {address}: connect: connection refused"
        assert consumer.last_error is caught.value


async def test_what_can_be_seen(shell: Shell, nsqd: FakeNsqd) -> None:
    nsqd.put(*[b"x"] * 10)
    async with consume(shell.consumer, nsqd) as consumer:
        assert consumer.connections == {}
        messages = [await consumer.get(30) for _ in range(10)]
        assert consumer.is_starved
        state = consumer.connections[nsqd.address]
        assert (state.ready, state.in_flight, state.messages) == (10, 10, 10)
        assert consumer.backoff == (0, 0)
        assert consumer.last_error is None
        for answered, message in enumerate(messages, 1):
            assert message.finish()
            assert consumer.in_flight == 10 - answered
        consumer.max_in_flight = 0
        assert consumer.max_in_flight == 0
        await until(lambda: nsqd.last_ready == 0)
        with pytest.raises(ValueError, match="negative"):
            consumer.max_in_flight = -1
