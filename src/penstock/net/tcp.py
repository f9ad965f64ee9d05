"""Listening sockets as a Go daemon opens them.

``0.0.0.0:4150`` takes IPv4 and IPv6, a name that has both, such as ``localhost``, IPv4; ``:0``
picks a free port, a path with a slash is a unix socket. The log line ``TCP: listening on <addr>``
names the real port, because other programs read it there.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import socket
import ssl

from penstock.core.errors import PenstockError
from penstock.core.reasons import system_words
from penstock.net.address import preferred, show_address, split_host_port
from penstock.net.gate import Gate, ProtocolFactory
from penstock.net.tasks import spawn

BACKLOG = 1024
ACCEPT_AT_ONCE = 8
"""Connections that asyncio's own loop accepts in one pass: far fewer than the gate's reserve."""
# Go's net package probes idle connections after 15 s, and again every 15 s.
KEEP_ALIVE_S = 15


class ListenError(PenstockError):
    """An address cannot be listened on; the text is Go's, one line for the user."""


class Listener:
    """An open listening socket."""

    def __init__(self, server: asyncio.Server, sock: socket.socket, gate: Gate) -> None:
        self._server = server
        self._gate = gate
        self._path = sock.getsockname() if sock.family == socket.AF_UNIX else None
        self.address = show_address(sock.getsockname())
        self.port = sock.getsockname()[1] if self._path is None else -1
        """The real port, also when 0 was asked for; -1 for a unix socket."""

    def copy(self) -> socket.socket:
        """Another handle of the socket, to be closed. Raises OSError once this is closed."""
        sockets = self._server.sockets
        if not sockets:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        return socket.socket(fileno=os.dup(sockets[0].fileno()))

    def adopt(self, client: socket.socket) -> None:
        """Serve a connection that another thread has accepted; called in the loop."""
        if self._server.is_serving():
            loop = asyncio.get_running_loop()
            spawn(loop.connect_accepted_socket(self._gate, client), "a connection")
        else:
            client.close()

    async def close(self) -> None:
        """Stop accepting; open connections are their owners' affair. May be called again."""
        # Without `wait_closed`: newer Pythons wait there for the open connections as well.
        self._server.close()
        if self._path:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._path)


async def listen(
    factory: ProtocolFactory,
    address: str,
    what: str = "TCP",
    log: logging.Logger | None = None,
    ssl: ssl.SSLContext | None = None,
) -> Listener:
    """Accept connections on ``address``, each served by a protocol that ``factory`` makes.

    ListenError when the address is wrong or taken.
    """
    return await serve(bind(address), factory, what, log, ssl)


def bind(address: str) -> socket.socket:
    """A socket that listens on ``address``; connections wait until it is served.

    ListenError when the address is wrong or taken.
    """
    try:
        return _bind(address)
    except (OSError, ValueError) as error:
        network = "unix" if "/" in address else "tcp"
        raise ListenError(
            f"listen ({address}) failed - listen {network} {address}: {_reason(error)}"
        ) from error


def check_free(address: str) -> None:
    """Raise ListenError when the address is wrong or taken; a unix socket is left to ``bind``."""
    if "/" not in address:
        bind(address).close()


async def serve(
    sock: socket.socket,
    factory: ProtocolFactory,
    what: str = "TCP",
    log: logging.Logger | None = None,
    ssl: ssl.SSLContext | None = None,
) -> Listener:
    """Accept the connections to a socket that was bound before, as ``listen`` does."""
    loop = asyncio.get_running_loop()
    log = log or logging.getLogger("penstock.net.tcp")
    gate = Gate(factory, what, log)
    if sock.family == socket.AF_UNIX:
        server = await loop.create_unix_server(gate, sock=sock, backlog=ACCEPT_AT_ONCE, ssl=ssl)
    else:
        server = await loop.create_server(gate, sock=sock, backlog=ACCEPT_AT_ONCE, ssl=ssl)
    sock.listen(BACKLOG)  # again: the loop has set its own number
    listener = Listener(server, sock, gate)
    log.info("%s: listening on %s", what, listener.address)
    return listener


def _bind(address: str) -> socket.socket:
    if "/" in address:
        return _opened(socket.AF_UNIX, address)
    host, port = split_host_port(address)
    if host in ("", "0.0.0.0", "::"):
        return _bind_everywhere(port)
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    return _opened(*preferred(found))


def _bind_everywhere(port: int) -> socket.socket:
    """One socket for IPv4 and IPv6, as Go's wildcard; IPv4 alone where IPv6 is switched off."""
    if socket.has_dualstack_ipv6():
        try:
            return _opened(socket.AF_INET6, ("::", port))
        except OSError as error:
            # The kernel knows IPv6, but it is switched off (net.ipv6.conf.all.disable_ipv6).
            if error.errno != errno.EADDRNOTAVAIL:
                raise
    return _opened(socket.AF_INET, ("0.0.0.0", port))


def _opened(family: int, place: object) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        if family != socket.AF_UNIX:
            _set_options(sock)
        sock.bind(place)  # type: ignore[arg-type]  # the address form depends on the family
        sock.listen(BACKLOG)
        sock.setblocking(False)
    except BaseException:
        sock.close()
        raise
    return sock


def _set_options(sock: socket.socket) -> None:
    """Set the options that Go sets by itself; Linux hands them on to accepted sockets."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if sock.family == socket.AF_INET6:
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    for name in ("TCP_KEEPIDLE", "TCP_KEEPINTVL"):
        if hasattr(socket, name):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), KEEP_ALIVE_S)


def _reason(error: OSError | ValueError) -> str:
    if isinstance(error, socket.gaierror):
        return f"lookup failed: {error.strerror}"
    words = system_words(error)
    return f"bind: {words}" if words else str(error)
