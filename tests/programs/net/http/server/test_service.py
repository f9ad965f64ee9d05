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
