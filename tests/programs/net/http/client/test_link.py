from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from penstock.net import tcp
from penstock.net.http.client.answer import AnswerReader
from penstock.net.http.client.link import HttpLink, Origin, open_link

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"


class Peer(asyncio.Protocol):
    """The other end of the last connection."""

    made: asyncio.Future[Peer]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.got: asyncio.Queue[bytes] = asyncio.Queue()
        Peer.made.set_result(self)

    def data_received(self, data: bytes) -> None:
        self.got.put_nowait(data)


class Pair:
    def __init__(self, link: HttpLink, peer: Peer, lost: asyncio.Event) -> None:
        self.link = link
        self.peer = peer
        self.lost = lost


@pytest.fixture
async def pair() -> AsyncIterator[Pair]:
    Peer.made = asyncio.get_running_loop().create_future()
    listener = await tcp.listen(Peer, "127.0.0.1:0")
    lost = asyncio.Event()
    origin = Origin(False, "127.0.0.1", listener.port)
    link = await open_link(origin, 30, lost=lambda link: lost.set())
    peer = await Peer.made
    yield Pair(link, peer, lost)
    link.abort()
    peer.transport.abort()
    await listener.close()


def reader() -> AnswerReader:
    return AnswerReader("GET", 1000)


async def test_one_exchange_after_another(pair: Pair) -> None:
    for request in (b"one", b"two"):
        async with asyncio.TaskGroup() as group:
            asked = group.create_task(pair.link.ask(request, answer := reader()))
            assert await pair.peer.got.get() == request
            pair.peer.transport.write(OK)
            await asked
        assert answer.status == 200
        assert pair.link.is_open


async def test_what_nobody_asked_for_ends_it(pair: Pair) -> None:
    pair.peer.transport.write(OK)
    await pair.lost.wait()
    assert not pair.link.is_open
    with pytest.raises(EOFError):
        await pair.link.ask(b"x", reader())


async def test_the_connection_ends(pair: Pair) -> None:
    pair.peer.transport.close()
    with pytest.raises((EOFError, ConnectionError)):
        await pair.link.ask(b"x", reader())
    await pair.lost.wait()


async def test_the_connection_is_reset(pair: Pair) -> None:
    async with asyncio.TaskGroup() as group:
        asked = group.create_task(_failure(pair.link.ask(b"x", reader())))
        await pair.peer.got.get()
        pair.peer.transport.abort()
    assert isinstance(asked.result(), EOFError | ConnectionError)


async def test_nonsense(pair: Pair) -> None:
    async with asyncio.TaskGroup() as group:
        asked = group.create_task(_failure(pair.link.ask(b"x", reader())))
        await pair.peer.got.get()
        pair.peer.transport.write(b"220 mail.example ESMTP\r\n")
    assert isinstance(asked.result(), ValueError)
    await pair.lost.wait()


async def test_given_up(pair: Pair) -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await pair.link.ask(b"x", reader())
    await pair.lost.wait()


async def test_a_time_out_for_connecting() -> None:
    with pytest.raises(TimeoutError):
        await open_link(Origin(False, "127.0.0.1", 1), -1)


async def _failure(asking: object) -> Exception:
    try:
        await asking
    except Exception as error:
        return error
    raise AssertionError("it went well")
