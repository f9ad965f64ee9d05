"""/node: the machine under this nsqd, for those who compare nodes. Penstock's own."""

from __future__ import annotations

from typing import Any

from penstock import __version__
from penstock.net.http.server.service import Request
from penstock.node.node import Node
from penstock.nsq.http_api import NsqRouter
from penstock.storage.files.disk_space import DiskSpace


class NodeApi:
    """The endpoint of one nsqd."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def add_routes(self, router: NsqRouter) -> None:
        router.v1("GET", "/node", self._describe, quiet=True)

    def _describe(self, request: Request) -> Any:
        """The clock (wall ns), and the file system of the data path in bytes, null if unknown."""
        node = self._node
        space = DiskSpace.of(node.broker.store.data_path)
        disk = None if space is None else space._asdict()
        return {
            "penstock_version": __version__,
            "wall_ns": node.clock.wall_ns(),
            "health": node.health,
            "disk": disk,
        }
