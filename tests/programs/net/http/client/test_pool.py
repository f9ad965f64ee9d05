"""Connections that are kept: by themselves, and in a pool."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import socket
import ssl
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
import trustme

from penstock.net import tcp
from penstock.net.http.client import pool as http_pool
from penstock.net.http.client.answer import AnswerReader
from penstock.net.http.client.keep_alive import KeepAliveConnection, Tls
from penstock.net.http.client.link import Origin
from penstock.net.http.client.pool import ConnectError, HttpPool
from tests.programs.net.conftest import TIMEOUT_S
from tests.unit.net.certificates import Certificates
from tools.harness.ports import unused_address

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Server:
    """Answers each request (one packet) with what `answer` makes of it; None closes."""

    origin: Origin
    pool: HttpPool

    def __init__(self) -> None:
        self.connections = 0
        self.requests: list[bytes] = []
        self.answer: Callable[[bytes], bytes | None] = lambda request: OK
        self.transports: list[asyncio.Transport] = []

    def protocol(self) -> asyncio.Protocol:
        return Connection(self)

    async def ask(self, body: bytes = b"x", *, may_repeat: bool = True) -> AnswerReader:
        """What the pool gets from it."""
        return await self.pool.ask(self.origin, body, reader, may_repeat=may_repeat)


class Connection(asyncio.Protocol):
    def __init__(self, server: Server) -> None:
        self.server = server

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.server.connections += 1
        self.server.transports.append(transport)

    def data_received(self, data: bytes) -> None:
        self.server.requests.append(data)
        answer = self.server.answer(data)
        if answer is None:
            self.transport.close()
        else:
            self.transport.write(answer)


@pytest.fixture
async def pool() -> AsyncIterator[HttpPool]:
    pool = HttpPool(connect_timeout=30, kept_per_origin=2)
    yield pool
    await pool.close()


@pytest.fixture
async def server(pool: HttpPool) -> AsyncIterator[Server]:
    server = Server()
    listener = await tcp.listen(server.protocol, "127.0.0.1:0")
    server.origin, server.pool = Origin(False, "127.0.0.1", listener.port), pool
    yield server
    for transport in server.transports:
        transport.abort()
    await listener.close()


def reader() -> AnswerReader:
    return AnswerReader("POST", 1000, discard=True)


async def test_a_connection_is_used_again(server: Server) -> None:
    for n in range(3):
        answer = await server.ask(b"%d" % n)
        assert (answer.status, answer.done) == (200, True)
    assert server.requests == [b"0", b"1", b"2"]
    assert server.connections == 1


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
        b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n",
        OK + b"more than was asked for",
        OK + OK,
        b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n" + b"x" * 9999,
    ],
)
async def test_a_connection_is_not_used_again(server: Server, answer: bytes) -> None:
    server.answer = lambda request: answer
    for _ in range(2):
        assert (await server.ask()).status == 200
    assert server.connections == 2


async def test_no_more_are_kept_than_allowed(server: Server) -> None:
    for _ in range(2):
        await asyncio.gather(*(server.ask() for _ in range(5)))
    assert server.connections == 5 + 3


async def test_a_kept_connection_that_was_closed_costs_nothing(server: Server) -> None:
    await server.ask(b"one")
    ends = iter([None])
    server.answer = lambda request: next(ends, OK)  # the end crosses the request
    assert (await server.ask(b"two")).status == 200
    assert server.requests == [b"one", b"two", b"two"]
    server.transports[-1].close()
    await asyncio.sleep(0.01)
    assert (await server.ask(b"three")).status == 200
    assert server.requests[3:] == [b"three"]


async def test_what_may_not_be_repeated_is_sent_once(server: Server) -> None:
    await server.ask(b"one")
    server.answer = lambda request: None
    with pytest.raises((EOFError, OSError)):
        await server.ask(b"two", may_repeat=False)
    assert server.requests == [b"one", b"two"]


async def test_a_new_connection_that_ends_is_an_error(server: Server) -> None:
    server.answer = lambda request: None
    with pytest.raises(EOFError):
        await server.ask()
    assert server.connections == 1


async def test_half_an_answer_is_not_asked_for_again(server: Server) -> None:
    await server.ask()

    def half(request: bytes) -> None:
        server.transports[0].write(b"HTTP/1.1 20")

    server.answer = half
    with pytest.raises(EOFError):
        await server.ask()
    assert len(server.requests) == 2


async def test_one_idle_for_too_long(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_pool, "IDLE_S_MAX", 0.0)
    for _ in range(2):
        await server.ask()
    assert server.connections == 2


async def test_a_request_given_up_takes_its_connection_along(server: Server) -> None:
    server.answer = lambda request: b""
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.02):
            await server.ask()
    server.answer = lambda request: OK
    assert (await server.ask(b"y")).status == 200
    assert server.connections == 2


async def test_closing_ends_what_is_under_way(server: Server, pool: HttpPool) -> None:
    asked = asyncio.Event()

    def keep_waiting(request: bytes) -> bytes:
        asked.set()
        return b""

    server.answer = keep_waiting
    async with asyncio.TaskGroup() as group:
        under_way = group.create_task(expect_end(server))
        await asked.wait()
        await pool.close()
    assert under_way.result()


async def expect_end(server: Server) -> bool:
    with pytest.raises((EOFError, OSError)):
        await server.ask()
    return True


async def test_secure_origins() -> None:
    authority = trustme.CA()
    serving_tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("localhost").configure_cert(serving_tls)
    server = Server()
    loop = asyncio.get_running_loop()
    listener = await loop.create_server(server.protocol, "127.0.0.1", 0, ssl=serving_tls)
    origin = Origin(True, "localhost", listener.sockets[0].getsockname()[1])
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    pool = HttpPool(connect_timeout=30, kept_per_origin=2, tls=lambda: trusting)
    for _ in range(2):
        assert (await pool.ask(origin, b"x", reader)).status == 200
    assert len(server.requests) == 2
    assert server.connections == 1
    await pool.close()
    doubting = HttpPool(connect_timeout=30, kept_per_origin=2)
    with pytest.raises(ConnectError) as caught:
        await doubting.ask(origin, b"x", reader)
    assert isinstance(caught.value.cause, ssl.SSLCertVerificationError)
    await doubting.close()
    listener.close()


async def test_nobody_there(pool: HttpPool) -> None:
    host, _, port = unused_address().rpartition(":")
    with pytest.raises(ConnectError) as caught:
        await pool.ask(Origin(False, host, int(port)), b"x", reader)
    assert isinstance(caught.value.cause, ConnectionRefusedError)


async def test_connections_to_few_origins_are_kept(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_pool, "ORIGINS_MAX", 1)
    first = server.origin
    other = first._replace(host="localhost")
    for server.origin in (first, other, other, first):
        await server.ask()
    assert server.connections == 3


# --- A blocking connection that is kept ----------------------------------------------------------


Serve = Callable[..., list[bytes]]
ANSWERED = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-Name: v\r\n\r\nhi"


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Starts a server with a list of answers for each connection; gives back what it was sent."""
    listener = socket.create_server(("127.0.0.1", 0))
    threads: list[threading.Thread] = []

    def start(*connections: list[bytes]) -> list[bytes]:
        heard: list[bytes] = []

        def run() -> None:
            for answers in connections:
                try:
                    peer, _ = listener.accept()
                except OSError:
                    return  # the test is over, and has not asked for this connection
                with peer:
                    for answer in answers:
                        heard.append(_request(peer))
                        peer.sendall(answer)

        threads.append(threading.Thread(target=run, daemon=True))
        threads[-1].start()
        return heard

    start.port = listener.getsockname()[1]  # type: ignore[attr-defined]
    yield start
    listener.shutdown(socket.SHUT_RDWR)  # wakes who waits in accept, which a close does not
    for thread in threads:
        thread.join()
    listener.close()


