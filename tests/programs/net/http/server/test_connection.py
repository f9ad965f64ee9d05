"""A connection of the HTTP server, and what a guard refuses on it."""

from __future__ import annotations

import asyncio
import logging

import pytest

from penstock.net import tcp
from penstock.net.http.server import connection as http_connection
from penstock.net.http.server.connection import MAX_PIPELINED
from penstock.net.http.server.service import (
    DeferredResponse,
    HttpServer,
    Request,
    Response,
    Router,
    text,
)
from tests.programs.net.conftest import Serve, Wire, until

GET = b"GET /ping HTTP/1.1\r\nHost: h\r\n\r\n"


def post(path: str, body: bytes, *headers: str) -> bytes:
    lines = [f"POST {path} HTTP/1.1", "Host: h", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + body


@pytest.fixture
def router() -> Router:
    def echo(request: Request) -> Response:
        return Response(200, request.body)

    def crash(request: Request) -> Response:
        raise KeyError(request.path)

    router = Router()
    router.add("GET", "/ping", lambda request: text("OK"))
    router.add("POST", "/echo", echo, max_body=1000, too_large=text("too big", 413))
    router.add("POST", "/quiet", echo, quiet=True)
    router.add("GET", "/crash", crash)
    return router


@pytest.fixture
async def wire(router: Router, serve: Serve) -> Wire:
    """A connection to a server of them."""
    return await (await serve(router))()


async def test_keep_alive_and_pipelining(wire: Wire) -> None:
    wire.send(GET + post("/echo", b"one") + GET + post("/echo", b"two"))
    bodies = [(await wire.read_response())[2] for _ in range(4)]
    assert bodies == [b"OK", b"one", b"OK", b"two"]
    assert await wire.is_silent()


@pytest.mark.parametrize("size", [1, 3, 50])
async def test_any_cut_of_the_bytes_will_do(wire: Wire, size: int) -> None:
    chunked = (
        b"POST /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
    )
    data = GET + post("/echo", b"x" * 30) + chunked + GET
    for start in range(0, len(data), size):
        wire.send(data[start : start + size])
        await asyncio.sleep(0)
    bodies = [(await wire.read_response())[2] for _ in range(4)]
    assert bodies == [b"OK", b"x" * 30, b"abc", b"OK"]


async def test_http10_closes(wire: Wire) -> None:
    wire.send(b"POST /echo HTTP/1.0\r\nContent-Length: 1\r\n\r\nx")
    answer = await wire.read_all()
    assert answer.startswith(b"HTTP/1.0 200 OK\r\n")
    assert answer.endswith(b"\r\n\r\nx")


async def test_connection_close_ends_after_the_answer(wire: Wire) -> None:
    wire.send(b"GET /ping HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n" + GET)
    answer = await wire.read_all()
    assert answer.count(b"HTTP/1.1 200 OK") == 1
    assert b"\r\nConnection: close\r\n\r\nOK" in answer


async def test_expect_continue(wire: Wire) -> None:
    head, body = post("/echo", b"body", "Expect: 100-continue").split(b"\r\n\r\n")
    wire.send(head + b"\r\n\r\n")
    assert (await wire.read_response())[0] == "HTTP/1.1 100 Continue"
    wire.send(body)
    assert (await wire.read_response())[2] == b"body"


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"  V2IDENTIFY\n\0\0\0\2{}", "400 Bad Request"),
        (b"  V2\r\n\r\n", "400 Bad Request"),
        (b"HELLO\r\n\r\n", "400 Bad Request"),
        (b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: abc\r\n\r\n", "400 Bad Request"),
        (b"GET /ping HTTP/1.1\r\n\r\n", "400 Bad Request: missing required Host header"),
        (b"GET / HTTP/1.1\r\nA: " + b"x" * 70_000, "431 Request Header Fields Too Large"),
    ],
)
async def test_no_request(wire: Wire, sent: bytes, status: str) -> None:
    wire.send(sent)
    assert (await wire.read_all()).decode() == (
        f"HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\n"
        f"Connection: close\r\n\r\n{status}"
    )


async def test_four_bytes_of_another_protocol_get_no_answer_yet(wire: Wire) -> None:
    wire.send(b"  V2")
    assert await wire.is_silent()


