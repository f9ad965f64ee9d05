"""A server on a free port for raw bytes to be sent to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from penstock.net import tcp
from penstock.net.http.client import link
from penstock.net.http.server.service import HttpServer, Router
from penstock.net.tls import layered
from tests.unit.net.certificates import Certificates

TIMEOUT_S = 120.0


@pytest.fixture(autouse=True)
def _slow_handshakes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Handshakes may take long on a busy machine; tests of their limit set it themselves."""
    monkeypatch.setattr(layered, "HANDSHAKE_S", TIMEOUT_S)
    monkeypatch.setattr(link, "TLS_HANDSHAKE_S", TIMEOUT_S)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


async def until(condition: Callable[[], bool]) -> None:
    """Returns as soon as `condition` holds."""
    for _ in range(30_000):
        if condition():
            return
        await asyncio.sleep(0.001)
    raise AssertionError("it never came true")


class Wire:
    """A client connection that shows every byte."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    def send(self, data: bytes) -> None:
        self._writer.write(data)

    def half_close(self) -> None:
        self._writer.write_eof()

    async def read_all(self) -> bytes:
        """What comes until the server ends the connection."""
        return await asyncio.wait_for(self._reader.read(), TIMEOUT_S)

    async def read_response(self, *, has_body: bool = True) -> tuple[str, dict[str, str], bytes]:
        """One response: its status line, its headers in lower case, its body."""
        raw = await asyncio.wait_for(self._reader.readuntil(b"\r\n\r\n"), TIMEOUT_S)
        line, *lines = raw.decode("latin-1").split("\r\n")[:-2]
        headers = {name.lower(): value for name, value in (each.split(": ", 1) for each in lines)}
        length = int(headers.get("content-length", "0")) if has_body else 0
        return line, headers, await self._reader.readexactly(length)

    async def is_silent(self, seconds: float = 0.05) -> bool:
        try:
            await asyncio.wait_for(self._reader.read(1), seconds)
        except TimeoutError:
            return True
        return False

    def close(self) -> None:
        self._writer.close()


Connect = Callable[[], Awaitable[Wire]]
Serve = Callable[[Router], Awaitable[Connect]]


@asynccontextmanager
async def _serving() -> AsyncIterator[Serve]:
    opened: list[tuple[tcp.Listener, HttpServer]] = []
    wires: list[Wire] = []

    async def serve(router: Router) -> Connect:
        server = HttpServer(router)
        listener = await tcp.listen(server, "127.0.0.1:0", "HTTP")
        opened.append((listener, server))

        async def connect() -> Wire:
            wire = Wire(*await asyncio.open_connection("127.0.0.1", listener.port))
            wires.append(wire)
            return wire

        return connect

    try:
        yield serve
    finally:
        for wire in wires:
            wire.close()
        for listener, server in opened:
            server.close_connections()
            await listener.close()
        await asyncio.sleep(0.01)  # let the transports close before the loop does


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    """Starts a server for a router; what it returns opens connections to it."""
    async with _serving() as started:
        yield started
