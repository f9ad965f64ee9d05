"""A small HTTP/1.1 client for what daemons ask of each other: one request, one connection.

status, headers, body = await get("http://127.0.0.1:4161/lookup?topic=t", 5)
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from base64 import b64encode
from collections.abc import Callable
from typing import NamedTuple
from urllib.parse import SplitResult, unquote_to_bytes, urlsplit

import httptools

from penstock.core.errors import PenstockError
from penstock.core.reasons import reason
from penstock.net.address import join_host_port

DEFAULT_MAX_BODY = 64 << 20
_READ_SIZE = 64 * 1024
_HEAD_MAX = 64 * 1024
"""Bytes that an answer may take beyond twice its body: for the head, and chunks' sizes."""


class HttpError(PenstockError):
    """No usable answer came: no connection, a time-out, or bytes that are not HTTP.

    `reason` is that without the URL, which may hold secrets.
    """

    def __init__(self, method: str, url: str, reason: str) -> None:
        super().__init__(f"{method} {url}: {reason}")
        self.reason = reason


class Answer(NamedTuple):
    """An HTTP response; header names are in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes


async def get(
    url: str, seconds: float, *, headers: dict[str, str] | None = None, max_body: int | None = None
) -> Answer:
    """Fetches `url`; the whole exchange may take `seconds`. HttpError when that fails."""
    return await request("GET", url, seconds, headers=headers, max_body=max_body)


async def post(
    url: str, seconds: float, body: bytes = b"", *, headers: dict[str, str] | None = None
) -> Answer:
    """Posts `body` to `url`; otherwise like `get`."""
    return await request("POST", url, seconds, body=body, headers=headers)


async def request(
    method: str,
    url: str,
    seconds: float,
    *,
    body: bytes = b"",
    headers: dict[str, str] | None = None,
    connect_timeout: float | None = None,
    max_body: int | None = None,
    tls: ssl.SSLContext | None = None,
) -> Answer:
    """One exchange with `url` (http or https); times in seconds, `max_body` in bytes.

    A user and password in the URL are sent as basic authorization. HttpError names the URL and what
    went wrong; an answer of any status is returned.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        parts, host, port = SplitResult("", "", "", "", ""), None, None
    if parts.scheme not in ("http", "https") or not host:
        raise HttpError(method, url, "not an http address")
    tls = (tls or ssl.create_default_context()) if parts.scheme == "https" else None
    port = port or (443 if tls else 80)
    target = (parts.path or "/") + ("?" + parts.query if parts.query else "")
    own = {**_authorization(parts), **(headers or {})}
    limit = DEFAULT_MAX_BODY if max_body is None else max_body
    try:
        head = _head(method, target, join_host_port(host, port), own, len(body))
        async with asyncio.timeout(seconds) as whole:
            async with asyncio.timeout(connect_timeout):
                reader, writer = await asyncio.open_connection(host, port, ssl=tls)
            try:
                writer.write(head + body)
                return await _read(reader, _Collector(method, limit))
            finally:
                writer.close()
                with contextlib.suppress(OSError):
                    writer.transport.abort()
    except TimeoutError:
        late = "timed out" if whole.expired() else "connecting timed out"
        raise HttpError(method, url, late) from None
    except (OSError, ValueError, httptools.HttpParserError) as error:
        raise HttpError(method, url, reason(error)) from error


def _authorization(parts: SplitResult) -> dict[str, str]:
    if parts.username is None:
        return {}
    user = unquote_to_bytes(parts.username) + b":" + unquote_to_bytes(parts.password or "")
    return {"Authorization": f"Basic {b64encode(user).decode()}"}


def _head(method: str, target: str, host: str, headers: dict[str, str], length: int) -> bytes:
    fields = {"Host": host, "User-Agent": "penstock", "Connection": "close", **headers}
    if length or method in ("POST", "PUT"):
        fields["Content-Length"] = str(length)
    lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items())]
    if any("\r" in line or "\n" in line or not line.isprintable() for line in lines):
        raise ValueError("a line end or control character in the head")
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


async def _read(reader: asyncio.StreamReader, collector: _Collector) -> Answer:
    parser = httptools.HttpResponseParser(collector)
    collector.status_of = parser.get_status_code
    unread = 2 * collector.max_body + _HEAD_MAX
    while not collector.done:
        data = await reader.read(_READ_SIZE)
        if not data:
            break
        unread -= len(data)
        if unread < 0:  # a head without end, most likely: bodies are counted by the collector
            raise ValueError(f"the answer is longer than {collector.max_body} bytes")
        parser.feed_data(data)
    answer = collector.answer(at_end=True)
    if answer is None:
        raise ValueError("the connection ended before the answer did")
    return answer


class _Collector:
    """Gathers what the parser finds."""

    def __init__(self, method: str, max_body: int) -> None:
        self.done = False
        self.status_of: Callable[[], int] = int
        self._is_head = method == "HEAD"
        self.max_body = max_body
        self._status = 0
        self._headers: dict[str, str] = {}
        self._parts: list[bytes] = []
        self._size = 0

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        self._status = self.status_of()
        # A body that HEAD's answer announces never comes.
        self.done = self._is_head

    def on_body(self, body: bytes) -> None:
        self._size += len(body)
        # The parser would hide the reason of an exception raised here; `answer` raises instead.
        if self._size <= self.max_body:
            self._parts.append(body)
        else:
            self._parts.clear()
            self.done = True

    def on_message_complete(self) -> None:
        self.done = self._status >= 200
        if not self.done:  # 100 Continue: the answer proper follows
            self._headers.clear()

    def answer(self, *, at_end: bool) -> Answer | None:
        """The whole answer; without a length, the connection's end is the body's end.

        ValueError when it was longer than allowed.
        """
        if self._size > self.max_body:
            raise ValueError(f"the answer is longer than {self.max_body} bytes")
        framed = "content-length" in self._headers or "transfer-encoding" in self._headers
        if not self._status or (not self.done and (framed or not at_end)):
            return None
        return Answer(self._status, self._headers, b"".join(self._parts))
