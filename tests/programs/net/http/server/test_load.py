"""The HTTP server under load: downloads, bodies without an end, many clients, its service."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from pathlib import Path

import pytest

from penstock.core.errors import PenstockError
from penstock.core.settings.web_options import WebOptions
from penstock.net import tcp
from penstock.net.budget import SMALL, Memory
from penstock.net.http.client import once as http_client
from penstock.net.http.server import download as http_download
from penstock.net.http.server import load as http_load
from penstock.net.http.server import streaming as http_stream
from penstock.net.http.server.service import (
    DeferredResponse,
    Download,
    HttpServer,
    Request,
    Response,
    Router,
    StreamingResponse,
    text,
)
from tests.programs.net.conftest import Serve, Wire, until
from tools.harness.certificates import Certificates

BIG = 16 << 20
"""The limit of both budgets, which is more than the buffers of sockets hold."""
OPTIONS = WebOptions(max_request_memory=BIG, max_answer_memory=BIG)


class Served:
    """A server, and a test's connections to it."""

    def __init__(self) -> None:
        self.memory = Memory.of(OPTIONS)
        self.later = DeferredResponse()
        router = Router()
        router.add("GET", "/big", lambda request: Response(200, bytes(BIG)))
        router.add("GET", "/small", lambda request: Response(200, bytes(SMALL)))
        router.add("GET", "/later", lambda request: self.later)
        router.add(
            "GET", "/stream", lambda request: StreamingResponse("text/plain", closed=lambda: None)
        )
        router.add("POST", "/body", _length, max_body=2 * BIG)
        self._server = HttpServer(router, memory=self.memory)
        self._listener: tcp.Listener
        self._wires: list[Wire] = []

    async def start(self) -> None:
        self._listener = await tcp.listen(self._server, "127.0.0.1:0", "HTTP")

    async def connect(self) -> Wire:
        """A connection with small buffers, which takes little before it reads."""
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL)
        sock.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(sock, ("127.0.0.1", self._listener.port))
        wire = Wire(*await asyncio.open_connection(sock=sock, limit=SMALL))
        self._wires.append(wire)
        return wire

    async def get(self, *paths: str) -> Wire:
        """A connection that has requested these paths and read none of the answers yet."""
        wire = await self.connect()
        wire.send("".join(f"GET {path} HTTP/1.1\r\nHost: h\r\n\r\n" for path in paths).encode())
        return wire

    async def post(self, length: int, body: bytes) -> Wire:
        """A connection that has sent this part of a body."""
        wire = await self.connect()
        head = f"POST /body HTTP/1.1\r\nHost: h\r\nContent-Length: {length}\r\n\r\n"
        wire.send(head.encode() + body)
        return wire

    async def close(self) -> None:
        for wire in self._wires:
            wire.close()
        await self._listener.close()
        self._server.close_connections()


def _length(request: Request) -> Response:
    return Response(200, b"%d" % len(request.body))


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    served = Served()
    await served.start()
    yield served
    await served.close()


async def test_answers_that_nobody_reads(served: Served) -> None:
    answers = served.memory.answers
    unread = await served.get("/big")
    await until(lambda: answers.used > 0)
    line, headers, body = await (await served.get("/big")).read_response()
    assert line.startswith("HTTP/1.1 503 ")
    assert headers["retry-after"] == "1"
    assert body.endswith(b"--max-answer-memory is 16777216; try again\n")
    assert (await (await served.get("/small")).read_response())[0] == "HTTP/1.1 200 OK"
    assert len((await unread.read_response())[2]) == BIG
    await until(lambda: not answers.used)
    assert answers.refused == 1
    assert len((await (await served.get("/big")).read_response())[2]) == BIG


async def test_an_answer_counts_whole_until_all_of_it_is_sent(served: Served) -> None:
    """The socket's buffers have taken some of it, and it is in memory all the same."""
    answers = served.memory.answers
    wire = await served.get("/big")
    await until(lambda: answers.used > 0)
    assert answers.used >= BIG
    assert len((await wire.read_response())[2]) == BIG
    await until(lambda: not answers.used)


