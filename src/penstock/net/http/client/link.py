"""One connection of an HTTP client: a request, its answer, perhaps another request."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import NamedTuple, cast

from penstock.net.http.client.answer import AnswerReader

TLS_HANDSHAKE_S = 10.0


class Origin(NamedTuple):
    """Whom to connect to."""

    is_secure: bool
    host: str
    port: int


class HttpLink(asyncio.Protocol):
    """A connection for one exchange at a time; made by ``open_link``."""

    def __init__(self, lost: Callable[[HttpLink], None] | None = None) -> None:
        self._lost = lost
        self._transport: asyncio.Transport | None = None
        self._reader: AnswerReader | None = None
        self._waiter: asyncio.Future[None] | None = None

    @property
    def is_open(self) -> bool:
        """True unless it is known that it cannot take a request."""
        return self._transport is not None and not self._transport.is_closing()

    async def ask(self, request: bytes, reader: AnswerReader) -> None:
        """Send a request and wait until ``reader`` is done.

        EOFError or OSError when the connection ended before that, ValueError when something else
        than an answer came. Then, and when cancelled, the connection is closed.
        """
        if self._transport is None or self._transport.is_closing():
            raise EOFError
        self._reader = reader
        self._waiter = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        try:
            await self._waiter
        finally:
            self._reader = self._waiter = None
            if not reader.reusable:
                self.abort()

    def send(self, data: bytes) -> None:
        """Send more of a request whose answer has begun; without effect on a closed connection."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def abort(self) -> None:
        """Close it at once."""
        if self._transport is not None:
            self._transport.abort()

    def secured(self, transport: asyncio.Transport) -> None:
        """From now on it goes through this transport."""
        self._transport = transport

    # asyncio's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if self._reader is None or self._waiter is None or self._waiter.done():
            self.abort()  # nobody asked for this
            return
        try:
            if self._reader.feed(data):
                self._waiter.set_result(None)
        except ValueError as error:
            self._waiter.set_exception(error)

    def connection_lost(self, error: Exception | None) -> None:
        if self._waiter is not None and not self._waiter.done():
            # RFC 9112, 6.3: an answer without a length ends with its connection.
            if self._reader is not None and self._reader.end():
                self._waiter.set_result(None)
            else:
                self._waiter.set_exception(error or EOFError())
        self._transport = None
        if self._lost is not None:
            self._lost(self)


async def open_link(
    origin: Origin,
    connect_timeout: float | None,
    tls: ssl.SSLContext | None = None,
    lost: Callable[[HttpLink], None] | None = None,
    *,
    server_name: str = "",
) -> HttpLink:
    """Connect, within ``connect_timeout`` seconds; ``tls`` is needed for a secure origin, whose
    certificate must be for ``server_name``, or for its host.

    OSError when that fails, ssl.SSLError among them; TimeoutError without words after the time.
    """
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(connect_timeout):
        transport, link = await loop.create_connection(
            lambda: HttpLink(lost), origin.host, origin.port
        )
    if tls is not None:
        try:
            secure = await loop.start_tls(
                transport,
                link,
                tls,
                server_hostname=server_name or origin.host,
                ssl_handshake_timeout=TLS_HANDSHAKE_S,
            )
        except BaseException:
            transport.abort()
            raise
        if secure is None:
            raise ConnectionResetError("the connection ended in the TLS handshake")
        link.secured(secure)
    return link
