"""A protocol behind TLS from the first byte on, as for HTTPS.

listener = await tcp.listen(over_tls(tls, HttpServer(router), log), "127.0.0.1:0", "HTTPS")
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import cast

from penstock.net.address import show_address
from penstock.net.tls.layered import LayeredTransport
from penstock.net.tls.layers import LayerError
from penstock.net.tls.tls_layer import ServerTls, TlsError

LINGER_S = 0.5
_HTTP = (b"GET /", b"HEAD ", b"POST ", b"PUT /", b"OPTIO", b"DELET", b"PATCH")  # sic
_NOT_HTTPS = b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n"


def over_tls(
    tls: ServerTls, factory: Callable[[], asyncio.Protocol], log: logging.Logger
) -> Callable[[], asyncio.Protocol]:
    """Wrap a factory, so that its protocol sees its connection once the handshake is done."""
    return lambda: _TlsDoor(tls, factory, log)


class _TlsDoor(asyncio.Protocol):
    """A stand-in for the protocol until the handshake is done."""

    def __init__(
        self, tls: ServerTls, factory: Callable[[], asyncio.Protocol], log: logging.Logger
    ) -> None:
        self._tls = tls
        self._factory = factory
        self._log = log
        self._told = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        raw = cast(asyncio.Transport, transport)
        self._transport = LayeredTransport(raw, self, self._on_garbage)
        self._transport.start_tls(self._tls.layer(), b"", self._shaken)

    def connection_lost(self, exc: Exception | None) -> None:
        self._warn(exc or "EOF")

    def _shaken(self, error: TlsError | None) -> None:
        transport = self._transport
        if error is None:
            protocol = self._factory()
            transport.set_protocol(protocol)
            protocol.connection_made(transport)
        elif error.head.startswith(_HTTP):
            self._warn("client sent an HTTP request to an HTTPS server")
            transport.write(_NOT_HTTPS)
            transport.write_eof()
            asyncio.get_running_loop().call_later(LINGER_S, transport.close)
        else:
            self._warn(error)
            transport.close()

    def _on_garbage(self, error: LayerError) -> None:
        self._warn(error)
        self._transport.abort()

    def _warn(self, reason: object) -> None:
        if not self._told:
            self._told = True
            remote = show_address(self._transport.get_extra_info("peername") or "")
            self._log.warning("http: TLS handshake error from %s: %s", remote, reason)
