"""Ports that are held for a program."""

from __future__ import annotations

import socket

import pytest

from penstock.testing.held_ports import hold


def test_a_held_port_is_refused_given_to_nobody_and_can_be_listened_on() -> None:
    held = hold()
    assert held is not None
    address = held.getsockname()
    with held:
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(address)
        assert hold(address[1]) is None
        with socket.create_server(address) as server:
            socket.create_connection(address).close()
            assert server.getsockname() == address
    again = hold(address[1])
    assert again is not None
    again.close()
