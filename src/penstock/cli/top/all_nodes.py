"""The state of all nodes together: filled by ``poll``, shown by ``view``."""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.cluster.figures import NodeFigures
from penstock.cluster.rates import History


@dataclass(slots=True)
class Cluster:
    """The nodes as they were last seen, by address, and what nsqlookupds could not tell.

    While it is ``held`` it takes nothing new.
    """

    nodes: dict[str, NodeFigures] = field(default_factory=dict)
    history: History = field(default_factory=History)
    troubles: list[str] = field(default_factory=list)
    held: bool = False

    def put(self, node: NodeFigures) -> None:
        """A node's newest figures."""
        if self.held:
            return
        self.nodes[node.address] = node
        self.history.add(node)

    def drop(self, address: str) -> None:
        """A node that is gone for good."""
        self.nodes.pop(address, None)
        self.history.forget(address)

    def all(self) -> list[NodeFigures]:
        """The nodes in the order of their addresses."""
        return [self.nodes[address] for address in sorted(self.nodes)]
