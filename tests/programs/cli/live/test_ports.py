"""Ports that are taken, and free ones."""

from __future__ import annotations

import socket
from dataclasses import astuple

import pytest

from penstock.cli.live import ports
from penstock.cli.live.ports import Ports, PortsInUseError


def test_free_ports_are_free_and_different() -> None:
    free = Ports.free()
    assert free.taken() == []
    assert len(set(astuple(free))) == 5


def test_a_taken_port_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        assert port in Ports(nsqd_http=port).taken()
    monkeypatch.setattr(ports, "_is_free", lambda port: port != 4151)
    with pytest.raises(PortsInUseError, match="port 4151 already in use"):
        Ports.require()
