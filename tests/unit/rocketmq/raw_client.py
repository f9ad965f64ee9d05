"""A client that says exactly what a test wants, over a blocking socket."""

from __future__ import annotations

import socket
import ssl
from typing import Any

from penstock.rocketmq.protocol import frames
from penstock.rocketmq.protocol.command import ONE_WAY, Command, Language, Serialization

SECONDS = 5.0


class RawClient:
    """One connection; ``ask`` sends a request and returns what is answered to it."""

    def __init__(self, port: int, tls: ssl.SSLContext | None = None) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), SECONDS)
        if tls is not None:
            self._socket = tls.wrap_socket(self._socket, server_hostname="localhost")
        self._reader = frames.FrameReader()
        self._opaque = 0
        self.requests: list[Command] = []
        """What the server asked meanwhile."""

    def ask(self, code: int, body: bytes = b"", **fields: Any) -> Command:
        """The answer to a request with these ext fields; `version_`, `flag_` and `serialization_`
        set the header's own.
        """
        request = self.request(code, body, **fields)
        self.send(frames.encode(request))
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
            language=Language.JAVA,
            ext={name: str(value) for name, value in fields.items()} or None,
        )

    def tell(self, code: int, **fields: Any) -> None:
        """A one-way request."""
        self.send(frames.encode(self.request(code, flag_=ONE_WAY, **fields)))

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

    def close(self) -> None:
        self._socket.close()
