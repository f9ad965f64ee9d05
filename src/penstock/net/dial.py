"""The reason why a node cannot be reached, in the words of Go's dialer, which NSQ's users know."""

from __future__ import annotations

import os
import re
import socket
from typing import Final

from penstock.net.address import split_host_port

_ERRNO: Final = re.compile(r"\[Errno (\d+)\]")


def dial_target(address: str) -> tuple[str, int]:
    """Host and port to connect to; no host is this machine."""
    host, port = split_host_port(address)
    return host or "localhost", port


def local_target(local_addr: str) -> tuple[str, int] | None:
    """Host and port to connect from, where the options say; no host is any of this machine."""
    if not local_addr:
        return None
    host, port = split_host_port(local_addr)
    return host or "0.0.0.0", port


def dial_reason(address: str, error: OSError) -> str:
    """Describe a failed dial like ``dial tcp 127.0.0.1:4150: connect: connection refused``."""
    if isinstance(error, socket.gaierror):
        host, _ = split_host_port(address)
        known = "no such host" if error.errno == socket.EAI_NONAME else str(error.strerror).lower()
        return f"dial tcp: lookup {host}: {known}"
    number = error.errno
    if number is None:  # asyncio puts the failures of several addresses into one text
        found = _ERRNO.findall(str(error))
        number = int(found[-1]) if found else None
    if isinstance(error, TimeoutError) and number is None:
        return f"dial tcp {address}: i/o timeout"
    what = "bind" if "bind" in str(error) else "connect"
    text = os.strerror(number).lower() if number else str(error)
    return f"dial tcp {address}: {what}: {text}"
