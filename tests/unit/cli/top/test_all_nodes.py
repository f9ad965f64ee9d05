"""What is known of all nodes."""

from __future__ import annotations

from penstock.cli.top.all_nodes import Cluster
from penstock.cluster.figures import NodeFigures


def test_the_newest_of_each_node_by_address() -> None:
    cluster = Cluster()
    for address, at_ns in (("b:1", 1), ("a:1", 2), ("b:1", 3)):
        cluster.put(NodeFigures(address, at_ns))
    assert [(node.address, node.at_ns) for node in cluster.all()] == [("a:1", 2), ("b:1", 3)]
    cluster.drop("a:1")
    cluster.drop("a:1")
    assert [node.address for node in cluster.all()] == ["b:1"]


def test_nothing_new_while_held() -> None:
    cluster = Cluster(held=True)
    cluster.put(NodeFigures("a:1", 1))
    assert cluster.all() == []
