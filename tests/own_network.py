"""A network of one process and its children, which has nothing but a loopback.

A port of 127.0.0.1 that one process of the tests lets go of may be given to another while a client
still tries to reach what was there: a server would see one connection more than its test made.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_CLONE_NEWNET: Final = 0x40000000
_SIOCGIFFLAGS: Final = 0x8913
_SIOCSIFFLAGS: Final = 0x8914
_IFF_UP: Final = 1
_REQUEST: Final = struct.Struct("16sh14x")  # ifreq: the interface's name, its flags
_NETWORK: Final = "/proc/thread-self/ns/net"

_outside: int | None = None
"""A descriptor of the network that this process has left."""


def enter_own_network() -> bool:
    """Give this thread, and all it starts, a network of their own; False where that is not allowed,
    as it is to root on Linux alone.
    """
    global _outside
    if sys.platform != "linux":
        return False
    outside = os.open(_NETWORK, os.O_RDONLY | os.O_CLOEXEC)
    if ctypes.CDLL(None).unshare(_CLONE_NEWNET):
        os.close(outside)
        return False
    _outside = outside
    with socket.socket() as any_socket:
        wanted = _REQUEST.pack(b"lo", 0)
        _, flags = _REQUEST.unpack(fcntl.ioctl(any_socket, _SIOCGIFFLAGS, wanted))
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, _REQUEST.pack(b"lo", flags | _IFF_UP))
    return True


@contextmanager
def network_outside() -> Iterator[None]:
    """Let this thread, and what it starts meanwhile, use the network that the process has left, for
    packages that pip, npm or Go is to fetch.
    """
    if _outside is None:
        yield
        return
    own = os.open(_NETWORK, os.O_RDONLY | os.O_CLOEXEC)
    try:
        _enter(_outside)
        yield
    finally:
        _enter(own)
        os.close(own)


def _enter(network: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(network, _CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "cannot change the network")
