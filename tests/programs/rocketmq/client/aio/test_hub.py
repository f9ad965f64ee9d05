"""The network of an asyncio client: silence, slow servers, cancelled sends, the end."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
import time
from dataclasses import replace

import pytest

from penstock.core.clock import SYSTEM_CLOCK
from penstock.rocketmq.client import (
    Message,
    Producer,
    Stopped,
)
from penstock.rocketmq.client.aio.hub import AioHub
from penstock.rocketmq.client.errors import NoNameServer
from penstock.rocketmq.client.network.jobs import Promise
from penstock.rocketmq.protocol.codes import RequestCode
from tests.programs.rocketmq.conftest import serving
from tools.harness.rocketmq.servers import QUICK, SECONDS, Servers, until


def hub_of(address: str = "127.0.0.1:1") -> AioHub:
    return AioHub(replace(QUICK, namesrv_addr=address), SYSTEM_CLOCK, None)


async def test_a_connection_on_which_nothing_comes_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("penstock.rocketmq.client.network.wire._SILENCE_S", 0.1)
    ended = threading.Event()

    def serve(connection: socket.socket) -> None:
        while connection.recv(1 << 16):
            pass
        ended.set()

    with serving(serve) as address:
        async with Producer("PG", address, config=replace(QUICK, request_timeout=0.2)) as producer:
            for _ in range(2):
                assert not ended.is_set(), "it was made while the first request waited"
                with pytest.raises(NoNameServer, match=r"no answer within 0\.2 s"):
                    await producer.send(Message("T", b"x"))
            assert await asyncio.to_thread(ended.wait, SECONDS)
            assert not producer.connections


async def test_what_asks_for_no_answer_waits_for_a_server_that_takes_no_more() -> None:
    """Without that it would all be gathered in memory, and nothing sent before it is over."""
    reads, sent, read = threading.Event(), list[int](), list[int]()

    def serve(connection: socket.socket) -> None:
        reads.wait(SECONDS)
        with contextlib.suppress(ConnectionError):
            while data := connection.recv(1 << 20):
                read.append(len(data))

    async def send(hub: AioHub, address: str) -> None:
        for _ in range(400):
            hub.tell(address, RequestCode.SEND_MESSAGE_V2, {}, bytes(100_000))
            sent.append(100_000)
            await hub.drained(address)

    with serving(serve) as address:
        hub = hub_of(address)
        sending = asyncio.create_task(send(hub, address))
        await until(lambda: len(sent) > 3)
        await asyncio.sleep(0.2)
        assert len(sent) < 400, "the system's buffers hold less"
        reads.set()
        await sending
        await until(lambda: sum(read) > sum(sent))
        sending = asyncio.create_task(send(hub, address))
        await asyncio.sleep(0)
        await hub.end()
        await sending


async def test_a_cancelled_send_is_ended(servers: Servers) -> None:
    async with Producer("PG", servers.address, config=QUICK) as producer:
        await producer.send(Message("Cancelled", b"x"))
        task = asyncio.create_task(producer.send(Message("Cancelled", b"y")))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await producer.send(Message("Cancelled", b"z"))


async def test_what_is_under_way_fails_when_it_is_closed(servers: Servers) -> None:
    producer = Producer("PG", servers.address, config=QUICK)
    await producer.send(Message("Closing", b"x"))
    future = await producer.send_soon(Message("Closing", b"y"))
    await producer.close()
    error = future.exception() if future.done() else None
    assert error is None or isinstance(error, Stopped)
    with pytest.raises(Stopped):
        await producer.send(Message("Closing", b"z"))


async def test_what_waits_for_more_than_an_answer_fails_when_it_is_closed() -> None:
    """A request's reply, for one: its time-out ends with the hub, as all timers do."""

    async def reply() -> None:
        await Promise[None]()

    hub = hub_of()
    waiting = asyncio.create_task(hub.run(reply()))
    await asyncio.sleep(0)
    await hub.end()
    with pytest.raises(Stopped):
        async with asyncio.timeout(SECONDS):
            await waiting


async def test_what_was_said_is_sent_before_the_end() -> None:
    """A one-way send is all that such a program may do: nobody else would wait for it."""
    found: list[int] = []

    def serve(connection: socket.socket) -> None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
        time.sleep(1.5)  # a server, or a network, that is slow
        with contextlib.suppress(ConnectionResetError):
            while data := connection.recv(1 << 16):
                found.append(len(data))

    with serving(serve) as address:
        hub = hub_of(address)
        hub.tell(address, RequestCode.SEND_MESSAGE_V2, {}, b"x" * 12_000_000)
        await until(lambda: hub.connections[address].is_open)
        await hub.end()
    assert sum(found) > 12_000_000
