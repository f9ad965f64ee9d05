"""/node, the machine under this nsqd, and /pipelines, the Spark queries that report here: ours."""

from __future__ import annotations

import os
from typing import Any, Final

import msgspec

from penstock import __version__
from penstock.core.malformed import MALFORMED
from penstock.core.units import SECOND
from penstock.log_api.pipeline_status import PipelineStatus
from penstock.net import process
from penstock.net.http.server.service import Request
from penstock.net.http.server.v1_api import ApiError, ApiRouter
from penstock.node.ports import Ports
from penstock.nsq.nsqd.stats.pipelines import Pipelines
from penstock.nsq.nsqd.stats.stat_sources import StatSources
from penstock.storage.files.disk_space import DiskSpace

_BODY_MAX: Final = 128 << 10


class PipelinesApi:
    """The endpoints of one nsqd."""

    def __init__(self, pipelines: Pipelines) -> None:
        self._pipelines = pipelines

    def add_routes(self, router: ApiRouter) -> None:
        router.v1("GET", "/pipelines", self._show, quiet=True)
        router.v1("POST", "/pipelines", self._tell, max_body=_BODY_MAX, quiet=True)

    def _show(self, request: Request) -> Any:
        return {"pipelines": self._pipelines.all()}

    def _tell(self, request: Request) -> Any:
        try:
            status = msgspec.json.decode(request.body, type=PipelineStatus)
        except MALFORMED:
            raise ApiError(400, "INVALID_BODY") from None
        self._pipelines.told(status)
        return {}


class NodeApi:
    """The endpoint of one nsqd."""

    def __init__(self, sources: StatSources, ports: Ports) -> None:
        self._sources, self._ports = sources, ports

    def add_routes(self, router: ApiRouter) -> None:
        router.v1("GET", "/node", self._describe, quiet=True)

    def _describe(self, request: Request) -> Any:
        """The clock (wall ns), and the file system of the data path in bytes, null if unknown.

        ``start_time`` is in unix seconds, ``missing`` are the lines of /ready, ``resident`` is
        bytes, ``cpu_seconds`` processor time since the start. Ports that are not open are left out.
        """
        node, ports = self._sources.node, self._ports
        space = DiskSpace.of(node.broker.store.data_path)
        own = {"tcp": ports.tcp, "http": ports.http, "https": ports.https}
        dialects = {each.log_view.dialect: each for each in node.dialects}
        opened = own | {name: each.port for name, each in dialects.items()}
        return {
            "penstock_version": __version__,
            "wall_ns": node.clock.wall_ns(),
            "health": node.health,
            "disk": None if space is None else space._asdict(),
            "start_time": node.started_ns // SECOND,
            "missing": node.vitals.missing(),
            "resident": process.memory().resident,
            "cpu_seconds": process.cpu_seconds(),
            "cpus": os.cpu_count() or 1,
            "connections": {"nsq": len(self._sources.sessions)}
            | {name: each.connection_count for name, each in dialects.items()},
            "ports": {name: port for name, port in opened.items() if port > 0},
        }
