"""Ports that are taken, and free ones."""

from __future__ import annotations

import socket

import pytest

from penstock.cli.live import nodes
from penstock.cli.live.nodes import NodePorts, Ports, PortsInUseError


@pytest.mark.parametrize("nodes", [1, 3])
def test_free_ports_are_free_and_different(nodes: int) -> None:
    free = Ports.free(nodes)
    assert free.taken() == []
    assert len(free.nsqds) == nodes
    assert len(set(free.all())) == 3 + 2 * nodes


def test_ports_of_a_node_follow_from_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nodes, "_is_free", lambda port: True)
    assert Ports.require(1) == Ports()
    assert Ports.require(3).nsqds == (
        NodePorts(4150, 4151), NodePorts(4250, 4251), NodePorts(4350, 4351),
    )  # fmt: skip
    assert len(set(Ports.require(9).all())) == 3 + 2 * 9


def test_a_taken_port_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        assert port in Ports(nsqds=(NodePorts(4150, port),)).taken()
    monkeypatch.setattr(nodes, "_is_free", lambda port: port != 4151)
    with pytest.raises(PortsInUseError, match="port 4151 already in use"):
        Ports.require()
    monkeypatch.setattr(nodes, "_is_free", lambda port: port not in (4171, 4251))
    with pytest.raises(PortsInUseError, match="port 4171, 4251 already in use"):
        Ports.require(2)
