"""One blocking connection to a node: what ``Wire`` has to say goes out, what comes goes into it.

No thread runs beside it. Heartbeats are answered whenever something is received, so an owner that
is silent for two of them (by default a minute), in a slow handler for instance, loses the
connection: let it call ``receive_ready`` now and then, or ask for longer ``heartbeat_interval``.
"""

from __future__ import annotations

import contextlib
import select
import socket
from collections import deque

from penstock.core.clock import SYSTEM_CLOCK
from penstock.core.reasons import reason as reason_of
from penstock.core.units import SECOND
from penstock.net.outgoing import connect_error_text, connect_target, local_target
from penstock.nsq.client.blocking import forks
from penstock.nsq.client.config import Config
from penstock.nsq.client.connect.server_info import ServerInfo
from penstock.nsq.client.connect.wire import Wire
from penstock.nsq.client.errors import ClientError, NotConnected, TimedOut
from penstock.nsq.client.state import ConnectionState
from penstock.nsq.protocol.frames import Frame

_READ_SIZE = 256 * 1024


class Connection:
    """One connection to a node, opened and identified on construction.

    It is subscribed when a topic and a channel are given. Connecting takes ``dial_timeout`` at
    most, each answer ``read_timeout``. Raises NotConnected; ServerError for a refusal;
    HandshakeFailed and BadTlsOptions where trying again would not help.
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
        self._wire = Wire(address, self.config, topic, channel)
        self._frames: deque[Frame] = deque()
        self._socket: socket.socket | None = self._connect_socket()
        forks.watch(self)
        # ``select`` would refuse descriptors above 1023.
        self._readable, self._writable = select.poll(), select.poll()
        self._readable.register(self._socket, select.POLLIN)
        self._writable.register(self._socket, select.POLLOUT)
        try:
            self._shake_hands()
        except BaseException:
            self.close()
            raise

    def _connect_socket(self) -> socket.socket:
        target, local = connect_target(self.address), local_target(self.config.local_addr)
        try:
            opened = socket.create_connection(target, self.config.dial_timeout or None, local)
        except (OSError, UnicodeError) as error:
            kind = TimedOut if isinstance(error, TimeoutError) else NotConnected
            raise kind(self.address, connect_error_text(self.address, error)) from error
        # Commands are gathered here already, so Nagle's algorithm would only delay them.
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # All waiting is done by ``poll``, so that each wait has its own time-out.
        opened.setblocking(False)
        return opened

    def _shake_hands(self) -> None:
        seconds = self.config.read_timeout
        end = SYSTEM_CLOCK.monotonic_ns() + int(seconds * SECOND)
        self._wire.begin()
        self._flush()
        while not self._wire.is_ready:
            left = max(0, end - SYSTEM_CLOCK.monotonic_ns())
            if not self._take_what_comes(left / SECOND):
                raise self._late(seconds, f" ({self._wire.awaited})")

    # --- what can be seen ------------------------------------------------------------------------

    @property
    def state(self) -> ConnectionState:
        """The visible state of the connection; live."""
        return self._wire.state

    @property
    def server(self) -> ServerInfo:
        """The node's description of itself."""
        return self._wire.server

    @property
    def ready(self) -> int:
        """The RDY that the node was told last."""
        return self.state.ready

    @property
    def in_flight(self) -> int:
        """Messages received and not answered yet."""
        return self.state.in_flight

    @property
    def is_open(self) -> bool:
        """True unless the connection is known to be lost or closed."""
        return self._socket is not None

    def fileno(self) -> int:
        """The descriptor for selectors; -1 when closed."""
        return -1 if self._socket is None else self._socket.fileno()

    # --- the way in ------------------------------------------------------------------------------

    def receive(self, timeout: float | None = None) -> Frame:
        """The next frame; heartbeats are answered and left out.

        Each wait is ``timeout`` seconds at most (``read_timeout`` when None). Raises
        NotConnected, TimedOut.
        """
        seconds = self.config.read_timeout if timeout is None else timeout
        while not self._frames:
            if not self._take_what_comes(seconds):
                raise self._late(seconds)
        return self._frames.popleft()

    def receive_ready(self) -> list[Frame]:
        """The frames that have arrived, without waiting. Raises NotConnected."""
        data = self._read(self._opened())
        if data is not None:
            self._take(data)
        frames = list(self._frames)
        self._frames.clear()
        return frames

    def _take_what_comes(self, seconds: float) -> bool:
        """Wait for bytes; whether any came in time."""
        opened = self._opened()
        while (data := self._read(opened)) is None:
            if not self._readable.poll(seconds * 1000):
                return False
        self._take(data)
        return True

    def _read(self, opened: socket.socket) -> bytes | None:
        """The bytes that have arrived; None if there are none."""
        try:
            data = opened.recv(_READ_SIZE)
        except BlockingIOError:
            return None
        except OSError as error:
            raise self._lost(reason_of(error)) from error
        if not data:
            raise self._lost()
        return data

    def _take(self, data: bytes) -> None:
        wire = self._wire
        wire.receive_data(data)
        try:
            while frames := wire.events():
                self._frames.extend(frames)
        except ClientError:
            with contextlib.suppress(NotConnected):  # it may hear why
                self._flush()
            self.close()
            raise
        if wire.has_output:
            self._flush()

    # --- the way out -----------------------------------------------------------------------------

    def send(self, data: bytes) -> None:
        """Send commands as they are. Raises NotConnected."""
        self._opened()
        self._wire.send(data)
        self._flush()

    def answer(self, command: bytes) -> bool:
        """Send commands about messages, all of a kind; False when the connection is gone."""
        if self._socket is None:
            return False
        self._wire.answer(command)
        try:
            self._flush()
        except NotConnected:
            return False
        return True

    def set_ready(self, count: int) -> None:
        """RDY, unless it is that already; capped by what the server allows. Raises NotConnected."""
        self._wire.set_ready(count)
        self._flush()

    def add_in_flight(self, count: int) -> None:
        """Count ``count`` more messages in flight."""
        self.state.in_flight += count

    def settled(self, count: int = 1) -> None:
        """Count ``count`` fewer messages in flight."""
        self.state.in_flight -= count

    def close(self) -> None:
        """Close at once. Closing again does nothing."""
        closing, self._socket = self._socket, None
        if closing is not None:
            closing.close()

    # The node hears nothing of it, as the parent still has the socket.
    leave_to_parent = close

    def _flush(self) -> None:
        left = memoryview(self._wire.take_output())
        opened = self._opened()
        try:
            while left:
                left = self._send_some(opened, left)
        except BaseException:  # of a signal's handler, say: nothing may follow half a command
            self.close()
            raise

    def _send_some(self, opened: socket.socket, left: memoryview) -> memoryview:
        """The bytes that are left after the socket has taken some."""
        try:
            return left[opened.send(left) :]
        except BlockingIOError:
            self._wait_until_writable()
            return left
        except OSError as error:
            raise self._lost(reason_of(error)) from error

    def _wait_until_writable(self) -> None:
        seconds = self.config.write_timeout
        if not self._writable.poll(seconds * 1000):
            text = f"the server took nothing of what was sent for {seconds:g} s"
            raise self._lost(text, TimedOut)

    def _opened(self) -> socket.socket:
        if self._socket is None:
            raise NotConnected(self.address, "the connection is closed")
        return self._socket

    def _lost(self, reason: str = "", kind: type[NotConnected] = NotConnected) -> NotConnected:
        self.close()
        return kind(self.address, self._wire.lost(reason).reason)

    def _late(self, seconds: float, what: str = "") -> NotConnected:
        return self._lost(f"no answer within {seconds:g} s{what}", TimedOut)