def _request(peer: socket.socket) -> bytes:
    data = peer.recv(65536)
    while data.startswith(b"POST") and not data.endswith(b"body"):
        data += peer.recv(65536)
    return data


@pytest.fixture
def kept(serve: Serve) -> Iterator[KeepAliveConnection]:
    """A connection to it."""
    port = serve.port  # type: ignore[attr-defined]
    with contextlib.closing(KeepAliveConnection("127.0.0.1", port, TIMEOUT_S, 100)) as kept:
        yield kept


def test_one_connection_for_several_requests(serve: Serve, kept: KeepAliveConnection) -> None:
    heard = serve([ANSWERED, ANSWERED])
    reply = kept.ask("GET", "/a?b")
    assert (reply.status, reply.headers["x-name"], reply.body) == (200, "v", b"hi")
    assert kept.ask("POST", "/c", b"body").body == b"hi"
    assert heard[0].startswith(b"GET /a?b HTTP/1.1\r\n")
    assert heard[1].endswith(b"\r\n\r\nbody")


def test_one_that_was_closed_meanwhile_is_replaced(serve: Serve, kept: KeepAliveConnection) -> None:
    heard = serve([ANSWERED], [ANSWERED])
    for _ in range(2):
        assert kept.ask("GET", "/").status == 200
    assert len(heard) == 2


