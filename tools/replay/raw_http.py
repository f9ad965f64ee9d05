"""The plainest HTTP client: sends given bytes, shows what came back before any interpretation."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import suppress
from dataclasses import dataclass, field

ANSWER_S_MAX = 30.0
SILENCE_S = 0.4

Where = int | str | tuple[str, int]
"""A port of 127.0.0.1, the path of a unix socket, or host and port."""


@dataclass
class Answer:
    """The first response of a connection; `rest` is every byte behind its head."""

    status_line: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    rest: bytes = b""

    @property
    def status(self) -> int | None:
        """The status code, None when nothing was answered."""
        words = self.status_line.split(" ", 2)
        return int(words[1]) if len(words) > 1 else None

    @property
    def body(self) -> bytes:
        """The body, joined when it was chunked."""
        if "chunked" in self.headers.get("transfer-encoding", ""):
            return _dechunk(self.rest)
        return self.rest


async def exchange(
    where: Where, request: bytes, *, waits: bool = False, tls: ssl.SSLContext | None = None
) -> Answer:
    """Send these bytes on a connection of their own and read until the server closes it.

    `waits`: nothing is expected; stop after some silence instead. Raises ssl.SSLError where TLS is
    refused.
    """
    if isinstance(where, str):
        reader, writer = await asyncio.open_unix_connection(where)
    else:
        host, port = ("127.0.0.1", where) if isinstance(where, int) else where
        name = "localhost" if tls else None
        reader, writer = await asyncio.open_connection(host, port, ssl=tls, server_hostname=name)
    data = bytearray()
    try:
        sending = asyncio.create_task(_send(writer, request))
        with suppress(TimeoutError, ConnectionError):
            async with asyncio.timeout(SILENCE_S if waits else ANSWER_S_MAX):
                while block := await reader.read(1 << 16):
                    data += block
        sending.cancel()
    finally:
        writer.close()
    return parse(bytes(data))


async def _send(writer: asyncio.StreamWriter, data: bytes) -> None:
    """An early answer to an oversized body may reset the connection while we still send."""
    with suppress(ConnectionError):
        writer.write(data)
        await writer.drain()


def parse(data: bytes) -> Answer:
    """Split one response off the bytes of a connection. Header names become lower case."""
    head, _, rest = data.partition(b"\r\n\r\n")
    lines = head.decode("latin-1").split("\r\n")
    pairs = (line.partition(":") for line in lines[1:])
    headers = {name.lower(): value.strip() for name, _, value in pairs}
    return Answer(lines[0], headers, rest)


def request(method: str, path: str, body: bytes | None, headers: dict[str, str | None]) -> bytes:
    """One request which asks for the connection to be closed; a header of None is left out."""
    all_headers: dict[str, str | None] = {"Host": "127.0.0.1", "Connection": "close"}
    if body is not None or method in ("POST", "PUT"):
        all_headers["Content-Length"] = str(len(body or b""))
    all_headers |= headers
    lines = [f"{method} {path} HTTP/1.1"]
    lines += [f"{name}: {value}" for name, value in all_headers.items() if value is not None]
    return ("\r\n".join(lines) + "\r\n\r\n").encode() + (body or b"")


async def call(
    where: Where,
    method: str,
    path: str,
    body: bytes | None = None,
    *,
    tls: ssl.SSLContext | None = None,
) -> Answer:
    """One ordinary request."""
    return await exchange(where, request(method, path, body, {}), tls=tls)


def _dechunk(data: bytes) -> bytes:
    body = bytearray()
    while data:
        size_text, _, data = data.partition(b"\r\n")
        size = int(size_text.split(b";")[0] or b"0", 16)
        if size == 0:
            break
        body += data[:size]
        data = data[size + 2 :]
    return bytes(body)
