"""A port of HTTP for operators' tools alone: /live, /ping, /ready and /metrics."""

from __future__ import annotations

import logging

from penstock.net import tcp
from penstock.net.http.server.router import Router
from penstock.net.http.server.service import HttpServer
from penstock.net.vitals.vitals import Vitals


class MonitoringPort:
    """An open port; ``open`` makes one, ``close`` ends it."""

    def __init__(self, server: HttpServer, listener: tcp.Listener) -> None:
        self._server = server
        self._listener = listener

    @classmethod
    async def open(cls, address: str, vitals: Vitals, log: logging.Logger) -> MonitoringPort:
        """Raise ListenError when the address is wrong or taken."""
        router = Router()
        vitals.add_routes(router, metrics=True)
        server = HttpServer(router, log=log)
        return cls(server, await tcp.listen(server, address, "monitoring", log))

    @property
    def listener(self) -> tcp.Listener:
        return self._listener

    @property
    def port(self) -> int:
        return self._listener.port

    async def close(self) -> None:
        """Stop listening and end all connections."""
        await self._listener.close()
        self._server.close_connections()
