from __future__ import annotations

import asyncio
import shutil
import ssl
import subprocess
from collections.abc import Awaitable
from pathlib import Path

import pytest

from penstock.net import tcp
from penstock.net.http.client import once as http_client
from penstock.net.http.server import service as http
from penstock.net.http.server.service import HttpServer, Later, Request, Response, Router, text

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
    router, owed, second, others = pinging(), Later(), Later(), [Later(), Later()]
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


def test_a_handler_may_be_any_of_these() -> None:
    handlers: list[http.Handler] = [lambda r: Response(), lambda r: Later(), _async_handler]
    assert len(handlers) == 3


def _async_handler(request: Request) -> Awaitable[Response]:
    raise NotImplementedError


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A fresh certificate for localhost and its key."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("needs openssl to make a certificate")
    folder = tmp_path_factory.mktemp("tls")
    cert, key = folder / "cert.pem", folder / "key.pem"
    command = [openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    command += ["-nodes", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    command += ["-keyout", str(key), "-out", str(cert)]
    subprocess.run(command, check=True, capture_output=True)
    return cert, key


async def test_https(certificate: tuple[Path, Path]) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    trusting = ssl.create_default_context(cafile=str(certificate[0]))
    listener = await tcp.listen(HttpServer(pinging()), "127.0.0.1:0", "HTTPS", ssl=context)
    url = f"https://localhost:{listener.port}/ping"
    answer = await http_client.request("GET", url, 30, tls=trusting)
    assert (answer.status, answer.body) == (200, b"OK")
    with pytest.raises(http_client.HttpError, match="certificate"):
        await http_client.get(url, 30)
    await listener.close()
    await asyncio.sleep(0.05)
