"""/api/machines: the processes and machines under the nodes. Ours, not upstream's.

Our nsqd answers this at /node. Go's nsqd has no such endpoint: its entry has what /info and /stats
give, and null for the rest.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from penstock.admin.read_api import answering
from penstock.admin.router import AdminRouter
from penstock.cluster.cluster import STATS, Cluster
from penstock.cluster.fanout import Warnings, ask_all
from penstock.cluster.producers import NodeInfo
from penstock.cluster.upstream_errors import RefusedError
from penstock.net.http.server.service import Request
from penstock.net.http.server.v1_api import Query

_MEMORY_ONLY = f"{STATS}&include_clients=false&topic=-"
"""The stats of a topic that nobody can have: only the memory is wanted."""


class Disk(Struct):
    """A file system, in bytes."""

    total: int = 0
    used: int = 0
    free: int = 0


class Machine(Struct):
    """A node as its process and machine go; None is what it does not tell.

    ``start_time`` is in unix seconds, ``resident`` and ``heap`` are bytes, ``missing`` lines of
    what keeps it from its work.
    """

    node: str = ""
    penstock_version: str | None = None
    health: str | None = None
    missing: list[str] | None = None
    start_time: int | None = None
    disk: Disk | None = None
    resident: int | None = None
    heap: int | None = None
    cpu_seconds: float | None = None
    cpus: int | None = None
    connections: dict[str, int] | None = None
    ports: dict[str, int] | None = None


class _Started(NodeInfo):
    start_time: int | None = None


class _Memory(Struct):
    heap_in_use_bytes: int | None = None


class _Stats(Struct):
    health: str | None = None
    memory: _Memory | None = None


class MachinesApi:
    """The one endpoint: all nodes, or the one that is named."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def add_routes(self, router: AdminRouter) -> None:
        router.v1("GET", "/api/machines", answering(self._answer))

    async def _answer(self, request: Request) -> Any:
        wanted, warnings = Query.parse(request.query).get("node") or "", Warnings()
        found = await machines(self._cluster, warnings, wanted)
        return {"machines": found, "message": warnings.message}


async def machines(cluster: Cluster, warnings: Warnings, wanted: str = "") -> list[Machine]:
    """The machines of all nodes, or of the one that is named. Raises NoAnswerError."""
    producers = await cluster.producers(warnings, with_topics=False)
    addresses = dict.fromkeys(each.http_address for each in producers)
    asked = [each for each in addresses if wanted in ("", each)]
    if not asked:
        return []

    async def ask(address: str) -> Machine:
        return await _machine(cluster, address)

    found = await ask_all("nsqd", asked, ask)
    warnings.add(found.errors)
    return [each for _, each in found.answers]


async def _machine(cluster: Cluster, address: str) -> Machine:
    """The machine of one node. Raises UpstreamError."""
    try:
        machine = await cluster.http.get(address, "/node", Machine)
    except RefusedError:
        machine = await _of_go(cluster, address)
    machine.node = address
    return machine


async def _of_go(cluster: Cluster, address: str) -> Machine:
    info = await cluster.http.get(address, "/info", _Started)
    stats = await cluster.http.get(address, _MEMORY_ONLY, _Stats)
    return Machine(
        health=stats.health,
        start_time=info.start_time,
        heap=stats.memory.heap_in_use_bytes if stats.memory else None,
        ports={"tcp": info.tcp_port, "http": info.http_port},
    )
