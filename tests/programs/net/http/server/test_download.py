from __future__ import annotations

from collections.abc import AsyncGenerator, Callable

import pytest

from penstock.core.errors import PenstockError
from penstock.net.http.server import download as http_download
from penstock.net.http.server.service import Download, Request, Response, Router
from tests.programs.net.conftest import Serve, until

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
