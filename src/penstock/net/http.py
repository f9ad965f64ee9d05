"""The HTTP server of the daemons; this module is its face, the others hold its parts.

    router = Router()
    router.add("GET", "/ping", lambda request: text("OK"))
    server = HttpServer(router)
    listener = await tcp.listen(server, "127.0.0.1:0", "HTTP")

`http_head` and `http_body` read a request's bytes, `http_router` finds its handler, `http_message`
writes the answer's bytes, and `http_connection` does all that for one client.
"""

from __future__ import annotations

import asyncio
import logging

from penstock.core.clock import SYSTEM_CLOCK, Clock
from penstock.net.http_connection import Connection, Plan
from penstock.net.http_head import parse_head
from penstock.net.http_message import DateLine, Headers, Later, Request, Response, text
from penstock.net.http_router import DEFAULT_MAX_BODY, ErrorPages, Handler, Router

__all__ = [
    "DEFAULT_MAX_BODY",
    "ErrorPages",
    "Handler",
    "Headers",
    "HttpServer",
    "Later",
    "Request",
    "Response",
    "Router",
    "text",
]

_KEPT_HEADS = 4096
_KEPT_HEAD_SIZE = 1024


class HttpServer:
    """Serves a router's routes; its instance is the protocol factory for `net.tcp.listen`."""

    def __init__(
        self, router: Router, *, log: logging.Logger | None = None, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        self.router = router
        self.clock = clock
        self.date = DateLine(clock)
        self.log = log or logging.getLogger("penstock.net.http")
        self.connections: set[Connection] = set()
        self.plans: dict[bytes, Plan] = {}
        """What was made of the heads seen before, by their bytes."""

    def __call__(self) -> asyncio.Protocol:
        return Connection(self)

    def close_connections(self) -> None:
        """Closes every open connection after what was written to it; for shutdown."""
        for connection in list(self.connections):
            connection.close()

    def plan(self, raw: bytes) -> Plan:
        """What to do with a head; BadRequest when it is none."""
        plan = self.plans.get(raw)
        if plan is None:
            head = parse_head(raw)
            plan = Plan(head, *self.router.resolve(head.method, head.path, head.query))
            if len(raw) <= _KEPT_HEAD_SIZE:
                if len(self.plans) >= _KEPT_HEADS:
                    self.plans.clear()
                self.plans[raw] = plan
        return plan
