from __future__ import annotations

import pytest

from penstock.net.http.server import endless as http_stream
from penstock.net.http.server.service import Later, Request, Response, Router, Stream, text
from tests.programs.net.conftest import Serve, until

GET = b"GET /stream HTTP/1.1\r\nHost: h\r\n\r\n"


class Streams:
    """The streams that were asked for, and how many of them were closed."""

    def __init__(self) -> None:
        self.open: list[Stream] = []
        self.closed = 0
        self.router = Router()
        self.router.add("GET", "/stream", self.begin)
        self.router.add("GET", "/ping", lambda request: text("OK"))

    def begin(self, request: Request) -> Response:
        stream = Stream("text/event-stream", (("X-A", "b"),), closed=self._count)
        stream.send(b"first\n")
        self.open.append(stream)
        return stream

    def _count(self) -> None:
        self.closed += 1


@pytest.fixture
def streams() -> Streams:
    return Streams()


async def test_what_is_sent_comes(streams: Streams, serve: Serve) -> None:
    wire = await (await serve(streams.router))()
    wire.send(GET)
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


async def test_after_other_answers_and_before_none(streams: Streams, serve: Serve) -> None:
    ping = b"GET /ping HTTP/1.1\r\nHost: h\r\n\r\n"
    wire = await (await serve(streams.router))()
    wire.send(ping + GET + ping)
    await until(lambda: bool(streams.open))
    wire.half_close()
    raw = await wire.read_all()
    assert raw.count(b"HTTP/1.1 200 OK") == 2
    assert raw.endswith(b"first\n")


async def test_a_client_that_goes_before_its_turn(streams: Streams, serve: Serve) -> None:
    """An answer before it is still to come."""
    late = Later()
    streams.router.add("GET", "/late", lambda request: late)
    wire = await (await serve(streams.router))()
    wire.send(b"GET /late HTTP/1.1\r\nHost: h\r\n\r\n" + GET)
    await until(lambda: bool(streams.open))
    wire.close()
    late.complete(text("late"))
    await until(lambda: streams.closed == 1)


async def test_a_stream_behind_another_is_nobodys(streams: Streams, serve: Serve) -> None:
    """Of a client that asks for both while an answer before them is still to come."""
    late = Later()
    streams.router.add("GET", "/late", lambda request: late)
    wire = await (await serve(streams.router))()
    wire.send(b"GET /late HTTP/1.1\r\nHost: h\r\n\r\n" + GET + GET)
    await until(lambda: len(streams.open) == 2)
    late.complete(text("late"))
    await until(lambda: streams.closed == 1)
    wire.close()
    await until(lambda: streams.closed == 2)


async def test_a_client_that_does_not_read(
    streams: Streams, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_stream, "BEHIND_MAX", 1000)
    wire = await (await serve(streams.router))()
    wire.send(GET)
    await until(lambda: bool(streams.open))
    for _ in range(200):
        streams.open[0].send(b"x" * 100_000)
    await until(lambda: streams.closed == 1)
