"""The machine's own address."""

from __future__ import annotations

import ipaddress
import socket

import pytest

from penstock.net.local_address import local_address


def test_it_is_an_address_of_this_machine() -> None:
    address = local_address()
    family = socket.AF_INET6 if ipaddress.ip_address(address).version == 6 else socket.AF_INET
    with socket.socket(family) as sock:
        sock.bind((address, 0))  # fails for the address of another machine


def test_without_a_network_it_is_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*words: object) -> None:
        raise OSError("Network is unreachable")

    monkeypatch.setattr(socket, "socket", refuse)
    assert local_address() == "127.0.0.1"
