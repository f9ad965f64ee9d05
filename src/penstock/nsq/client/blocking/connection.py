"""One blocking connection to a node."""

from __future__ import annotations

import logging
import socket
from collections import deque

from penstock.net.address import split_host_port
from penstock.nsq.client.config import Config
from penstock.nsq.client.errors import NotConnected, TimedOut
from penstock.nsq.client.handshake import Handshake, ServerInfo
from penstock.nsq.protocol import encode
from penstock.nsq.protocol.errors import ProtocolError
from penstock.nsq.protocol.frames import Frame, FrameReader, Response

_log = logging.getLogger("penstock.nsq.client")

_READ_SIZE = 256 * 1024


class Connection:
    """One connection to a node, opened and identified on construction.

    It is subscribed when a topic and a channel are given. Raises NotConnected, ServerError.
    """

    def __init__(
        self,
        address: str,
        config: Config | None = None,
        topic: str = "",
        channel: str = "",
    ) -> None:
        self.address = address
        self.config = config or Config()
        self.server = ServerInfo()
        self.ready = 0
        self.in_flight = 0
        self._reader = FrameReader()
        self._frames: deque[Frame] = deque()
        self._socket: socket.socket | None = self._open()
        try:
            self._shake_hands(Handshake(self.config, topic, channel))
        except BaseException:
            self.close()
            raise

    def _open(self) -> socket.socket:
        target = split_host_port(self.address)
        try:
            opened = socket.create_connection(target, self.config.dial_timeout)
        except OSError as error:
            raise NotConnected(self.address, str(error)) from error
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        opened.settimeout(self.config.read_timeout)
        return opened

    def _shake_hands(self, handshake: Handshake) -> None:
        self.send(handshake.begin())
        while not handshake.done:
            more = handshake.receive(self.receive())
            if more:
                self.send(more)
        self.server = handshake.server

    @property
    def is_open(self) -> bool:
        """Whether the connection was not lost or closed as far as is known."""
        return self._socket is not None

    def fileno(self) -> int:
        """For selectors; -1 when closed."""
        return -1 if self._socket is None else self._socket.fileno()

    def send(self, data: bytes) -> None:
        """Send commands as they are. Raises NotConnected."""
        if self._socket is None:
            raise NotConnected(self.address, "the connection is closed")
        try:
            self._socket.sendall(data)
        except OSError as error:
            raise self._lost(error) from error

    def receive(self, timeout: float | None = None) -> Frame:
        """The next frame; heartbeats are answered and left out.

        Each wait is ``timeout`` seconds at most (``read_timeout`` when None). Raises
        NotConnected, TimedOut.
        """
        while not self._frames:
            if self._socket is not None and timeout is not None:
                self._socket.settimeout(timeout)
            self._fill(self._read())
            self._restore_timeout()
        return self._frames.popleft()

    def receive_ready(self) -> list[Frame]:
        """The frames that have arrived by now, without waiting. Raises NotConnected."""
        if self._socket is not None:
            self._socket.setblocking(False)
        try:
            self._fill(self._read())
        except BlockingIOError:
            pass
        finally:
            self._restore_timeout()
        frames = list(self._frames)
        self._frames.clear()
        return frames

    def _restore_timeout(self) -> None:
        if self._socket is not None:
            self._socket.settimeout(self.config.read_timeout)

    def _read(self) -> bytes:
        if self._socket is None:
            raise NotConnected(self.address, "the connection is closed")
        try:
            data = self._socket.recv(_READ_SIZE)
        except BlockingIOError:
            raise
        except OSError as error:
            raise self._lost(error) from error
        if not data:
            raise self._lost(ConnectionError("the server closed the connection"))
        return data

    def _fill(self, data: bytes) -> None:
        self._reader.receive_data(data)
        try:
            frames = self._reader.events()
        except ProtocolError as error:
            raise self._lost(error) from error
        for frame in frames:
            if isinstance(frame, Response) and frame.is_heartbeat:
                self.send(encode.NOP)
            else:
                self._frames.append(frame)

    def _lost(self, error: Exception) -> NotConnected:
        self.close()
        kind = TimedOut if isinstance(error, TimeoutError) else NotConnected
        return kind(self.address, str(error) or repr(error))

    def close(self) -> None:
        """Close at once. Closing again does nothing."""
        closing, self._socket = self._socket, None
        if closing is not None:
            closing.close()

    def answer(self, command: bytes) -> bool:
        """Send a command about a message; False when the connection is gone."""
        try:
            self.send(command)
        except NotConnected as error:
            _log.warning("%s", error)
            return False
        return True

    def settled(self, count: int = 1) -> None:
        """So many messages in flight less."""
        self.in_flight = max(0, self.in_flight - count)

    def set_ready(self, count: int) -> None:
        """RDY, unless it is that already; capped by what the server allows."""
        count = min(count, self.server.max_rdy_count)
        if count != self.ready:
            self.ready = count
            self.send(encode.ready(count))
