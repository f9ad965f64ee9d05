"""Requests to a broker or a name server without an event loop: for programs that wait anyway.

Spark's executors start with it. The client's blocking hub could take its place, but to import that,
with the client's options, makes their start a tenth longer or more.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from penstock.net.address import split_host_port
from penstock.net.http.client.keep_alive import Tls
from penstock.rocketmq.protocol import frames
from penstock.rocketmq.protocol.command import Command
from penstock.rocketmq.protocol.errors import FrameError
from penstock.rocketmq.protocol.signing import sign

_READ_BYTES: Final = 256 * 1024
# A broker reads no more while its answers are not read: with more it would wait for us, and we for
# it.
_UNDER_WAY_MAX: Final = 256


class Account(NamedTuple):
    """The key pair that signs requests where access rules are in force."""

    access_key: str
    secret_key: str


class RemotingLink:
    """One kept connection; it is made with the first request. For one thread at a time.

    ``seconds`` is for each wait on the network; another time-out is for the next connection.
    """

    def __init__(
        self,
        address: str,
        seconds: float,
        *,
        tls: Tls | None = None,
        account: Account | None = None,
    ) -> None:
        self.address = address
        self.seconds = seconds
        self._tls = tls
        self._account = account
        self._socket: socket.socket | None = None
        self._reader = frames.FrameReader()
        self._opaque = 0

    def close(self) -> None:
        """Give the connection back; a later request opens another."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def ask(self, code: int, fields: Mapping[str, object], body: bytes = b"") -> Command:
        """The answer to one request. Raises OSError."""
        return self.ask_all([(code, fields, body)])[0]

    def ask_all(self, asked: Sequence[tuple[int, Mapping[str, object], bytes]]) -> list[Command]:
        """The answers to requests that may be repeated, in their order; up to 256 are under way
        together.

        These are sent again if the server has closed the kept connection. Raises OSError, also for
        an answer that makes no sense.
        """
        answers: list[Command] = []
        for first in range(0, len(asked), _UNDER_WAY_MAX):
            answers += self._ask_together(asked[first : first + _UNDER_WAY_MAX])
        return answers

    def _ask_together(
        self, asked: Sequence[tuple[int, Mapping[str, object], bytes]]
    ) -> list[Command]:
        # Only a kept connection may have been closed by an idle server; a new one that breaks is an
        # error.
        kept = self._socket is not None
        try:
            return self._exchange(asked)
        except ConnectionError:
            if not kept:
                raise
        return self._exchange(asked)

    def _exchange(self, asked: Sequence[tuple[int, Mapping[str, object], bytes]]) -> list[Command]:
        requests = [self._request(*each) for each in asked]
        try:
            connection = self._socket or self._connect()
            connection.sendall(b"".join(map(frames.encode, requests)))
            answers: dict[int, Command] = {}
            wanted = {request.opaque for request in requests}
            while wanted - answers.keys():
                answer = self._next(connection)
                # A request of the broker to its clients is skipped: this client serves none.
                if answer.is_response:
                    answers[answer.opaque] = answer
            return [answers[request.opaque] for request in requests]
        except BaseException as error:
            self.close()  # half an exchange leaves the connection of no use
            if isinstance(error, FrameError):
                raise OSError(f"the answer is not RocketMQ's: {error}") from None
            raise

    def _request(self, code: int, fields: Mapping[str, object], body: bytes) -> Command:
        self._opaque = self._opaque % 0x7FFFFFFF + 1
        ext = {name: str(value) for name, value in fields.items()}
        request = Command(code, self._opaque, ext or None, body)
        if self._account is not None:
            sign(request, *self._account)
        return request

    def _connect(self) -> socket.socket:
        try:
            host, port = split_host_port(self.address)
        except ValueError as error:
            raise OSError(str(error)) from None
        try:
            connection = socket.create_connection((host, port), self.seconds)
        except UnicodeError:  # a name with an empty or too long part
            raise OSError(f"{host} cannot be a host's name") from None
        # Half a frame of the last connection must not be taken for the start of this one.
        self._reader = frames.FrameReader()
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._tls is not None:
                name = self._tls.server_name or host
                connection = self._tls.context.wrap_socket(connection, server_hostname=name)
        except BaseException:
            connection.close()
            raise
        self._socket = connection
        return connection

    def _next(self, connection: socket.socket) -> Command:
        while (command := self._reader.next_command()) is None:
            data = connection.recv(_READ_BYTES)
            if not data:
                raise ConnectionResetError("the connection was closed before the answer")
            self._reader.feed(data)
        return command
