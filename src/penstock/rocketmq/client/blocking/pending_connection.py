"""A connection that is being made: its addresses one after the other, then TLS.

Only the look-up of a name blocks: while a server that is gone answers nothing, the other ones are
served.
"""

from __future__ import annotations

import os
import selectors
import socket
import ssl
from collections import deque

from penstock.net.outgoing import connect_target
from penstock.rocketmq.client.config import Config
from penstock.rocketmq.client.network.timers import Timer
from penstock.rocketmq.client.network.wire import Wire

_READ, _WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE


class PendingConnection:
    """A connection on its way. Its ``socket`` changes as it goes on."""

    def __init__(self, wire: Wire, config: Config) -> None:
        """Begin with the first address. Raises OSError, ValueError, BadTlsOptions."""
        self._host, port = connect_target(wire.address)
        self._context: ssl.SSLContext | None = None
        if config.tls_enable:  # else it need not even be imported
            from penstock.rocketmq.client.network.tls import context_of

            self._context = context_of(config)
        self._addresses = deque(socket.getaddrinfo(self._host, port, type=socket.SOCK_STREAM))
        self.wire = wire
        self.timer: Timer | None = None
        self.socket = self._begin()

    def _begin(self) -> socket.socket:
        """Begin to connect to the next address that does not fail at once. Raises OSError."""
        error = OSError("the name has no address")
        while self._addresses:
            family, kind, protocol, _, address = self._addresses.popleft()
            try:
                connection = socket.socket(family, kind, protocol)
            except OSError as failed:  # a family that is switched off, IPv6 for one
                error = failed
                continue
            connection.setblocking(False)
            try:
                connection.connect(address)
            except BlockingIOError:
                pass
            except OSError as failed:
                connection.close()
                error = failed
                continue
            return connection
        raise error

    def go_on(self) -> int:
        """Take the next step, as the socket is ready; the events to wait for, 0 for a connection.

        Raises OSError when the last address fails.
        """
        connection = self.socket
        if not isinstance(connection, ssl.SSLSocket):
            if code := connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                connection.close()
                if not self._addresses:
                    raise OSError(code, os.strerror(code))
                self.socket = self._begin()
                return _WRITE
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._context is None:
                return 0
            self.socket = connection = self._context.wrap_socket(
                connection, server_hostname=self._host, do_handshake_on_connect=False
            )
        try:
            connection.do_handshake()
        except ssl.SSLWantReadError:
            return _READ
        except ssl.SSLWantWriteError:
            return _WRITE
        return 0
