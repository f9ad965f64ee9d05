"""The nodes of a cluster as the doctor asks them: all that is looked at later, in one round.

Go's nsqd has no /node, and knows fewer options; of those nothing is said then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, Final

from msgspec import Struct, field

from penstock.cluster import figures
from penstock.cluster.http_client import HttpClient
from penstock.cluster.producers import NodeInfo
from penstock.cluster.reasons import plain_reason
from penstock.cluster.replication_status import PRIMARY, TARGET, Replication
from penstock.cluster.upstream_errors import RefusedError, UpstreamError
from penstock.core.clock import Clock
from penstock.net.address import join_host_port
from penstock.net.outgoing import connect_target
from penstock.nsq.dead_letters.listing import DeadTopics
from penstock.nsq.protocol.encode import MAGIC_V2
from penstock.storage.files.disk_space import DiskSpace

OPTIONS: Final = ("msg_timeout", "max_msg_timeout", "max_msg_size", "max_attempts")
"""Options that a client meets at every node, so they should be equal."""
DIAL_S: Final = 3.0


class _Space(Struct):
    """The file system of a node's data path, in bytes."""

    total: int = 0
    used: int = 0
    free: int = 0


class _Machine(Struct):
    """The answer of /node."""

    penstock_version: str = ""
    wall_ns: int = 0
    health: str = ""
    disk: _Space | None = None


class StartedInfo(NodeInfo):
    """A node's /info, with when it was started, in unix seconds."""

    start_time: int = 0
    penstock_version: str = ""


class ExaminedNode(Struct):
    """The answers of a node; ``failure`` is why it gave none.

    ``told`` are the addresses of its protocol as nsqlookupds tell them, ``unreachable`` those where
    nobody answers. ``ahead_ns`` is how far its clock is ahead of ours, give or take ``doubt_ns``;
    ``dead_letters`` are counts by topic.
    """

    address: str
    named_by: list[str] = field(default_factory=list)
    told: list[str] = field(default_factory=list)
    failure: str = ""
    info: StartedInfo = field(default_factory=StartedInfo)
    health: str = "OK"
    penstock_version: str = ""
    ahead_ns: int = 0
    doubt_ns: int = 0
    disk: DiskSpace | None = None
    options: dict[str, int] = field(default_factory=dict)
    stats: figures.ReportedNode = field(default_factory=lambda: figures.ReportedNode(None))
    dead_letters: dict[str, int] = field(default_factory=dict)
    replication: Replication = field(default_factory=Replication)
    unreachable: list[str] = field(default_factory=list)

    @property
    def is_primary(self) -> bool:
        return self.replication.role == PRIMARY

    @property
    def topics(self) -> list[str]:
        return [each.topic_name for each in self.stats.topics or ()]


def distinct(nodes: Iterable[ExaminedNode]) -> list[ExaminedNode]:
    """Each node once, although one address was given and another is what it has others told."""
    found: dict[tuple[str, object], ExaminedNode] = {}
    for node in nodes:
        own = node.info.http_address, node.info.start_time
        known = found.setdefault(own if not node.failure else (node.address, None), node)
        if known is not node:
            known.named_by += node.named_by
            known.unreachable += [
                each for each in node.unreachable if each not in known.unreachable
            ]
    return list(found.values())


async def ask_nodes(http: HttpClient, nodes: Iterable[ExaminedNode], clock: Clock) -> None:
    """Fill these in, all at the same time."""
    await asyncio.gather(*(_ask(http, node, clock) for node in nodes))


async def _ask(http: HttpClient, node: ExaminedNode, clock: Clock) -> None:
    address = node.address
    try:
        node.info = await http.get(address, "/info", StartedInfo)
        node.stats = await http.get(address, figures.TARGET, figures.ReportedNode)
        node.health = await _health(http, address)
        await _ask_machine(http, node, clock)
        said = await _answer(http, address, TARGET, Replication)
        node.replication = said or node.replication
        node.penstock_version = node.penstock_version or node.info.penstock_version
        dead = await _answer(http, address, "/deadletters/topics", DeadTopics)
        node.dead_letters = {each.topic: each.letters for each in dead.topics} if dead else {}
        for option in OPTIONS:
            value = await _answer(http, address, f"/config/{option}", object)
            if isinstance(value, int):
                node.options[option] = value
    except UpstreamError as error:
        node.failure = str(error)
        return
    own = node.info
    ports = dict.fromkeys([join_host_port(own.broadcast_address, own.tcp_port), *node.told])
    dialled = await asyncio.gather(
        *(_dialled(each, MAGIC_V2) for each in ports), _dialled(own.http_address, b"")
    )
    node.unreachable = [each for each in dialled if each]


async def _ask_machine(http: HttpClient, node: ExaminedNode, clock: Clock) -> None:
    before = clock.wall_ns()
    machine = await _answer(http, node.address, "/node", _Machine)
    after = clock.wall_ns()
    if machine is not None:
        node.penstock_version = machine.penstock_version
        if machine.disk is not None:
            node.disk = DiskSpace(machine.disk.total, machine.disk.used, machine.disk.free)
        node.health = machine.health or node.health
        # The answer was made somewhere between the two, so half of that time is the doubt.
        node.ahead_ns = machine.wall_ns - (before + after) // 2
        node.doubt_ns = (after - before) // 2


async def _answer(http: HttpClient, address: str, target: str, kind: type[Any]) -> Any:
    """An answer, or None from a node that does not know the question."""
    try:
        return await http.get(address, target, kind)
    except RefusedError:
        return None


async def _health(http: HttpClient, address: str) -> str:
    try:
        return (await http.get_bytes(address, "/ping")).decode("utf-8", "replace")
    except UpstreamError as error:
        return str(error)


async def _dialled(address: str, greeting: bytes) -> str:
    """Empty if something listens there, else the address with the reason.

    Without the greeting of its protocol, a daemon would log that a client broke off.
    """
    try:
        async with asyncio.timeout(DIAL_S):
            _, writer = await asyncio.open_connection(*connect_target(address))
    except (OSError, ValueError) as error:
        return f"{address} ({plain_reason(error)})"
    writer.write(greeting)
    writer.close()
    return ""
