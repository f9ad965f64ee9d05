"""Connections that we open to others: a broker to its name servers."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import TYPE_CHECKING

from penstock.core.errors import PenstockError
from penstock.core.reasons import reason
from penstock.net.address import split_host_port
from penstock.net.tls.tls_layer import client_context
from penstock.rocketmq.remoting import Connection, RemotingServer

if TYPE_CHECKING:
    from penstock.rocketmq.protocol.command import Command


class UnreachableError(PenstockError):
    """No connection could be made."""


async def connect(
    address: str,
    seconds: float,
    *,
    lost: Callable[[], None] = lambda: None,
    tls: ssl.SSLContext | None = None,
) -> Connection:
    """A connection to ``host:port``; names are looked up. ``lost`` is called when it ends.

    Raises UnreachableError when none is made in that time.
    """
    # The peer may ask as well as we may, so both sides of a connection are the same thing.
    side = RemotingServer(_RefusingHandler(lost))
    try:
        host, port = split_host_port(address)
        async with asyncio.timeout(seconds):
            _, connection = await asyncio.get_running_loop().create_connection(
                lambda: Connection(side),
                host,
                port,
                ssl=tls,
                server_hostname=host if tls is not None else None,
            )
    except TimeoutError:
        raise UnreachableError(f"no connection within {seconds:g} s") from None
    except (OSError, ValueError) as error:
        raise UnreachableError(reason(error)) from error
    return connection


def tls_to(trust_cert_path: str, *, auth_server: bool) -> ssl.SSLContext:
    """The TLS context for a server; only with ``auth_server`` must it prove who it is.

    Raises ConfigError.
    """
    context = client_context(trust_cert_path)
    if not auth_server:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


class _RefusingHandler:
    """A processor that serves nothing: whatever the peer asks is answered with an error."""

    def __init__(self, lost: Callable[[], None]) -> None:
        self._lost = lost

    def handle(self, connection: Connection, request: Command) -> Command:
        return request.unsupported()

    def connected(self, connection: Connection) -> None: ...

    def disconnected(self, connection: Connection) -> None:
        self._lost()
