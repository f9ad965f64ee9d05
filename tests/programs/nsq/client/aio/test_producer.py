"""The asyncio producer against scripted servers: what goes out, and what failures make of it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any

import pytest

from penstock.nsq.client.aio import Producer
from penstock.nsq.client.aio.producer import UNANSWERED_MAX
from penstock.nsq.client.config import Config
from penstock.nsq.client.errors import (
    BadMessage,
    ClientError,
    NotConnected,
    Stopped,
    TimedOut,
)
from penstock.nsq.protocol import frames
from penstock.nsq.protocol.commands import CommandReader
from penstock.nsq.protocol.events import Identify, Publish
from penstock.nsq.protocol.limits import Limits
from penstock.testing.clock import FakeClock
from tests.programs.nsq.client.conftest import bodies, until
from tests.unit.nsq.client.fakes import FakeNsqd, fake_nsqd
from tools.harness.ports import unused_address


def begun(coroutine: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
    return asyncio.ensure_future(coroutine)


async def test_side_by_side_means_together(nsqd: FakeNsqd) -> None:
    async with Producer(nsqd.address) as producer:
        names = ["even", "odd"]
        await asyncio.gather(*(producer.publish(names[n % 2], b"%d" % n) for n in range(100)))
    assert dict(nsqd.published) == {
        "even": [b"%d" % n for n in range(0, 100, 2)],
        "odd": [b"%d" % n for n in range(1, 100, 2)],
    }
    assert nsqd.count(Identify) == 1


async def test_a_topic_keeps_its_order(nsqd: FakeNsqd) -> None:
    async with Producer(nsqd.address) as producer:
        await asyncio.gather(
            producer.publish("t", b"1"),
            producer.multi_publish("t", [b"2", b"3"]),
            producer.publish("t", b"4"),
            producer.publish("t", b"5"),
        )
    assert nsqd.published == [("t", [b"1"]), ("t", [b"2", b"3"]), ("t", [b"4", b"5"])]


async def test_messages_wait_for_company_while_answers_are_due(nsqd: FakeNsqd) -> None:
    async with Producer(nsqd.address) as producer:
        await producer.ping()
        nsqd.silent = True
        tasks = []
        for n in range(UNANSWERED_MAX + 20):
            tasks.append(begun(producer.publish("t", b"%d" % n)))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        await until(lambda: nsqd.count(Publish) == UNANSWERED_MAX)
        assert producer.connections[nsqd.address].unanswered == UNANSWERED_MAX
        assert producer.pending == UNANSWERED_MAX + 20
        nsqd.silent = False
        nsqd.send(frames.OK_FRAME * UNANSWERED_MAX)
        await asyncio.gather(*tasks)
    assert nsqd.published == [
        ("t", [b"%d" % n for n in range(UNANSWERED_MAX, UNANSWERED_MAX + 20)])
    ]


async def test_soon_and_flush(nsqd: FakeNsqd) -> None:
    async with Producer(nsqd.address, max_pending=10) as producer:
        for n in range(95):
            future = await producer.publish_soon("t", b"%d" % n)
            assert producer.pending <= 10
        await producer.flush()
        assert future.done()
        assert producer.pending == 0
    assert bodies(nsqd) == [b"%d" % n for n in range(95)]


async def test_bytes_under_way_are_bounded(nsqd: FakeNsqd) -> None:
    async with Producer(nsqd.address, max_pending_bytes=1000) as producer:
        await producer.ping()
        nsqd.silent = True
        await producer.publish_soon("t", b"x" * 5000)
        second = begun(producer.publish("t", b"2"))
        await until(lambda: nsqd.count(Publish) == 1)
        assert producer.pending == 1
        assert not second.done()
        nsqd.silent = False
        nsqd.send(frames.OK_FRAME)
        await second


async def test_who_waits_for_room_may_give_up(nsqd: FakeNsqd) -> None:
    async with Producer(nsqd.address, max_pending=1) as producer:
        await producer.ping()
        nsqd.silent = True
        first, second, third = (begun(producer.publish("t", b"%d" % n)) for n in range(3))
        await until(lambda: nsqd.count(Publish) == 1)
        second.cancel()
        nsqd.silent = False
        nsqd.send(frames.OK_FRAME)
        await asyncio.gather(first, third)
        assert second.cancelled()
    assert bodies(nsqd) == [b"2"]


async def test_who_gives_up_waiting_leaves_nothing_behind(nsqd: FakeNsqd) -> None:
    async with Producer(nsqd.address, max_pending=1) as producer:
        await producer.ping()
        nsqd.silent = True
        first = await producer.publish_soon("t", b"0")
        await until(lambda: nsqd.count(Publish) == 1)
        for _ in range(20):
            for waits in (producer.publish("t", b"1"), producer.flush()):
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(waits, 0.001)
        assert not producer._outside
        assert not producer._idle
        nsqd.silent = False
        nsqd.send(frames.OK_FRAME)
        await first
        await producer.publish("t", b"2")
    assert bodies(nsqd) == [b"2"]


async def test_a_refusal_concerns_only_what_was_refused(nsqd: FakeNsqd) -> None:
    """What came behind it in the same write was not carried out, and is sent again."""
    nsqd.refuse = lambda bodies: "E_BAD_MESSAGE PUB message too big" if b"big" in bodies else ""
    async with Producer(nsqd.address) as producer:
        results = await asyncio.gather(
            producer.multi_publish("t", [b"1", b"2"]),
            producer.multi_publish("t", [b"big", b"3"]),
            producer.multi_publish("t", [b"4", b"5"]),
            producer.publish("u", b"6"),
            return_exceptions=True,
        )
    assert [type(result) for result in results] == [type(None), BadMessage] + [type(None)] * 2
    assert nsqd.published == [("t", [b"1", b"2"]), ("t", [b"4", b"5"]), ("u", [b"6"])]


async def test_a_bad_message_does_not_spoil_those_it_was_gathered_with(nsqd: FakeNsqd) -> None:
    nsqd.refuse = lambda bodies: "E_BAD_MESSAGE MPUB message too big" if b"big" in bodies else ""
    async with Producer(nsqd.address) as producer:
        sent = [b"1", b"big", b"2", b"3"]
        results = await asyncio.gather(
            *(producer.publish("t", body) for body in sent), return_exceptions=True
        )
    assert [type(result) for result in results] == [type(None), BadMessage] + [type(None)] * 2
    assert nsqd.published == [("t", [b"1"]), ("t", [b"2"]), ("t", [b"3"])]


async def test_which_nodes_are_connected_can_be_seen(nsqd: FakeNsqd) -> None:
    away = unused_address()
    async with Producer(away, nsqd.address) as producer:
        await producer.ping()
        state = producer.connections
    assert state[away].is_dead
    assert not state[away].is_connected
    assert "connection refused" in str(state[away].error)
    assert state[nsqd.address].is_connected
    assert not state[nsqd.address].is_dead


@pytest.mark.parametrize("resend", [True, False])
async def test_all_that_was_under_way_goes_to_another_node(nsqd: FakeNsqd, resend: bool) -> None:
    with fake_nsqd() as other:
        addresses = [nsqd.address, other.address]
        async with Producer(*addresses, resend=resend, mode="round-robin") as producer:
            await producer.ping()
            await producer.ping()
            nsqd.silent = True
            under_way = [begun(producer.publish("t", b"%d" % n)) for n in range(3)]
            await until(lambda: nsqd.count(Publish) == 1)
            nsqd.drop_connections()
            results = await asyncio.gather(*under_way, return_exceptions=True)
        if resend:
            assert results == [None] * 3
            assert bodies(other) == [b"0", b"1", b"2"]
        else:
            assert [type(result) for result in results] == [NotConnected] * 3
            assert bodies(other) == []


class HalfClosed:
    """A node that closes its side of the first connection and reads no further there, as one that
    is cut off. It keeps the bodies of what it answers on other connections.
    """

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.connections = 0
        self.over = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        commands = CommandReader(Limits(max_msg_size=32 << 20), expect_magic=True)
        is_first = self.connections == 1
        while data := await reader.read(1 << 16):
            commands.receive_data(data)
            while (event := commands.next_event()) is not None:
                writer.write(frames.OK_FRAME)
                if isinstance(event, Publish):
                    self.bodies += event.bodies.to_list()
            if is_first:
                writer.write_eof()
                await self.over.wait()
                break
        writer.close()


async def test_no_answer_is_taken_for_one_to_what_another_connection_took() -> None:
    node = HalfClosed()
    server = await asyncio.start_server(node.serve, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        config = Config(write_timeout=60, read_timeout=20, heartbeat_interval=20)
        producer = Producer(f"127.0.0.1:{port}", config=config)
        large = bytes(20 << 20)  # more than all buffers on the way take
        first = begun(producer.publish("t", large))
        await until(lambda: producer.connections[f"127.0.0.1:{port}"].unanswered == 1)
        await until(lambda: not producer.connections[f"127.0.0.1:{port}"].is_connected)
        await producer.publish("t", b"second")
        await first
        assert sorted(map(len, node.bodies)) == [len(b"second"), len(large)]
        node.over.set()
        await producer.close()


async def test_a_cancelled_publish_does_not_confuse_the_next(nsqd: FakeNsqd) -> None:
    async with Producer(nsqd.address) as producer:
        await producer.ping()
        nsqd.silent = True
        cancelled = begun(producer.publish("t", b"2"))
        await until(lambda: nsqd.count(Publish) == 1)
        following = begun(producer.publish("t", b"3"))
        await until(lambda: nsqd.count(Publish) == 2)
        cancelled.cancel()
        nsqd.send(frames.OK_FRAME)
        await until(lambda: producer.pending == 1)
        assert not following.done()
        nsqd.send(frames.OK_FRAME)
        await following


async def test_no_answer(nsqd: FakeNsqd) -> None:
    async with Producer(nsqd.address, resend=False) as producer:
        await producer.ping()
        nsqd.silent = True
        node = producer._nodes[nsqd.address]  # which is impatient from now on
        node._config = replace(node._config, read_timeout=0.5)
        with pytest.raises(TimedOut, match="no answer to a publish in time"):
            await producer.publish("t", b"1")


async def test_a_dead_node_is_not_dialled_for_each_message(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", "penstock.nsq.client")
    async with Producer(unused_address(), clock=FakeClock()) as producer:
        for _ in range(20):
            with pytest.raises(NotConnected):
                await producer.publish("t", b"1")
    assert caplog.text.count("connecting to nsqd\n") < 5


async def test_stopped(nsqd: FakeNsqd) -> None:
    producer = Producer(nsqd.address, max_pending=3)
    await producer.ping()
    nsqd.silent = True
    under_way = [begun(producer.publish("t", b"x")) for _ in range(5)]
    await until(lambda: nsqd.count(Publish) == 1)
    await producer.close()
    results = await asyncio.gather(*under_way, return_exceptions=True)
    assert [str(result) for result in results] == ["stopped"] * 5
    for late in (producer.publish("t", b"x"), producer.multi_publish("t", [b"x"]), producer.ping()):
        with pytest.raises(Stopped):
            await late
    assert producer.pending == 0
    await producer.flush()
    await producer.close()


async def test_stopped_while_connecting() -> None:
    with fake_nsqd() as nsqd:
        nsqd.silent = True
        producer = Producer(nsqd.address)
        publish = begun(producer.publish("t", b"x"))
        await until(lambda: nsqd.count(Identify) == 1)
        await producer.close()
        with pytest.raises(Stopped):
            await publish


async def test_leaving_with_an_error_does_not_wait(nsqd: FakeNsqd) -> None:
    async def failing() -> None:
        async with Producer(nsqd.address) as producer:
            await producer.ping()
            nsqd.silent = True
            await producer.publish_soon("t", b"x")
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        await failing()


async def test_an_answer_nobody_waits_for(nsqd: FakeNsqd) -> None:
    async with Producer(nsqd.address) as producer:
        await producer.publish("t", b"1")
        nsqd.send(frames.OK_FRAME)
        await until(lambda: not producer.connections[nsqd.address].is_connected)
        await producer.publish("t", b"2")
    assert bodies(nsqd) == [b"1", b"2"]


async def test_the_http_port_is_recognised() -> None:
    async def refuse(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(refuse, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, Producer(f"127.0.0.1:{port}") as producer:
        with pytest.raises(ClientError, match="is this the HTTP port of nsqd"):
            await producer.publish("t", b"1")
