"""The nsqds of ``up`` and ``demo``, told apart by a number.

Node 1 has the name, the folder, the ports and the id of an nsqd that is alone, so that others can
join it later, and leave.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from penstock.cli.live.ports import HOST, NodePorts, Ports
from penstock.core.ids import NODE_ID_MAX
from penstock.node.options import default_node_id

_FURTHER = re.compile(r"nsqd-([2-9])")


@dataclass(frozen=True, slots=True)
class Node:
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
        node_id = (default_node_id() + self.number - 1) % (NODE_ID_MAX + 1)
        return [
            f"--tcp-address={self.tcp}",
            f"--http-address={self.http}",
            f"--broadcast-address={HOST}",
            f"--data-path={self.data}",
            f"--node-id={node_id}",
        ]


def nodes_of(folder: Path, ports: Ports) -> list[Node]:
    """A node for each pair of ports, with its data below this folder."""
    return [
        Node(number, folder / (f"nsqd-{number}" if number > 1 else "nsqd"), pair)
        for number, pair in enumerate(ports.nsqds, 1)
    ]


def left_out(folder: Path, nodes: int) -> list[int]:
    """The numbers of nodes that have data in this folder, but are not among the first ``nodes``."""
    found = (_FURTHER.fullmatch(path.name) for path in folder.iterdir() if path.is_dir())
    numbers = sorted(int(match[1]) for match in found if match)
    return [number for number in numbers if number > nodes]
