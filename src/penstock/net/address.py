"""Network addresses written as Go writes them: ``127.0.0.1:4150``, ``[::1]:4150``, ``:4150``."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from typing import Any

from penstock.core.redaction import without_secrets


def split_host_port(address: str) -> tuple[str, int]:
    """Host and port of ``host:port``; ValueError with Go's text when it is neither."""
    host, colon, port = address.rpartition(":")
    if not colon:
        raise ValueError(f"address {without_secrets(address)}: missing port in address")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ValueError(f"address {without_secrets(address)}: too many colons in address")
    # Ports are ASCII digits: int() alone would take "+1", " 1" and "1_0".
    if not (port.isascii() and port.isdigit()) or int(port) > 65535:
        raise ValueError(f"address {port}: invalid port" if port else "missing port in address")
    return host, int(port)


def join_host_port(host: str, port: int) -> str:
    """``host:port``, with brackets around an IPv6 host."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def preferred(found: Sequence[tuple[Any, ...]]) -> tuple[int, Any]:
    """Family and address among those that ``getaddrinfo`` has found: the first of IPv4 if there is
    one, as Go and Java choose.
    """
    family, _, _, _, place = next((each for each in found if each[0] == socket.AF_INET), found[0])
    return family, place


def host_of(address: Any) -> str:
    """The IP of a socket's address, as in ``show_address``; empty for a unix socket."""
    return address[0].removeprefix("::ffff:") if isinstance(address, tuple) else ""


def show_address(address: Any) -> str:
    """A socket's address as Go shows it; IPv4 through a dual-stack socket is plain IPv4.

    A unix socket shows as its path; the unnamed end of one, a client's, as Go's ``@``.
    """
    if isinstance(address, tuple):
        return join_host_port(host_of(address), address[1])
    if isinstance(address, bytes):
        address = address.decode("utf-8", "surrogateescape")
    return address or "@"
