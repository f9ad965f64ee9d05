"""A protocol behind TLS: here our HTTP server, with the standard library's clients."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from penstock.net import tcp
from penstock.net.http.client.once import HttpError, request
from penstock.net.http.server import connection as http_connection
from penstock.net.http.server.service import HttpServer, Request, Response, Router, text
from penstock.net.tcp import Listener
from penstock.net.tls import layered
from penstock.net.tls.tls_layer import ClientAuth, ServerTls
from penstock.net.tls.tls_server import over_tls
from tests.unit.net.certificates import Certificates

log = logging.getLogger("penstock.test.https")
SIZE = 3 << 20


def echo(request: Request) -> Response:
    return text(f"{len(request.body)} bytes of {request.remote}")


@pytest.fixture
async def listener(files: Certificates) -> AsyncIterator[Listener]:
    server = HttpServer(router(), log=log)
    opened = await tcp.listen(
        over_tls(ServerTls(files.cert, files.key), server, log), "127.0.0.1:0"
    )
    yield opened
    server.close_connections()
    await opened.close()


def router() -> Router:
    routes = Router()
    routes.add("POST", "/echo", echo, max_body=SIZE)
    routes.add("GET", "/large", lambda request: text("x" * SIZE))
    return routes


def url(listener: Listener, path: str) -> str:
    return f"https://localhost:{listener.port}{path}"


async def test_requests_with_long_bodies_and_answers(
    listener: Listener, files: Certificates
) -> None:
    tls = files.context()
    answer = await request("POST", url(listener, "/echo"), 30, body=bytes(SIZE), tls=tls)
    assert answer.body.startswith(b"%d bytes of 127.0.0.1:" % SIZE)
    answer = await request("GET", url(listener, "/large"), 30, tls=tls)
    assert len(answer.body) == SIZE


async def test_a_refused_request_is_answered_although_its_body_still_comes(
    listener: Listener, files: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_connection, "LINGER_S", 120.0)
    answer = await request(
        "POST", url(listener, "/echo"), 30, body=bytes(2 * SIZE), tls=files.context()
    )
    assert answer.status == 413


async def test_many_requests_on_one_connection(listener: Listener, files: Certificates) -> None:
    reader, writer = await asyncio.open_connection("localhost", listener.port, ssl=files.context())
    one = b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi"
    last = one.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
    writer.write(one * 99 + last)
    async with asyncio.timeout(30):
        found = await reader.read()
    assert found.count(b"HTTP/1.1 200 OK") == 100
    writer.close()


async def test_plain_http_is_told_so(listener: Listener, caplog: pytest.LogCaptureFixture) -> None:
    reader, writer = await asyncio.open_connection("localhost", listener.port)
    writer.write(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n")
    async with asyncio.timeout(30):
        answer = await reader.read()
    assert answer == (
        b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n"
    )
    assert "client sent an HTTP request to an HTTPS server" in caplog.text
    writer.close()


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (b"NONSENSE", "tls: first record does not look like a TLS handshake"),
        (b"", "EOF"),
        (b"\x16\x03\x01", "unexpected EOF"),
    ],
)
async def test_a_failed_handshake_is_one_line(
    listener: Listener, caplog: pytest.LogCaptureFixture, sent: bytes, reason: str
) -> None:
    reader, writer = await asyncio.open_connection("localhost", listener.port)
    own = writer.get_extra_info("sockname")[1]
    writer.write(sent)
    writer.write_eof()
    async with asyncio.timeout(30):
        assert await reader.read() == b""
    line = f"http: TLS handshake error from 127.0.0.1:{own}: {reason}"
    assert [record.getMessage() for record in caplog.records if record.name == log.name] == [line]
    writer.close()


async def test_silence_is_the_end(
    listener: Listener, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layered, "HANDSHAKE_S", 0.05)
    reader, writer = await asyncio.open_connection("localhost", listener.port)
    async with asyncio.timeout(30):
        assert await reader.read() == b""
    assert "i/o timeout" in caplog.text
    writer.close()


async def test_a_client_certificate_can_be_required(files: Certificates, tmp_path: Path) -> None:
    tls = ServerTls(files.cert, files.key, ca_file=files.ca, client_auth=ClientAuth.VERIFIED)
    opened = await tcp.listen(over_tls(tls, HttpServer(router()), log), "127.0.0.1:0")
    for name, welcome in (("known", True), ("unknown", False), ("", False)):
        asked = request("GET", url(opened, "/large"), 30, tls=files.context(name))
        if welcome:
            assert (await asked).status == 200
        else:
            with pytest.raises(HttpError):
                await asked
    await opened.close()


async def test_garbage_after_the_handshake_ends_it(
    listener: Listener, files: Certificates, caplog: pytest.LogCaptureFixture
) -> None:
    reader, writer = await asyncio.open_connection("localhost", listener.port)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = files.context().wrap_bio(incoming, outgoing, server_hostname="localhost")
    async with asyncio.timeout(30):
        while True:
            try:
                client.do_handshake()
            except ssl.SSLWantReadError:
                writer.write(outgoing.read())
                incoming.write(await reader.read(1 << 16))
            else:
                break
        writer.write(outgoing.read() + b"\x17\x03\x03\x00\x20" + bytes(32))
        await reader.read()
    assert "bad record MAC" in caplog.text
    writer.close()
