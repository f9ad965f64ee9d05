"""The nsqds of ``up`` and ``demo``, told apart by a number.

Node 1 has the name, the folder, the ports and the id of an nsqd that is alone, so that others can
join it later, and leave.
"""

from __future__ import annotations

import random
import re
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from penstock.core.errors import PenstockError
from penstock.core.ids import NODE_ID_MAX
from penstock.node.node_options import default_node_id

HOST = "127.0.0.1"
# Linux gives ports from 32768 on to whoever asks for any.
_RARE = range(20_000, 30_000)


class PortsInUseError(PenstockError):
    """Some of NSQ's own ports are taken by another program."""


@dataclass(frozen=True, slots=True)
class NodePorts:
    """The ports of one nsqd."""

    tcp: int
    http: int

    @classmethod
    def of(cls, number: int) -> NodePorts:
        """NSQ's own for node 1, and a hundred more for each further one, as in
        deploy/systemd/nsqd@.service: 4150 and 4151, 4250 and 4251.
        """
        return cls(4050 + 100 * number, 4051 + 100 * number)


@dataclass(frozen=True, slots=True)
class Ports:
    """The ports of one nsqlookupd, one nsqadmin and the nsqds; the defaults are NSQ's."""

    lookupd_tcp: int = 4160
    lookupd_http: int = 4161
    admin_http: int = 4171
    nsqds: tuple[NodePorts, ...] = (NodePorts.of(1),)

    def all(self) -> list[int]:
        """Every port, in ascending order."""
        nodes = [port for node in self.nsqds for port in (node.tcp, node.http)]
        return sorted([self.lookupd_tcp, self.lookupd_http, self.admin_http, *nodes])

    def taken(self) -> list[int]:
        """The ones that cannot be listened on."""
        return [port for port in self.all() if not _is_free(port)]

    @classmethod
    def require(cls, nodes: int = 1) -> Ports:
        """NSQ's ports, for as many nsqds. Raises PortsInUseError when one is taken."""
        ports = cls(nsqds=tuple(NodePorts.of(number + 1) for number in range(nodes)))
        taken = ports.taken()
        if taken:
            raise PortsInUseError(
                f"port {', '.join(map(str, taken))} already in use: is another nsqd, nsqlookupd or "
                "nsqadmin running? Stop it first, or take other ports with --free-ports"
            )
        return ports

    @classmethod
    def free(cls, nodes: int = 1) -> Ports:
        """Ports that nothing listens on now, none of those that the kernel gives to whoever asks:
        it could give one of them away before the services start.
        """
        free = _free_ports()
        pairs = tuple(NodePorts(next(free), next(free)) for _ in range(nodes))
        return cls(next(free), next(free), next(free), pairs)


def _free_ports() -> Iterator[int]:
    candidates = random.sample(_RARE, len(_RARE))
    return (port for port in candidates if _is_free(port))


def _is_free(port: int) -> bool:
    try:
        # A port counts as taken if it is on any address of this machine.
        socket.create_server(("", port)).close()
    except OSError:
        return False
    return True


_FURTHER = re.compile(r"nsqd-([2-9])")


@dataclass(frozen=True, slots=True)
class LocalNode:
    """One nsqd: its number from 1, the folder of its data and its ports."""

    number: int
    data: Path
    ports: NodePorts

    @property
    def name(self) -> str:
        return self.data.name

    @property
    def tcp(self) -> str:
        return f"{HOST}:{self.ports.tcp}"

    @property
    def http(self) -> str:
        return f"{HOST}:{self.ports.http}"

    @property
    def flags(self) -> list[str]:
        """The flags of one node: addresses, folder, and an id that no other node has."""
        # Ids of messages have it in them: two nodes with one id could give one out twice.
        node_id = (default_node_id() + self.number - 1) % (NODE_ID_MAX + 1)
        return [
            f"--tcp-address={self.tcp}",
            f"--http-address={self.http}",
            f"--broadcast-address={HOST}",
            f"--data-path={self.data}",
            f"--node-id={node_id}",
        ]


def nodes_of(folder: Path, ports: Ports) -> list[LocalNode]:
    """A node for each pair of ports, with its data below this folder."""
    return [
        LocalNode(number, folder / (f"nsqd-{number}" if number > 1 else "nsqd"), pair)
        for number, pair in enumerate(ports.nsqds, 1)
    ]


def left_out(folder: Path, nodes: int) -> list[int]:
    """The numbers of nodes that have data in this folder, but are not among the first ``nodes``."""
    found = (_FURTHER.fullmatch(path.name) for path in folder.iterdir() if path.is_dir())
    numbers = sorted(int(match[1]) for match in found if match)
    return [number for number in numbers if number > nodes]