async def test_answers_that_wait_for_the_one_before_them(served: Served) -> None:
    answers = served.memory.answers
    wire = await served.get("/later", "/big", "/big", "/big", "/small")
    await until(lambda: answers.refused == 2)
    assert answers.used == BIG
    served.later.complete(Response(200, b"."))
    found = [await wire.read_response() for _ in range(5)]
    assert [line[9:12] for line, _, _ in found] == ["200", "200", "503", "503", "200"]
    assert [len(found[place][2]) for place in (0, 1, 4)] == [1, BIG, SMALL]
    await until(lambda: not answers.used)


async def test_answers_that_a_stream_leaves_no_room_for_hold_nothing(served: Served) -> None:
    answers = served.memory.answers
    wire = await served.get("/later", "/stream", "/big")
    await until(lambda: answers.used == BIG)
    served.later.complete(Response(200, b"."))
    await wire.read_response()
    await until(lambda: not answers.used)


async def test_who_takes_nothing_while_others_need_the_room_is_let_go(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_load, "UNREAD_S", 0.05)
    await served.get("/big")
    await until(lambda: served.memory.answers.used * 2 > BIG)
    await until(lambda: not served.memory.answers.used)


async def test_bodies_that_are_not_complete(served: Served) -> None:
    requests = served.memory.requests
    first = await served.post(BIG + SMALL, bytes(BIG))
    await until(lambda: requests.used == BIG)
    second = await served.post(BIG, bytes(SMALL + 1))
    line, headers, body = await second.read_response()
    assert line.startswith("HTTP/1.1 503 ")
    assert (headers["retry-after"], headers["connection"]) == ("1", "close")
    assert body.endswith(b"--max-request-memory is 16777216; try again\n")
    small = await served.post(9, bytes(9))
    assert (await small.read_response())[2] == b"9"
    first.send(bytes(SMALL))  # alone again, it may finish
    assert (await first.read_response())[2] == b"%d" % (BIG + SMALL)
    assert (requests.used, requests.refused) == (0, 1)


async def test_a_body_that_is_given_up_holds_nothing(served: Served) -> None:
    wire = await served.post(BIG, bytes(BIG - 1))
    await until(lambda: served.memory.requests.used == BIG - 1)
    wire.close()
    await until(lambda: not served.memory.requests.used)


GET = b"GET /file HTTP/1.1\r\nHost: h\r\n\r\n"


class Pieces:
    """Pieces that count how many were asked for, and whether somebody still wants them."""

    def __init__(self, *pieces: bytes, error: Exception | None = None) -> None:
        self.pieces = pieces
        self.error = error
        self.asked = 0
        self.ended = False

    async def __call__(self) -> AsyncGenerator[bytes, None]:
        try:
            for piece in self.pieces:
                self.asked += 1
                yield piece
            if self.error is not None:
                raise self.error
        finally:
            self.ended = True


def serving(pieces: Callable[[], AsyncGenerator[bytes, None]]) -> Router:
    async def download(request: Request) -> Response:
        is_chunked = not request.head.is_http10
        return Download("text/plain", pieces(), (("X-A", "b"),), is_chunked=is_chunked)

    router = Router()
    router.add("GET", "/file", download)
    return router


async def test_chunks_and_an_end(serve: Serve) -> None:
    pieces = Pieces(b"one", b"", b"x" * 17)
    wire = await (await serve(serving(pieces)))()
    wire.send(GET)
    head, _, body = (await wire.read_all()).partition(b"\r\n\r\n")
    assert {b"X-A: b", b"Transfer-Encoding: chunked", b"Connection: close"} <= {
        *head.split(b"\r\n")
    }
    assert body == b"3\r\none\r\n11\r\n" + b"x" * 17 + b"\r\n0\r\n\r\n"
    assert pieces.ended