@pytest.mark.parametrize(
    "sent",
    [
        b"POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 1001\r\n\r\n",
        b"POST /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3e9\r\n" + b"x" * 901,
    ],
)
async def test_a_large_body_is_refused_before_it_comes(wire: Wire, sent: bytes) -> None:
    wire.send(sent + b"x" * 100)
    answer = await wire.read_all()
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert answer.endswith(b"\r\nConnection: close\r\n\r\ntoo big")


async def test_a_body_of_the_limit_passes(wire: Wire) -> None:
    wire.send(post("/echo", b"x" * 1000))
    assert (await wire.read_response())[2] == b"x" * 1000


async def test_bad_chunks_and_a_cut_body_are_errors(router: Router, serve: Serve) -> None:
    connect = await serve(router)
    chunked = b"POST /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n"
    for sent in (chunked, post("/echo", b"abc")[:-1]):
        wire = await connect()
        wire.send(sent)
        wire.half_close()
        assert (await wire.read_all()).startswith(b"HTTP/1.1 500 ")


async def test_a_half_closed_client_gets_its_answer(router: Router, serve: Serve) -> None:
    connect = await serve(router)
    wire = await connect()
    wire.send(GET)
    wire.half_close()
    assert (await wire.read_all()).endswith(b"OK")
    wire = await connect()
    wire.send(b"GET /ping")
    wire.half_close()
    assert (await wire.read_all()).startswith(b"HTTP/1.1 400 ")


async def test_a_crash_is_logged_and_answered(wire: Wire, caplog: pytest.LogCaptureFixture) -> None:
    wire.send(b"GET /crash HTTP/1.1\r\nHost: h\r\n\r\n" + GET)
    assert (await wire.read_response())[0] == "HTTP/1.1 500 Internal Server Error"
    assert (await wire.read_response())[2] == b"OK"
    assert "KeyError: '/crash'" in caplog.text


async def test_access_log(wire: Wire, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "penstock.net.http.server.service")
    for sent in (b"GET /nope?a=b HTTP/1.1\r\nHost: h\r\n\r\n", post("/quiet", b""), GET):
        wire.send(sent)
        await wire.read_response()
    lines = [each for each in caplog.messages if "listening" not in each]
    assert len(lines) == 2
    assert lines[0].startswith("404 GET /nope?a=b (127.0.0.1:")
    assert lines[1].startswith("200 GET /ping (127.0.0.1:")
    assert lines[1].endswith("s")


class Owed:
    """Handlers whose answers come when a test says so."""

    def __init__(self, router: Router) -> None:
        self.laters: list[DeferredResponse] = []
        self.futures: list[asyncio.Future[Response]] = []
        router.add("GET", "/later", self._later)
        router.add("GET", "/future", self._future)
        router.add("GET", "/coroutine", self._coroutine)
        router.add("GET", "/now", lambda request: text("now"))

    def _later(self, request: Request) -> DeferredResponse:
        self.laters.append(DeferredResponse())
        return self.laters[-1]

    def _future(self, request: Request) -> asyncio.Future[Response]:
        self.futures.append(asyncio.get_running_loop().create_future())
        return self.futures[-1]

    async def _coroutine(self, request: Request) -> Response:
        await asyncio.sleep(0)
        if request.query == b"fail":
            raise KeyError("coroutine")
        return text("coroutine")


@pytest.fixture
def owed(router: Router) -> Owed:
    return Owed(router)


def ask(*paths: str) -> bytes:
    return b"".join(f"GET /{path} HTTP/1.1\r\nHost: h\r\n\r\n".encode() for path in paths)


async def test_answers_keep_the_order_of_requests(owed: Owed, wire: Wire) -> None:
    wire.send(ask("now", "later", "now", "coroutine", "later", "future", "now"))
    assert (await wire.read_response())[2] == b"now"
    assert await wire.is_silent()
    owed.laters[1].complete(text("second"))
    owed.futures[0].set_result(text("future"))
    assert await wire.is_silent()
    owed.laters[0].complete(text("first"))
    bodies = [(await wire.read_response())[2] for _ in range(6)]
    assert bodies == [b"first", b"now", b"coroutine", b"second", b"future", b"now"]


