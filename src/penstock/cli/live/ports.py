"""Ports for the services: NSQ's own, or free ones when those are taken."""

from __future__ import annotations

import random
import socket
from dataclasses import dataclass, fields
from itertools import islice

from penstock.core.errors import PenstockError

HOST = "127.0.0.1"
_RARE = range(20_000, 30_000)


class PortsInUseError(PenstockError):
    """Some of NSQ's own ports are taken by another program."""


@dataclass(frozen=True, slots=True)
class Ports:
    """The ports of one nsqlookupd, one nsqd and one nsqadmin; the defaults are NSQ's."""

    nsqd_tcp: int = 4150
    nsqd_http: int = 4151
    lookupd_tcp: int = 4160
    lookupd_http: int = 4161
    admin_http: int = 4171

    def taken(self) -> list[int]:
        """The ones that cannot be listened on."""
        every = (getattr(self, each.name) for each in fields(self))
        return [port for port in every if not _is_free(port)]

    @classmethod
    def require(cls) -> Ports:
        """NSQ's ports. Raises PortsInUseError when one is taken."""
        ports = cls()
        taken = ports.taken()
        if taken:
            raise PortsInUseError(
                f"port {', '.join(map(str, taken))} already in use: is another nsqd, nsqlookupd or "
                "nsqadmin running? Stop it first, or take other ports with --free-ports"
            )
        return ports

    @classmethod
    def free(cls) -> Ports:
        """Ports that nothing listens on now, none of those that the kernel gives to whoever asks:
        it could give one of them away before the services start.
        """
        candidates = random.sample(_RARE, len(_RARE))
        free = (port for port in candidates if _is_free(port))
        return cls(*islice(free, len(fields(cls))))


def _is_free(port: int) -> bool:
    try:
        socket.create_server(("", port)).close()
    except OSError:
        return False
    return True
