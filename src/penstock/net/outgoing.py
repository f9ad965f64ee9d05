"""The reason why a node cannot be reached, in the words of Go's dialer, which NSQ's users know."""

from __future__ import annotations

import socket

from penstock.core.reasons import lookup_words, system_words
from penstock.net.address import split_host_port


def connect_target(address: str) -> tuple[str, int]:
    """Host and port to connect to; no host is this machine."""
    host, port = split_host_port(address)
    return host or "localhost", port


def local_target(local_addr: str) -> tuple[str, int] | None:
    """Host and port to connect from, where the options say; no host is any of this machine."""
    if not local_addr:
        return None
    host, port = split_host_port(local_addr)
    return host or "0.0.0.0", port


def connect_error_text(address: str, error: OSError | UnicodeError) -> str:
    """Describe a failed dial like ``dial tcp 127.0.0.1:4150: connect: connection refused``.

    UnicodeError is what ``socket`` makes of a name with an empty or too long part.
    """
    if isinstance(error, UnicodeError):
        return f"dial tcp: lookup {split_host_port(address)[0]}: no such host"
    if isinstance(error, socket.gaierror):
        host, _ = split_host_port(address)
        return f"dial tcp: lookup {host}: {lookup_words(error)}"
    words = system_words(error)
    if isinstance(error, TimeoutError) and not words:
        return f"dial tcp {address}: i/o timeout"
    what = "bind" if "bind" in str(error) else "connect"
    return f"dial tcp {address}: {what}: {words or error}"
