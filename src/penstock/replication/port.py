"""A primary at work: its metrics, its ticks, and the port for followers of a node that has one."""

from __future__ import annotations

from typing import Any

from penstock import __version__
from penstock.core.settings.version import NSQ_VERSION
from penstock.core.units import SECOND
from penstock.net.http.server.guard import Guard
from penstock.net.http.server.service import HttpServer, Request
from penstock.net.http.server.v1_api import ApiRouter
from penstock.node.node import Node
from penstock.node.node_options import NodeOptions
from penstock.node.ports import Ports
from penstock.replication.metrics import ReplicationMetrics
from penstock.replication.primary import Primary


class ReplicationPort:
    """The port of a node for its followers alone, closed with the node's other ports."""

    def __init__(self, primary: Primary, server: HttpServer | None) -> None:
        self._primary = primary
        self._server = server

    @classmethod
    async def open(
        cls, primary: Primary, node: Node, options: NodeOptions, ports: Ports
    ) -> ReplicationPort:
        """Let followers ask, here and wherever ``primary`` has routes. Raises ListenError."""
        node.vitals.sources.append(ReplicationMetrics(primary.figures).source)
        node.housekeeping.ticks.append(primary.tick)
        server = None
        if ports.replication_address:
            router = _Router(primary, node, options, ports)
            server = HttpServer(router, clock=node.clock, memory=node.memory)
            await ports.open_replication(server)
        # Last: what it tells the primary before names the ports that were opened.
        primary.start(options, ports)
        return cls(primary, server)

    async def close(self) -> None:
        """End what was begun, and all connections of followers."""
        await self._primary.close()
        if self._server is not None:
            self._server.close_connections()


class _Router(ApiRouter):
    """The requests of followers, and those that show people how they are; no messages."""

    def __init__(self, primary: Primary, node: Node, options: NodeOptions, ports: Ports) -> None:
        super().__init__(Guard.of(options, options.broadcast_address))
        self._primary = primary
        self._node = node
        self._host = options.broadcast_address
        self._ports = ports
        node.vitals.add_routes(self, metrics=False)
        primary.add_routes(self)
        self.v1("GET", "/info", self._info)
        self.v1("GET", "/stats", self._stats)

    def _info(self, request: Request) -> Any:
        return {
            "version": NSQ_VERSION,
            "broadcast_address": self._host,
            "http_port": self._ports.replication,
            "tcp_port": self._ports.tcp,
            "start_time": self._node.started_ns // SECOND,
            "penstock_version": __version__,
        }

    def _stats(self, request: Request) -> Any:
        return {
            "version": NSQ_VERSION,
            "health": self._node.health,
            "start_time": self._node.started_ns // SECOND,
            "topics": [],
            "replication": self._primary.figures(),
        }
