"""The HTTP server of the daemons; this module is its face, the others hold its parts.

    router = Router()
    router.add("GET", "/ping", lambda request: text("OK"))
    server = HttpServer(router)
    listener = await tcp.listen(server, "127.0.0.1:0", "HTTP")

``reader`` reads requests (by ``httptools``, with what ``head`` adds), ``router`` finds their
handlers, ``message`` writes the answers' bytes, and ``connection`` does all that for one client.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Container

from penstock import lane
from penstock.core.clock import SYSTEM_CLOCK, Clock
from penstock.net.budget import Memory
from penstock.net.http.server.connection import Connection
from penstock.net.http.server.deferred_response import DeferredResponse
from penstock.net.http.server.download import Download
from penstock.net.http.server.message import DateLine, Headers, Request, Response, text
from penstock.net.http.server.route import Begin, Handler
from penstock.net.http.server.router import DEFAULT_MAX_BODY, ErrorPages, Router
from penstock.net.http.server.streaming import StreamingResponse

__all__ = [
    "DEFAULT_MAX_BODY",
    "Begin",
    "DeferredResponse",
    "Download",
    "ErrorPages",
    "Handler",
    "Headers",
    "HttpServer",
    "Request",
    "Response",
    "Router",
    "StreamingResponse",
    "text",
]


class HttpServer:
    """A server of a router's routes; the instance is the protocol factory for
    ``net.tcp.listen``.
    """

    def __init__(
        self,
        router: Router,
        *,
        log: logging.Logger | None = None,
        clock: Clock = SYSTEM_CLOCK,
        memory: Memory | None = None,
        publisher: lane.Publisher | None = None,
    ) -> None:
        self.router = router
        self.publisher = publisher
        """The way of plain publishes, where there is one."""
        self.memory = memory or Memory.of()
        self.clock = clock
        self.date = DateLine(clock)
        self.log = log or logging.getLogger("penstock.net.http.server.service")
        self.connections: set[Connection] = set()

    def __call__(self) -> asyncio.Protocol:
        return Connection(self)

    def close_connections(self, but_for: Container[DeferredResponse] = ()) -> None:
        """Close every open connection after what was written to it, or after its next answer if
        that is one of these; for shutdown.
        """
        for connection in list(self.connections):
            if not connection.close_after(but_for):
                connection.close()