async def test_what_is_ready_at_once_goes_at_once(serve: Serve) -> None:
    router = Router()

    def ready(request: Request) -> DeferredResponse:
        later = DeferredResponse()
        later.complete(text("ready"))
        return later

    def done(request: Request) -> asyncio.Future[Response]:
        future: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
        future.set_result(text("done"))
        return future

    router.add("GET", "/ready", ready)
    router.add("GET", "/done", done)
    wire = await (await serve(router))()
    wire.send(ask("ready", "done", "ready"))
    assert [(await wire.read_response())[2] for _ in range(3)] == [b"ready", b"done", b"ready"]


async def test_owed_answers_that_fail(
    router: Router, owed: Owed, wire: Wire, caplog: pytest.LogCaptureFixture
) -> None:
    router.add("GET", "/nonsense", lambda request: 5)  # type: ignore[arg-type,return-value]
    wire.send(ask("coroutine?fail", "future", "future", "nonsense"))
    await until(lambda: len(owed.futures) == 2)
    owed.futures[0].set_exception(ValueError("future"))
    owed.futures[1].cancel()
    for _ in range(4):
        assert (await wire.read_response())[0] == "HTTP/1.1 500 Internal Server Error"
    assert "KeyError: 'coroutine'" in caplog.text


async def test_a_client_that_leaves_is_forgotten(owed: Owed, wire: Wire) -> None:
    wire.send(ask("later"))
    await until(lambda: bool(owed.laters))
    wire.close()
    await asyncio.sleep(0.02)
    owed.laters[0].complete(text("nobody reads this"))


async def test_reading_pauses_while_many_answers_are_owed(owed: Owed, wire: Wire) -> None:
    count = 3 * MAX_PIPELINED
    wire.send(ask(*["later"] * count))
    await until(lambda: len(owed.laters) >= MAX_PIPELINED)
    await asyncio.sleep(0.02)
    assert len(owed.laters) == MAX_PIPELINED
    done = 0
    while done < count:
        for later in owed.laters[done:]:
            later.complete(text(str(done)))
            done += 1
        await asyncio.sleep(0.001)
    bodies = [(await wire.read_response())[2] for _ in range(count)]
    assert bodies == [str(number).encode() for number in range(count)]


async def test_a_refusal_waits_for_what_is_owed(owed: Owed, wire: Wire) -> None:
    wire.send(ask("later") + b"garbage\n" + ask("now"))
    await until(lambda: bool(owed.laters))
    assert await wire.is_silent()
    owed.laters[0].complete(text("late"))
    assert (await wire.read_response())[2] == b"late"
    assert (await wire.read_all()).endswith(b"\r\n\r\n400 Bad Request")