async def test_to_an_old_client_without_chunks(serve: Serve) -> None:
    wire = await (await serve(serving(Pieces(b"one", b"two"))))()
    wire.send(b"GET /file HTTP/1.0\r\n\r\n")
    head, _, body = (await wire.read_all()).partition(b"\r\n\r\n")
    assert b"chunked" not in head
    assert body == b"onetwo"


@pytest.mark.parametrize("error", [PenstockError("the node is gone"), RuntimeError("a mistake")])
async def test_what_ends_too_early_has_no_end(
    serve: Serve, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    wire = await (await serve(serving(Pieces(b"one", error=error))))()
    wire.send(GET)
    try:
        received = await wire.read_all()
    except ConnectionError:
        received = b""
    assert not received.endswith(b"0\r\n\r\n")
    await until(lambda: str(error) in caplog.text)


async def test_a_client_that_does_not_read_is_not_served_and_let_go(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_download, "STALL_S", 0.2)
    pieces = Pieces(*[b"x" * 65536] * 2000)
    wire = await (await serve(serving(pieces)))()
    wire.send(GET)
    await until(lambda: pieces.ended)
    assert pieces.asked < 1000


async def test_a_client_that_goes_ends_it(serve: Serve) -> None:
    pieces = Pieces(*[b"x" * 65536] * 100_000)
    wire = await (await serve(serving(pieces)))()
    wire.send(GET)
    await until(lambda: pieces.asked > 0)
    wire.close()
    await until(lambda: pieces.ended)
    assert pieces.asked < 100_000


STREAM = b"GET /stream HTTP/1.1\r\nHost: h\r\n\r\n"


class Streams:
    """The streams that were asked for, and how many of them were closed."""

    def __init__(self) -> None:
        self.open: list[StreamingResponse] = []
        self.closed = 0
        self.router = Router()
        self.router.add("GET", "/stream", self.begin)
        self.router.add("GET", "/ping", lambda request: text("OK"))

    def begin(self, request: Request) -> Response:
        stream = StreamingResponse("text/event-stream", (("X-A", "b"),), closed=self._count)
        stream.send(b"first\n")
        self.open.append(stream)
        return stream

    def _count(self) -> None:
        self.closed += 1


@pytest.fixture
def streams() -> Streams:
    return Streams()


@pytest.fixture
async def wire(streams: Streams, serve: Serve) -> Wire:
    """A connection to the server of the streams."""
    return await (await serve(streams.router))()


async def test_what_is_sent_comes(streams: Streams, wire: Wire) -> None:
    wire.send(STREAM)
    await until(lambda: bool(streams.open))
    streams.open[0].send(b"second\n")
    wire.half_close()
    raw = await wire.read_all()
    head, _, body = raw.partition(b"\r\n\r\n")
    lines = head.split(b"\r\n")
    assert lines[0] == b"HTTP/1.1 200 OK"
    assert {b"X-A: b", b"Content-Type: text/event-stream", b"Connection: close"} <= set(lines)
    assert b"Content-Length" not in head
    assert body == b"first\nsecond\n"
    await until(lambda: streams.closed == 1)
    streams.open[0].send(b"nobody listens\n")


async def test_after_other_answers_and_before_none(streams: Streams, wire: Wire) -> None:
    ping = b"GET /ping HTTP/1.1\r\nHost: h\r\n\r\n"
    wire.send(ping + STREAM + ping)
    await until(lambda: bool(streams.open))
    wire.half_close()
    raw = await wire.read_all()
    assert raw.count(b"HTTP/1.1 200 OK") == 2
    assert raw.endswith(b"first\n")


async def test_a_client_that_goes_before_its_turn(streams: Streams, wire: Wire) -> None:
    """An answer before it is still to come."""
    late = DeferredResponse()
    streams.router.add("GET", "/late", lambda request: late)
    wire.send(b"GET /late HTTP/1.1\r\nHost: h\r\n\r\n" + STREAM)
    await until(lambda: bool(streams.open))
    wire.close()
    late.complete(text("late"))
    await until(lambda: streams.closed == 1)


async def test_a_stream_behind_another_is_nobodys(streams: Streams, wire: Wire) -> None:
    """Of a client that asks for both while an answer before them is still to come."""
    late = DeferredResponse()
    streams.router.add("GET", "/late", lambda request: late)
    wire.send(b"GET /late HTTP/1.1\r\nHost: h\r\n\r\n" + STREAM + STREAM)
    await until(lambda: len(streams.open) == 2)
    late.complete(text("late"))
    await until(lambda: streams.closed == 1)
    wire.close()
    await until(lambda: streams.closed == 2)


async def test_a_client_that_does_not_read(
    streams: Streams, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_stream, "BEHIND_MAX", 1000)
    wire.send(STREAM)
    await until(lambda: bool(streams.open))
    for _ in range(200):
        streams.open[0].send(b"x" * 100_000)
    await until(lambda: streams.closed == 1)


PING = b"GET /ping HTTP/1.1\r\nHost: h\r\n\r\n"


def pinging() -> Router:
    router = Router()
    router.add("GET", "/ping", lambda request: text("OK"))
    return router


async def test_close_connections() -> None:
    server = HttpServer(pinging())
    listener = await tcp.listen(server, "127.0.0.1:0")
    reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
    writer.write(PING)
    await reader.readuntil(b"\r\n\r\nOK")
    server.close_connections()
    assert await asyncio.wait_for(reader.read(), 30) == b""
    writer.close()
    await listener.close()
    await asyncio.sleep(0.01)
    assert server.connections == set()


async def test_a_connection_may_outlive_the_others_for_an_answer() -> None:
    """As of a request by which the server ends, and another one takes its place."""
    router, owed, second, others = (
        pinging(),
        DeferredResponse(),
        DeferredResponse(),
        [DeferredResponse(), DeferredResponse()],
    )
    router.add("GET", "/owed", lambda request: owed)
    router.add("GET", "/second", lambda request: second)
    router.add("GET", "/other", lambda request: others.pop())
    server = HttpServer(router)
    listener = await tcp.listen(server, "127.0.0.1:0")

    writers = []

    async def asking(*paths: str) -> asyncio.StreamReader:
        reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
        writers.append(writer)
        for path in paths:
            writer.write(PING.replace(b"/ping", path.encode()))
        return reader

    first, behind, other = [await asking(*paths) for paths in (
        ("/owed", "/ping"), ("/other", "/second"), ("/ping", "/other"))]  # fmt: skip
    await other.readuntil(b"\r\n\r\nOK")
    async with asyncio.timeout(30):
        while others:  # noqa: ASYNC110 - the requests are on their way
            await asyncio.sleep(0.01)
    await listener.close()
    server.close_connections(but_for={owed, second})
    for reader in (behind, other):
        assert await asyncio.wait_for(reader.read(), 30) == b""
    owed.complete(text("done"))
    answer = await asyncio.wait_for(first.read(), 30)
    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"\r\nConnection: close\r\n" in answer
    assert answer.endswith(b"\r\n\r\ndone"), "and nothing else is answered"
    for writer in writers:
        writer.close()
    async with asyncio.timeout(30):
        while server.connections:  # noqa: ASYNC110 - their ends are on their way
            await asyncio.sleep(0.01)


async def test_https(tmp_path: Path) -> None:
    certificates = Certificates(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.cert, certificates.key)
    listener = await tcp.listen(HttpServer(pinging()), "127.0.0.1:0", "HTTPS", ssl=context)
    url = f"https://localhost:{listener.port}/ping"
    answer = await http_client.request("GET", url, 30, tls=certificates.context())
    assert (answer.status, answer.body) == (200, b"OK")
    with pytest.raises(http_client.HttpError, match="certificate"):
        await http_client.get(url, 30)
    await listener.close()
    await asyncio.sleep(0.05)
