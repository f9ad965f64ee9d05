"""The smallest NSQ client: a socket around the sans-I/O protocol. For the demo's two children."""

from __future__ import annotations

import socket
from collections.abc import Iterator

from penstock.core.errors import PenstockError
from penstock.nsq.protocol import encode
from penstock.nsq.protocol.frames import Error, FrameReader, MessageBlock, Response

_READ_BYTES = 1 << 20


class WireError(PenstockError):
    """nsqd refused something or went away."""


class Wire:
    """One connection to nsqd."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=30)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._reader = FrameReader()
        self.send(encode.MAGIC_V2)

    def send(self, data: bytes) -> None:
        """Write bytes."""
        self._socket.sendall(data)

    def frames(self) -> Iterator[Response | MessageBlock]:
        """What nsqd sends, for ever; heartbeats are answered, errors raise WireError."""
        while data := self._socket.recv(_READ_BYTES):
            self._reader.receive_data(data)
            for frame in self._reader.events():
                if isinstance(frame, Error):
                    raise WireError(f"nsqd says {frame.text}")
                if isinstance(frame, Response) and frame.is_heartbeat:
                    self.send(encode.NOP)
                    continue
                yield frame
        raise WireError("nsqd closed the connection")
