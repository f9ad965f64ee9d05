"""Single requests over HTTP, and the link that carries them."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager

import pytest

from penstock.net import tcp
from penstock.net.http.client import once as http_client
from penstock.net.http.client.answer import AnswerReader
from penstock.net.http.client.link import HttpLink, Origin, open_link
from penstock.net.http.client.once import HttpError, get, post
from tools.harness.ports import unused_address

Script = Callable[[bytes], Awaitable[str]]


class Scripted(asyncio.Protocol):
    """Answers the first bytes of every connection with `answer`, then ends it if told to."""

    answer = b""
    ends = False
    seen = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        Scripted.seen = data
        self.transport.write(self.answer)
        if self.ends:
            self.transport.close()


@contextmanager
def closing_all() -> Iterator[list[socket.socket]]:
    sockets: list[socket.socket] = []
    yield sockets
    for each in sockets:
        each.close()


@pytest.fixture
async def script(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Callable[..., str]]:
    """Sets what the server answers and returns its address."""
    listener = await tcp.listen(Scripted, "127.0.0.1:0")

    def answering(answer: bytes, *, ends: bool = False) -> str:
        monkeypatch.setattr(Scripted, "answer", answer)
        monkeypatch.setattr(Scripted, "ends", ends)
        return f"http://127.0.0.1:{listener.port}"

    yield answering
    await listener.close()
    await asyncio.sleep(0.01)


async def test_get(script: Callable[..., str]) -> None:
    url = script(b"HTTP/1.1 404 Not Found\r\nX-A: b\r\nContent-Length: 2\r\n\r\nno")
    status, headers, body = await get(f"{url}/lookup?topic=a%20b", 30, headers={"X-C": "d"})
    assert (status, headers["x-a"], body) == (404, "b", b"no")
    lines = Scripted.seen.split(b"\r\n")
    assert lines[0] == b"GET /lookup?topic=a%20b HTTP/1.1"
    assert lines[1] == b"Host: " + url.removeprefix("http://").encode()
    assert b"X-C: d" in lines


async def test_post(script: Callable[..., str]) -> None:
    url = script(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nOK\r\n0\r\n\r\n")
    assert (await post(url, 30, b"body")).body == b"OK"
    assert Scripted.seen.startswith(b"POST / HTTP/1.1\r\n")
    assert Scripted.seen.endswith(b"\r\nContent-Length: 4\r\n\r\nbody")


async def test_a_body_up_to_the_connections_end(script: Callable[..., str]) -> None:
    url = script(b"HTTP/1.0 200 OK\r\n\r\nall of it", ends=True)
    assert (await get(url, 30)).body == b"all of it"


async def test_continue_and_head(script: Callable[..., str]) -> None:
    url = script(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx")
    assert (await get(url, 30)).body == b"x"
    url = script(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n")
    assert (await http_client.request("HEAD", url, 30)).status == 200


@pytest.mark.parametrize(
    ("answer", "ends", "reason"),
    [
        (b"", False, "timed out"),
        (b"", True, "the connection ended before the answer did"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx", True, "the connection ended before"),
        (b"nonsense\r\n\r\n", False, "does not speak HTTP"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n" + b"x" * 99, False, "longer than 50"),
    ],
)
async def test_no_answer(
    script: Callable[..., str], answer: bytes, ends: bool, reason: str
) -> None:
    url = script(answer, ends=ends)
    with pytest.raises(HttpError) as caught:
        await get(url, 0.2 if reason == "timed out" else 30, max_body=50)
    assert str(caught.value).startswith(f"GET {url}: ")
    assert reason in str(caught.value)


async def test_nobody_there() -> None:
    with pytest.raises(HttpError, match=r"^GET http://127\.0\.0\.1:\d+: "):
        await get(f"http://{unused_address()}", 30)


@pytest.mark.parametrize(
    "url", ["ftp://h/", "h:1", "http://", "http://[::1", "http://h:99999/", "http://h:x/"]
)
async def test_no_http_address(url: str) -> None:
    with pytest.raises(HttpError, match="not an http address"):
        await get(url, 30)


async def test_no_line_ends_into_the_head(script: Callable[..., str]) -> None:
    with pytest.raises(HttpError, match="control character"):
        await get(script(b""), 30, headers={"A": "b\r\nC: d"})


async def test_the_reason_leaves_the_url_out(script: Callable[..., str]) -> None:
    url = script(b"", ends=True)
    with pytest.raises(HttpError) as caught:
        await get(f"{url}/?secret=s3cret", 30)
    assert caught.value.reason == "the connection ended before the answer did"


async def test_user_and_password_of_the_url(script: Callable[..., str]) -> None:
    url = script(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
    assert (await get(url.replace("//", "//us%20er:p%40ss@"), 30)).status == 200
    assert b"\r\nAuthorization: Basic dXMgZXI6cEBzcw==\r\n" in Scripted.seen
    assert b"\r\nHost: " + url.removeprefix("http://").encode() + b"\r\n" in Scripted.seen


async def test_a_head_without_end_is_cut_off(script: Callable[..., str]) -> None:
    url = script(b"HTTP/1.1 200 OK\r\nX: " + b"x" * (1 << 20))
    with pytest.raises(HttpError, match="longer than 1000 bytes"):
        await get(url, 30, max_body=1000)


async def test_connecting_has_a_limit_of_its_own() -> None:
    full = socket.socket()
    full.bind(("127.0.0.1", 0))
    full.listen(0)  # room for one connection that nobody accepts
    address = full.getsockname()
    with full, socket.create_connection(address), closing_all() as others:
        for _ in range(8):
            other = socket.socket()
            others.append(other)
            other.setblocking(False)
            other.connect_ex(address)
        with pytest.raises(HttpError, match="connecting timed out"):
            await http_client.request("GET", f"http://127.0.0.1:{address[1]}", 30,
                                      connect_timeout=0.05)  # fmt: skip


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


@pytest.mark.parametrize("answer", [b"", b"220 mail.example ESMTP\r\n"], ids=["reset", "nonsense"])
async def test_no_answer_of_http(pair: Pair, answer: bytes) -> None:
    async with asyncio.TaskGroup() as group:
        asked = group.create_task(_failure(pair.link.ask(b"x", reader())))
        await pair.peer.got.get()
        if answer:
            pair.peer.transport.write(answer)
        else:
            pair.peer.transport.abort()
    assert isinstance(asked.result(), ValueError if answer else EOFError | ConnectionError)
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
