"""A client that says exactly what a test wants, over a blocking socket."""

from __future__ import annotations

import socket
import ssl
from typing import Any

from penstock.rocketmq.protocol import frames
from penstock.rocketmq.protocol.command import ONE_WAY, Command, Language, Serialization

SECONDS = 60.0


class RawClient:
    """One connection; ``ask`` sends a request and returns what is answered to it."""

    def __init__(self, port: int, tls: ssl.SSLContext | None = None) -> None:
        self.port = port
        self._socket = socket.create_connection(("127.0.0.1", port), SECONDS)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # as Java's clients do
        if tls is not None:
            self._socket = tls.wrap_socket(self._socket, server_hostname="localhost")
        self._reader = frames.FrameReader()
        self._opaque = 0
        self.requests: list[Command] = []
        """What the server asked meanwhile."""

    def ask(self, code: int, body: bytes = b"", **fields: Any) -> Command:
        """The answer to a request with these ext fields; `version_`, `flag_`, `language_` and
        `serialization_` set the header's own.
        """
        return self.answer_to(self.begin(code, body, **fields))

    def begin(self, code: int, body: bytes = b"", **fields: Any) -> Command:
        """The same, without waiting for the answer."""
        request = self.request(code, body, **fields)
        self.send(frames.encode(request))
        return request

    def answer_to(self, request: Command) -> Command:
        """Waits for the answer to what was begun."""
        while (answer := self.next_command()).opaque != request.opaque or not answer.is_response:
            self.requests.append(answer)
        return answer

    def request(self, code: int, body: bytes = b"", **fields: Any) -> Command:
        self._opaque += 1
        return Command(
            code,
            self._opaque,
            body=body,
            version=fields.pop("version_", 409),
            flag=fields.pop("flag_", 0),
            serialization=fields.pop("serialization_", Serialization.JSON),
            language=fields.pop("language_", Language.JAVA),
            ext={name: str(value) for name, value in fields.items()} or None,
        )

    def tell(self, code: int, body: bytes = b"", **fields: Any) -> None:
        """A one-way request."""
        self.send(frames.encode(self.request(code, body, flag_=ONE_WAY, **fields)))

    def asked(self, code: int) -> Command:
        """Waits for the server to ask for this; what else it asks is dropped."""
        while True:
            command = self.requests.pop(0) if self.requests else self.next_command()
            if command.code == code and not command.is_response:
                return command

    def reply(self, request: Command, code: int = 0, body: bytes = b"", **ext: str) -> None:
        """Answer what the server has asked."""
        self.send(frames.encode(request.answer(code, ext=ext or None, body=body)))

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def next_command(self) -> Command:
        """The next frame. Raises EOFError when the server closed the connection."""
        while (command := self._reader.next_command()) is None:
            data = self._socket.recv(65536)
            if not data:
                raise EOFError
            self._reader.feed(data)
        return command

    def rest(self) -> bytes:
        """All that comes until the server closes the connection, frames or not."""
        return b"".join(iter(lambda: self._socket.recv(65536), b""))

    def is_closed(self) -> bool:
        """Waits for the server to close the connection."""
        try:
            self.next_command()
        except (EOFError, ConnectionError):
            return True
        return False

    @property
    def address(self) -> str:
        """As the server sees it."""
        host, port = self._socket.getsockname()[:2]
        return f"{host}:{port}"

    def close(self) -> None:
        self._socket.close()