def test_a_new_one_that_fails_is_not(serve: Serve, kept: KeepAliveConnection) -> None:
    serve([b""], [ANSWERED])
    with pytest.raises(ConnectionError):
        kept.ask("GET", "/")


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 101\r\n\r\n" + b"x" * 101,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n65\r\n"
        + b"x" * 101
        + b"\r\n0\r\n\r\n",
        b"HTTP/1.0 200 OK\r\n\r\n" + b"x" * 101,
    ],
)
def test_an_answer_has_a_limit(serve: Serve, kept: KeepAliveConnection, answer: bytes) -> None:
    serve([answer], [ANSWERED])
    with pytest.raises(http.client.HTTPException, match="more than 100 bytes"):
        kept.ask("GET", "/")
    assert kept.ask("GET", "/").body == b"hi"  # over another connection


def test_a_server_without_room_just_now_is_asked_again(
    serve: Serve, kept: KeepAliveConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []
    monkeypatch.setattr(time, "sleep", waits.append)
    busy = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: %d\r\nContent-Length: 0\r\n\r\n"
    heard = serve([busy % 1, busy % 3600, ANSWERED])
    assert kept.ask("GET", "/x").status == 200
    assert (len(heard), waits) == (3, [1, 5])


def test_one_that_only_refuses_is_not(serve: Serve, kept: KeepAliveConnection) -> None:
    serve([b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n"])
    assert kept.ask("GET", "/x").status == 503


def test_a_refusal_that_comes_before_the_body_is_sent_is_read() -> None:
    refusal = b"HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\nConnection: close\r\n\r\nbig"
    with socket.create_server(("127.0.0.1", 0)) as server:

        def refuse() -> None:
            peer, _ = server.accept()
            with peer:
                peer.recv(1000)
                peer.sendall(refusal)

        thread = threading.Thread(target=refuse)
        thread.start()
        kept = KeepAliveConnection("127.0.0.1", server.getsockname()[1], TIMEOUT_S, 100)
        reply = kept.ask("POST", "/", bytes(64 << 20))
        thread.join()
        kept.close()
    assert (reply.status, reply.body) == (413, b"big")


def test_headers_and_another_name_in_the_certificate(tmp_path: Path) -> None:
    files = Certificates(tmp_path)
    listener = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    listener.load_cert_chain(files.cert, files.key)
    heard: list[bytes] = []
    with listener.wrap_socket(socket.create_server(("127.0.0.1", 0)), server_side=True) as server:

        def serve() -> None:
            for _ in range(2):
                with contextlib.suppress(ssl.SSLError):
                    peer, _ = server.accept()
                    with peer:
                        heard.append(peer.recv(65536))
                        peer.sendall(ANSWERED)

        thread = threading.Thread(target=serve)
        thread.start()
        port = server.getsockname()[1]
        for name in ("example.org", "localhost"):
            tls = Tls(files.context(), name)
            headers = {"X-Name": "v"}
            kept = KeepAliveConnection("127.0.0.1", port, TIMEOUT_S, 100, tls=tls, headers=headers)
            if name == "localhost":
                assert kept.ask("GET", "/").body == b"hi"
            else:
                with pytest.raises(ssl.SSLCertVerificationError):
                    kept.ask("GET", "/")
            kept.close()
        thread.join()
    assert b"\r\nX-Name: v\r\n" in heard[0]
