"""The address under which others are likely to reach this machine."""

from __future__ import annotations

import socket
from typing import Final

_LOOPBACK: Final = "127.0.0.1"
_ELSEWHERE: Final = (
    (socket.AF_INET, "192.0.2.1"),
    (socket.AF_INET6, "2001:db8::1"),
)
"""Addresses reserved for documentation: nobody's, but routed as any other."""


def local_address() -> str:
    """The machine's own address on the way to others, IPv4 first; 127.0.0.1 without a network.

    Connecting a UDP socket sends nothing: it only asks the system which way it would go.
    """
    for family, other in _ELSEWHERE:
        try:
            with socket.socket(family, socket.SOCK_DGRAM) as sock:
                sock.connect((other, 9))
                return str(sock.getsockname()[0])
        except OSError:
            continue
    return _LOOPBACK
