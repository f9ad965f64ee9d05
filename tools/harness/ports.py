"""Ports of 127.0.0.1 that no other program is given."""

from __future__ import annotations

from penstock.testing.daemons import hold


def unused_address() -> str:
    """An address where nothing listens until a program is told to listen there; it is held until
    this process ends.
    """
    held = hold()
    assert held is not None, "the system has run out of ports"
    port = held.getsockname()[1]
    held.detach()
    return f"127.0.0.1:{port}"
