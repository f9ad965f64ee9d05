"""A primary at work: its metrics, its ticks, and the port for copies of a node that has one."""

from __future__ import annotations

from penstock.net.http.server.guard import Guard
from penstock.net.http.server.service import HttpServer
from penstock.node.node import Node
from penstock.nsq.http_api import NsqRouter
from penstock.nsq.nsqd.copies.metrics import ReplicationMetrics
from penstock.nsq.nsqd.copies.primary import Primary
from penstock.nsq.nsqd.options import NsqdOptions
from penstock.nsq.nsqd.ports import Ports


class CopiesPort:
    """The port of a node for its copies alone, closed with the node's other ports."""

    def __init__(self, primary: Primary, server: HttpServer | None) -> None:
        self._primary = primary
        self._server = server

    @classmethod
    async def open(
        cls, primary: Primary, node: Node, options: NsqdOptions, ports: Ports
    ) -> CopiesPort:
        """Let copies ask, here and wherever ``primary`` has routes. Raises ListenError."""
        node.vitals.sources.append(ReplicationMetrics(primary.figures).source)
        node.housekeeping.ticks.append(primary.tick)
        server = None
        if ports.copies_address:
            router = NsqRouter(Guard.of(options, options.broadcast_address))
            node.vitals.add_routes(router, metrics=False)
            primary.add_routes(router)
            server = HttpServer(router, clock=node.clock, memory=node.memory)
            await ports.open_copies(server)
        primary.start(options, ports)
        return cls(primary, server)

    async def close(self) -> None:
        """End what was begun, and all connections of copies."""
        await self._primary.close()
        if self._server is not None:
            self._server.close_connections()
