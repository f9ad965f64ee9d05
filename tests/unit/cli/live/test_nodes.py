"""What tells the nodes of one command apart."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.cli.live import nodes
from penstock.cli.live.nodes import NodePorts, Ports, left_out, nodes_of
from penstock.node.options import default_node_id

THREE = Ports(nsqds=tuple(NodePorts.of(number) for number in (1, 2, 3)))


def test_the_first_node_is_what_one_alone_would_be(tmp_path: Path) -> None:
    (alone,) = nodes_of(tmp_path, Ports())
    assert nodes_of(tmp_path, THREE)[0] == alone
    assert (alone.name, alone.tcp, alone.http) == ("nsqd", "127.0.0.1:4150", "127.0.0.1:4151")
    assert f"--node-id={default_node_id()}" in alone.flags
    assert f"--data-path={tmp_path / 'nsqd'}" in alone.flags


def test_nodes_differ_in_everything_that_two_cannot_share(tmp_path: Path) -> None:
    found = nodes_of(tmp_path, THREE)
    assert [node.name for node in found] == ["nsqd", "nsqd-2", "nsqd-3"]
    assert [node.tcp[-4:] for node in found] == ["4150", "4250", "4350"]
    shared = set.intersection(*(set(node.flags) for node in found))
    assert shared == {"--broadcast-address=127.0.0.1"}


def test_an_id_stays_below_its_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nodes, "default_node_id", lambda: 1023)
    ids = [node.flags[-1] for node in nodes_of(tmp_path, THREE)]
    assert ids == ["--node-id=1023", "--node-id=0", "--node-id=1"]


def test_folders_of_nodes_that_are_not_wanted_are_found(tmp_path: Path) -> None:
    for name in ("nsqd", "nsqd-2", "nsqd-4", "nsqd-3", "nsqd-x", "spark"):
        (tmp_path / name).mkdir()
    (tmp_path / "nsqd-5").touch()
    assert left_out(tmp_path, 2) == [3, 4]
    assert left_out(tmp_path, 4) == []
