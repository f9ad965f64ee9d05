"""The smallest NSQ client: a socket around the sans-I/O protocol. For the demo's two children."""

from __future__ import annotations

import socket
from collections.abc import Iterator

from penstock.core.errors import PenstockError
from penstock.nsq.protocol import encode
from penstock.nsq.protocol.frames import Error, FrameReader, MessageBlock, Response

_READ_BYTES = 1 << 20
_TIMEOUT_S = 90  # nsqd sends a heartbeat every 30 s


class WireError(PenstockError):
    """nsqd refused something or went away."""


class Wire:
    """One connection to nsqd."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        try:
            self._socket = socket.create_connection((host, int(port)), timeout=_TIMEOUT_S)
        except OSError as error:
            raise WireError(f"nsqd at {address} cannot be reached: {error}") from error
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._reader = FrameReader()
        self.send(encode.MAGIC_V2)

    def send(self, data: bytes) -> None:
        """Write bytes. Raises WireError when nsqd is gone."""
        try:
            self._socket.sendall(data)
        except OSError as error:
            raise WireError(f"nsqd closed the connection: {error}") from error

    def close(self) -> None:
        """Hang up."""
        self._socket.close()

    def frames(self) -> Iterator[Response | MessageBlock]:
        """The frames that nsqd sends, for ever; heartbeats are answered, errors raise WireError."""
        while data := self._receive():
            self._reader.receive_data(data)
            for frame in self._reader.events():
                if isinstance(frame, Error):
                    raise WireError(f"nsqd says {frame.text}")
                if isinstance(frame, Response) and frame.is_heartbeat:
                    self.send(encode.NOP)
                    continue
                yield frame
        raise WireError("nsqd closed the connection")

    def _receive(self) -> bytes:
        try:
            return self._socket.recv(_READ_BYTES)
        except OSError as error:
            raise WireError(f"nsqd closed the connection: {error}") from error
