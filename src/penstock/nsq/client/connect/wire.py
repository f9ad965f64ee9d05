"""The client's half of a connection, without I/O: bytes in, frames out; commands in, bytes out.

    wire = Wire(address, config, topic, channel)
    wire.begin()
    socket.send(wire.take_output())
    wire.receive_data(socket.recv(n))
    while frames := wire.events():       # handshake and heartbeats are dealt with in here
        ...
    wire.send(encode.ready(5))
    socket.send(wire.take_output())      # all that was said since the last time, as one write

It knows TLS, deflate and snappy, which a node puts on after IDENTIFY; without them a chunk goes to
the reader of frames as it came. Frames are pulled, so that a few compressed bytes that stand for
very many become only as much at a time as the owner takes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from penstock.core.clock import SYSTEM_CLOCK, Clock
from penstock.core.units import SECOND
from penstock.net.tls.layers import Layer, LayerError, Layers
from penstock.nsq.client.config import Config
from penstock.nsq.client.connect.handshake import AnswerReader, Handshake, HandshakeStep, NotNsq
from penstock.nsq.client.connect.server_info import ServerInfo
from penstock.nsq.client.errors import HandshakeFailed, NotConnected
from penstock.nsq.client.events import tell
from penstock.nsq.client.state import ConnectionState
from penstock.nsq.protocol import encode
from penstock.nsq.protocol.errors import ProtocolError
from penstock.nsq.protocol.frames import (
    BODY_AT,
    FIN_LENGTH,
    Error,
    Frame,
    FrameReader,
    MessageBlock,
    Response,
)

if TYPE_CHECKING:
    import ssl

    from penstock.net.tls.tls_layer import TlsLayer

_FRAME_MAX: Final = 64 * 1024 * 1024
"""Bytes of a frame that is taken where ``max_msg_size`` sets no other limit."""
_SIZE_BYTES: Final = 4
_CLOSED: Final = "the server closed the connection"


class Wire:
    """One connection, of a consumer when a topic and a channel are given.

    Raises BadTlsOptions when TLS is asked for with files that cannot be used.
    """

    def __init__(
        self,
        address: str,
        config: Config,
        topic: str = "",
        channel: str = "",
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.address = address
        self.server = ServerInfo()
        self.state = ConnectionState(address)
        self.is_ready = False
        """True if the handshake is done."""
        self.pending = 0
        """Bytes of the commands that ``take_output`` would give; layers may change that."""
        self._config = config
        self._subscription = (topic, channel)
        self._clock = clock
        self._handshake = Handshake(address, config, topic, channel)
        self._answers = AnswerReader()
        # A frame's size does not count its own 4 bytes.
        longest = config.max_msg_size + BODY_AT - _SIZE_BYTES if config.max_msg_size else _FRAME_MAX
        self._reader = FrameReader(longest)
        self._sink: Callable[[bytes], None] = self._answers.receive_data
        self._stack: list[Layer] = []
        self._layers = Layers()
        self._shaking: TlsLayer | None = None
        self._said: list[bytes] = []  # commands, to go through the layers
        self._sealed: list[bytes] = []  # what went through them
        # Before connecting: files that cannot be read are the program's fault, not the node's.
        self._tls_context = self._read_tls_files() if config.tls_v1 else None

    # --- the way in ------------------------------------------------------------------------------

    def begin(self) -> None:
        """Say the first words, once connected."""
        self._ask(self._handshake.begin())

    def receive_data(self, data: bytes) -> None:
        """Take bytes of the node."""
        self._sink(data)

    def events(self) -> list[Frame]:
        """The next frames for the owner, at least one; none when more must come.

        ``take_output`` may have something to send afterwards, in case of an error as well. Raises
        ServerError and HandshakeFailed before the handshake is done; NotConnected after it.
        """
        try:
            if not self.is_ready and not self._shake_hands():
                return []
            while True:
                frames = self._reader.events()
                if frames and (frames := self._sift(frames)):
                    return frames
                if not self._stack or not (piece := self._next_piece()):
                    return []
                self._reader.receive_data(piece)
        except (ProtocolError, LayerError, NotNsq) as error:
            if self.is_ready:
                raise NotConnected(self.address, str(error)) from error
            raise HandshakeFailed(self.address, str(error)) from error

    def lost(self, reason: str = "") -> NotConnected:
        """The error to report when the connection ends, by itself when there is no reason."""
        if not reason:
            reason = _CLOSED
            error = self.state.last_error
            if error and Error(error).is_fatal:
                reason += f" after {error}"
            elif not self.is_ready:
                reason += f" before it answered ({self.awaited})"
        return NotConnected(self.address, reason)

    @property
    def awaited(self) -> str:
        """The step that the handshake waits for."""
        return "TLS handshake" if self._shaking else self._handshake.awaited

    def _next_piece(self) -> bytes:
        piece = self._layers.read()
        if not piece and self._layers.eof:
            raise self.lost()
        return piece

    def _sift(self, frames: list[Frame]) -> list[Frame]:
        """Count, answer heartbeats and leave them out."""
        state = self.state
        heartbeats = 0
        for frame in frames:
            if type(frame) is MessageBlock:
                state.messages += frame.count
            elif type(frame) is Error:
                state.last_error = frame.text
                self._tell(logging.ERROR, "error-frame", f"protocol error - {frame.text}")
            # A producer gets almost nothing but OKs: there is nothing to note about them.
            elif type(frame) is Response and frame.data != b"OK":
                heartbeats += frame.is_heartbeat
                state.left |= frame.data == b"CLOSE_WAIT"
        if not heartbeats:
            return frames
        self._tell(logging.DEBUG, "protocol", "heartbeat received")
        state.last_heartbeat = self._clock.wall_ns() / SECOND
        state.last_heartbeat_monotonic = self._clock.monotonic_ns() / SECOND
        self.send(encode.NOP * heartbeats)
        return [one for one in frames if not (type(one) is Response and one.is_heartbeat)]

    # --- the handshake ---------------------------------------------------------------------------

    def _shake_hands(self) -> bool:
        """Go on with it; whether it is done."""
        handshake = self._handshake
        while not handshake.done:
            if self._shaking is not None and not self._shake_tls(self._shaking):
                return False
            if (frame := self._next_answer()) is None:
                return False
            if (ask := handshake.receive(frame)) is not None:
                self._ask(ask)
        self._settle()
        return True

    def _ask(self, ask: HandshakeStep) -> None:
        if ask.command:
            self.send(ask.command)
        elif ask.layer == "tls":
            self._begin_tls()
        else:
            layer = compression(ask.layer, self._config, self._handshake.server)
            self._put_on(layer, self._answers.rest())
            self.state.compression = ask.layer

    def _read_tls_files(self) -> ssl.SSLContext:
        from penstock.nsq.client.connect.tls import context_of

        return context_of(self._config)

    def _begin_tls(self) -> None:
        from penstock.nsq.client.connect.tls import layer_of

        context = self._tls_context or self._read_tls_files()
        layer = layer_of(context, self.address, self._config.tls_server_name)
        layer.receive_data(self._answers.rest())
        self._shaking = layer
        self._sink = layer.receive_data

    def _shake_tls(self, layer: TlsLayer) -> bool:
        try:
            if not layer.shake_hands():
                return False
        # In case of a failure as well: the alert tells the node why.
        finally:
            self._seal()
            self._sealed.append(layer.take_output())
        self._shaking = None
        self._put_on(layer)
        self.state.tls = layer.version
        return True

    def _put_on(self, layer: Layer, unread: bytes = b"") -> None:
        self._seal()
        self._stack.append(layer)
        self._layers.set(self._stack, unread)
        self._sink = self._layers.receive_data

    def _next_answer(self) -> Frame | None:
        while (frame := self._answers.next()) is None:
            if not self._stack or not (piece := self._next_piece()):
                return None
            self._answers.receive_data(piece)
        return frame

    def _settle(self) -> None:
        self.is_ready = True
        self.server = self._handshake.server
        self.state.server_version = self.server.version
        self.state.connected_at = self._clock.wall_ns() / SECOND
        # What came behind the last answer, a heartbeat for instance.
        self._reader.receive_data(self._answers.rest())
        if not self._stack:
            self._sink = self._reader.receive_data

    # --- the way out -----------------------------------------------------------------------------

    def send(self, commands: bytes) -> None:
        """Say these commands, next time that the output is taken."""
        self._said.append(commands)
        self.pending += len(commands)

    def answer(self, commands: bytes) -> None:
        """Say commands about messages, all of them FIN, REQ or TOUCH; they are counted."""
        self.send(commands)
        if commands.startswith(b"FIN"):
            self.state.finished += len(commands) // FIN_LENGTH
        elif commands.startswith(b"REQ"):
            self.state.requeued += commands.count(b"\n")

    def set_ready(self, count: int) -> None:
        """RDY, unless it is that already; capped by what the node allows."""
        # A node ends a connection that asks for more (NSQ spec 1.3, RDY).
        count = min(count, self.server.max_rdy_count)
        if count != self.state.ready:
            self.state.ready = count
            self.send(encode.ready(count))

    @property
    def has_output(self) -> bool:
        """True if there is, or may be, something to send."""
        return bool(self._said or self._sealed or self._stack)

    def take_output(self) -> bytes:
        """The bytes to be sent, all of them in one piece; perhaps none."""
        self._seal()
        sealed = self._sealed
        output = sealed[0] if len(sealed) == 1 else b"".join(sealed)
        sealed.clear()
        return output

    def end(self) -> None:
        """Say, inside TLS, that nothing more will come."""
        self._seal()
        self._sealed.append(self._layers.end())

    def _seal(self) -> None:
        said = self._said
        if said:
            plain = said[0] if len(said) == 1 else b"".join(said)
            said.clear()
            self.pending = 0
            self._sealed.append(bytes(self._layers.send(plain)) if self._stack else plain)
        # TLS may have to answer by itself, a key update for instance.
        if self._stack and (more := self._layers.take_output()):
            self._sealed.append(more)

    def _tell(self, level: int, event: str, text: str) -> None:
        topic, channel = self._subscription
        tell(level, event, text, address=self.address, topic=topic, channel=channel)


def compression(name: str, config: Config, server: ServerInfo) -> Layer:
    """A new layer of ``deflate`` or ``snappy``."""
    if name == "snappy":
        from penstock.nsq.protocol.snappy import SnappyLayer

        return SnappyLayer()
    from penstock.nsq.protocol.deflate import DeflateLayer

    # The node may have lowered the level that was asked for.
    level = server.deflate_level if 1 <= server.deflate_level <= 9 else config.deflate_level
    return DeflateLayer(level)
