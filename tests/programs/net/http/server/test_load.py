"""HTTP over real connections while bodies or answers use up their budget."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator

import pytest

from penstock.core.settings.web_options import WebOptions
from penstock.net import tcp
from penstock.net.budget import SMALL, Memory
from penstock.net.http.server import load as http_load
from penstock.net.http.server.service import HttpServer, Later, Request, Response, Router, Stream
from tests.programs.net.conftest import Wire, until

BIG = 16 << 20
"""The limit of both budgets, which is more than the buffers of sockets hold."""
OPTIONS = WebOptions(max_request_memory=BIG, max_answer_memory=BIG)


class Served:
    """A server, and a test's connections to it."""

    def __init__(self) -> None:
        self.memory = Memory.of(OPTIONS)
        self.later = Later()
        router = Router()
        router.add("GET", "/big", lambda request: Response(200, bytes(BIG)))
        router.add("GET", "/small", lambda request: Response(200, bytes(SMALL)))
        router.add("GET", "/later", lambda request: self.later)
        router.add("GET", "/stream", lambda request: Stream("text/plain", closed=lambda: None))
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