@pytest.mark.parametrize("sent", [b"GE", GET[:-1], post("/echo", b"abc")[:-1], b"  V2"])
async def test_a_stalled_request_is_given_up(
    wire: Wire, monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    monkeypatch.setattr(http_connection, "STALL_S", 0.05)
    wire.send(GET)
    assert (await wire.read_response())[2] == b"OK"
    wire.send(sent)
    assert (await wire.read_all()).startswith(b"HTTP/1.1 408 Request Timeout\r\n")


async def test_who_is_idle_or_goes_on_is_not_given_up(
    router: Router, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time is over after each byte here, however long that took."""
    begun: list[http_connection.Connection] = []
    begin = http_connection.Connection.connection_made

    def noted(connection: http_connection.Connection, transport: asyncio.BaseTransport) -> None:
        begun.append(connection)
        begin(connection, transport)

    monkeypatch.setattr(http_connection.Connection, "connection_made", noted)
    monkeypatch.setattr(http_connection, "STALL_S", 3600.0)
    monkeypatch.setattr(http_connection, "STALL_BYTES", 1)
    wire = await (await serve(router))()
    data = post("/echo", b"slow but sure")
    head = data.index(b"\r\n\r\n") + 4
    wire.send(GET + data[:head])
    assert (await wire.read_response())[2] == b"OK"
    (connection,) = begun
    reader = connection.reader

    def look() -> None:
        timer = connection._timer
        assert timer is not None
        seen = timer._args
        timer.cancel()
        connection._look_again(*seen)

    for size, byte in enumerate(data[head:-1], 1):
        wire.send(bytes([byte]))
        await until(lambda: reader.size == size)  # noqa: B023  # it is called within the turn
        look()
    wire.send(data[-1:])
    assert (await wire.read_response())[2] == b"slow but sure"
    wire.send(GET[:5])
    await until(lambda: reader.unfinished)
    look()
    wire.send(GET[5:])
    assert (await wire.read_response())[2] == b"OK"
    look()
    assert await wire.is_silent()


@pytest.mark.parametrize("sent", [ask("later"), b"GET /later HTTP/1.0\r\n\r\n"])
async def test_a_half_closed_client_gets_what_is_owed(owed: Owed, wire: Wire, sent: bytes) -> None:
    wire.send(sent)
    wire.half_close()
    await until(lambda: bool(owed.laters))
    await asyncio.sleep(0.01)
    owed.laters[0].complete(text("late"))
    assert (await wire.read_all()).endswith(b"late")


async def test_a_slow_reader_stops_the_reading(serve: Serve) -> None:
    answered = 0

    def big(request: Request) -> Response:
        nonlocal answered
        answered += 1
        return Response(200, b"x" * 1_000_000)

    router = Router()
    router.add("GET", "/big", big)
    wire = await (await serve(router))()
    wire.send(ask(*["big"] * 50))
    await asyncio.sleep(0.1)
    assert answered < 50
    for _ in range(50):
        assert len((await wire.read_response())[2]) == 1_000_000
    assert answered == 50


@pytest.mark.parametrize("half", [True, False])
async def test_whoever_still_works_on_an_answer_hears_that_the_client_is_gone(
    router: Router, serve: Serve, half: bool
) -> None:
    later = DeferredResponse()
    gone = asyncio.Event()
    later.abandoned = gone.set
    router.add("GET", "/long", lambda request: later)
    wire = await (await serve(router))()
    wire.send(b"GET /long HTTP/1.1\r\nHost: h\r\n\r\n")
    assert await wire.is_silent()
    assert not gone.is_set()
    if half:
        wire.half_close()
    else:
        wire.close()
    await asyncio.wait_for(gone.wait(), 30)
    later.complete(text("so far"))
    if half:
        assert (await wire.read_response())[2] == b"so far"


async def test_a_route_hears_of_a_request_before_its_body_and_behind_those_before_it(
    serve: Serve,
) -> None:
    told: list[str] = []

    def begin(request: Request) -> str:
        told.append(f"{request.path} begins")
        return "begun"

    def end(request: Request) -> Response:
        told.append(f"{request.path} is {request.begun}")
        return Response(200, request.body)

    first = DeferredResponse()
    router = Router()
    router.add("POST", "/slow", lambda request: first)
    router.add("POST", "/told", end, begin=begin)
    wire = await (await serve(router))()
    whole = post("/told", b"123")
    wire.send(whole)
    assert (await wire.read_response())[2] == b"123"
    wire.send(whole[:-2])
    await until(lambda: len(told) == 2)
    wire.send(whole[-2:-1])
    wire.send(whole[-1:])
    assert (await wire.read_response())[2] == b"123"
    assert told == ["/told is None", "/told begins", "/told is begun"]
    wire.send(post("/slow", b"") + whole[:-2])
    assert await wire.is_silent()
    assert len(told) == 3
    first.complete(Response(200, b"slow"))
    assert (await wire.read_response())[2] == b"slow"
    wire.send(whole[-2:-1])
    await until(lambda: len(told) == 4)
    wire.send(whole[-1:])
    assert (await wire.read_response())[2] == b"123"
    assert told[3:] == ["/told begins", "/told is begun"]


# --- The cases of `net/http/server/test_guard.py` that need a port or a process ------------------


async def test_a_body_of_another_site_is_not_read_and_the_connection_ends() -> None:
    taken: list[bytes] = []

    def take(request: Request) -> Response:
        taken.append(request.body)
        return text("taken")

    router = Router()
    router.add("POST", "/x", take)
    listener = await tcp.listen(HttpServer(router), "127.0.0.1:0", "HTTP")
    try:
        for origin, status in (("h", b"200"), ("e", b"403"), ("h", b"200"), ("e", b"403")):
            reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
            lines = ("POST /x HTTP/1.1", "Host: h", f"Origin: http://{origin}", "Content-Length: 3")
            writer.write("\r\n".join([*lines, "", "abc"]).encode())
            answer = await reader.readuntil(b"\r\n\r\n")
            assert answer.startswith(b"HTTP/1.1 " + status), answer
            assert (b"Connection: close" in answer) is (status == b"403")
            writer.close()
    finally:
        await listener.close()
    assert taken == [b"abc", b"abc"]
