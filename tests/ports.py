"""Ports of 127.0.0.1 that no other program is given."""

from __future__ import annotations

import socket


def unused_address() -> str:
    """An address where nothing listens until a program is told to listen there.

    The port stays bound until this process ends, so that the kernel gives it to no program that
    asks for any port. A program that is told this one can still listen, as both sockets allow the
    address to be reused.
    """
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        taken.detach()
    return address
