"""Ports of 127.0.0.1 that are held for a program which is to listen there."""

from __future__ import annotations

import socket


def hold(port: int = 0) -> socket.socket | None:
    """Bind a port that nobody else has bound, or any for 0, without listening: connecting is
    refused, no program is given the port, and one that is told it can listen there.

    None if somebody has it. It is held until the socket is closed.
    """
    held = socket.socket()
    try:
        held.bind(("127.0.0.1", port))
    except OSError:
        held.close()
        return None
    # Only now: before, a port that another one holds in this way would do.
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    return held
