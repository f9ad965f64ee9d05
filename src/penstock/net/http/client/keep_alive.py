"""A blocking HTTP/1.1 client: one connection to one server, kept for the next request.

For commands and clients that have no event loop; those that have one use ``pool``.
"""

from __future__ import annotations

import http.client
import socket
import ssl
import time
from collections.abc import Mapping
from typing import Final, NamedTuple

BUSY_MAX: Final = 30
"""The most tries while a server answers that it has no room; the last 503 is then the answer."""
_WAIT_S_MAX: Final = 5


class Reply(NamedTuple):
    """An answer; names of headers may be in either case."""

    status: int
    headers: http.client.HTTPMessage
    body: bytes


class AnswerTooLongError(http.client.HTTPException):
    """An answer with a longer body than its reader takes; ``status`` is what came before it."""

    def __init__(self, status: int, max_body: int) -> None:
        super().__init__(f"an answer of more than {max_body} bytes")
        self.status = status


class Tls(NamedTuple):
    """HTTPS: whom to trust, and the name in the server's certificate if it is not the host's."""

    context: ssl.SSLContext
    server_name: str = ""


class KeepAliveConnection:
    """A connection that is opened by the first request; for one thread at a time.

    ``seconds`` is for each wait on the network, ``max_body`` in bytes; ``headers`` go with every
    request.
    """

    def __init__(
        self,
        host: str,
        port: int,
        seconds: float,
        max_body: int,
        *,
        tls: Tls | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        if tls is None:
            self._connection = http.client.HTTPConnection(host, port, timeout=seconds)
        else:
            self._connection = _HttpsConnection(host, port, seconds, tls)
        self._max_body = max_body
        self._headers = dict(headers or {})

    def close(self) -> None:
        """Give the connection back; a later request opens another."""
        self._connection.close()

    def ask(
        self, method: str, target: str, body: bytes | None = None, *, tries: int = BUSY_MAX
    ) -> Reply:
        """Send a request that may be repeated, and return the reply.

        It is sent again if the server has closed the kept connection, or has no room at the moment.
        Raises OSError and http.client's HTTPException.
        """
        for attempt in range(1, tries + 1):
            reply = self._ask_now(method, target, body)
            wait = reply.headers.get("Retry-After", "")
            # Only with a time to wait, as our nodes give one: any other 503 is the answer.
            is_busy = reply.status == 503 and wait.isascii() and wait.isdigit()
            if not is_busy or attempt == tries:
                break
            time.sleep(min(int(wait), _WAIT_S_MAX))
        return reply

    def _ask_now(self, method: str, target: str, body: bytes | None) -> Reply:
        kept = self._connection.sock is not None
        try:
            return self._exchange(method, target, body)
        except ConnectionError:
            # A new connection that breaks is the server's answer; a kept one was most likely closed
            # while it was idle.
            if not kept:
                raise
        return self._exchange(method, target, body)

    def _exchange(self, method: str, target: str, body: bytes | None) -> Reply:
        try:
            self._send(method, target, body)
            response = self._connection.getresponse()
            return Reply(response.status, response.headers, self._whole(response))
        except BaseException:
            self._connection.close()  # half an exchange leaves the connection of no use
            raise

    def _send(self, method: str, target: str, body: bytes | None) -> None:
        try:
            self._connection.request(method, target, body, self._headers)
        except (BrokenPipeError, ConnectionResetError):
            # A server that refuses a body may close before it has read all of it, as Go's does:
            # its answer is there all the same.
            if self._connection.sock is None:
                raise

    def _whole(self, response: http.client.HTTPResponse) -> bytes:
        if response.length is None:  # chunked, or until the connection ends
            body = response.read(self._max_body + 1)
            too_long = len(body) > self._max_body
        else:
            too_long = response.length > self._max_body
            body = b"" if too_long else response.read()
        if too_long:
            raise AnswerTooLongError(response.status, self._max_body)
        return body


class _HttpsConnection(http.client.HTTPConnection):
    """HTTPS with a server's name of its certificate; http.client's own takes the host's only."""

    def __init__(self, host: str, port: int, seconds: float, tls: Tls) -> None:
        super().__init__(host, port, timeout=seconds)
        self._tls = tls

    def connect(self) -> None:
        super().connect()
        name = self._tls.server_name or self.host
        try:
            self.sock: socket.socket = self._tls.context.wrap_socket(
                self.sock, server_hostname=name
            )
        except BaseException:
            self.close()
            raise
