"""A gate that admits connections while there are file handles, and keeps some for other work.

A process without handles cannot open a segment of its log either, and asyncio's own loop, which
keeps trying to accept, fills the log with tracebacks. So a connection that would take one of the
last handles is closed at once, and one line tells the operator.
"""

from __future__ import annotations

import asyncio
import logging
import resource
from collections.abc import Callable

RESERVED = 128
"""File handles that connections leave for files; a quarter of all where there are few."""
QUIET_S = 60.0
"""Time between two lines about refused connections."""

ProtocolFactory = Callable[[], asyncio.BaseProtocol]


class Gate:
    """A protocol factory in front of another."""

    def __init__(self, factory: ProtocolFactory, what: str, log: logging.Logger) -> None:
        self.factory = factory
        self._what = what
        self._log = log
        self._limit = file_limit()
        self._reserved = min(RESERVED, self._limit // 4)
        self._refused = 0  # since the last line about it
        self._quiet_until = 0.0

    def __call__(self) -> asyncio.BaseProtocol:
        return _Door(self)

    def admit(self, handle: int) -> bool:
        """Admit the connection with this file handle, or count it as refused and return False.

        The system gives out the lowest free number, so a high one means that few are left.
        """
        if handle < self._limit - self._reserved:
            return True
        self._refused += 1
        now = asyncio.get_running_loop().time()
        if now >= self._quiet_until:
            self._quiet_until = now + QUIET_S
            self._log.error(
                "%s: too many open files, refused %d connections (limit %d, %d kept for files); "
                "raise the limit on open files (ulimit -n)",
                self._what,
                self._refused,
                self._limit,
                self._reserved,
            )
            self._refused = 0
        return False


class _Door(asyncio.Protocol):
    """The first protocol of a connection: hands it on, or ends it before it begins."""

    __slots__ = ("_gate",)

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if self._gate.admit(transport.get_extra_info("socket").fileno()):
            protocol = self._gate.factory()
            transport.set_protocol(protocol)
            protocol.connection_made(transport)
        else:
            transport.abort()  # type: ignore[attr-defined]  # a stream's has it


def file_limit() -> int:
    """The most files that this process may have open, connections included."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def raise_file_limit() -> None:
    """Allow as many open files as the system lets this process have, as Go programs do."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    except (ValueError, OSError):
        logging.getLogger("penstock.net").warning("the limit on open files cannot be raised")
