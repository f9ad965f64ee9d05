"""Layers on an asyncio connection, between its transport and its protocol.

A connection that gets layers on its way (NSQ's IDENTIFY) or from the start (HTTPS) goes on as
before: its protocol is given plain bytes, and writes plain bytes to this transport. Plain bytes
come in pieces, one a pass of the loop, and none while reading is paused; when more comes before all
of them are taken, nothing further is read from the socket. So a few compressed bytes that stand for
very many can fill neither memory nor the loop's time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

from penstock.net.address import show_address
from penstock.net.tls.layers import Bytes, Layer, LayerError, Layers
from penstock.net.tls.tls_layer import TlsError, TlsLayer

# The deadline that Go's nsqd sets (NSQ spec 1.6).
HANDSHAKE_S = 5.0
"""Seconds that a TLS handshake may take, from its beginning."""
_GATHERED_MAX = 64 * 1024
"""Plain bytes that are gathered for the end of the pass; more go out at once."""

Shaken = Callable[[TlsError | None], None]


class LayeredTransport(asyncio.Transport, asyncio.Protocol):
    """A layer between a transport and the protocol that had it.

    ``on_garbage`` is told when a layer understands the peer no more; the connection is then to be
    closed, and nothing more is handed to the protocol. Writes of one pass of the loop go through
    the layers together.
    """

    def __init__(
        self,
        transport: asyncio.Transport,
        upper: asyncio.Protocol,
        on_garbage: Callable[[LayerError], None],
    ) -> None:
        super().__init__()
        self._transport = transport
        self._upper = upper
        self._on_garbage = on_garbage
        self._layers = Layers()
        self._loop = asyncio.get_running_loop()
        self._gathered: list[Bytes] = []
        self._gathered_size = 0
        self._pump_due: asyncio.Handle | None = None
        self._raw_paused = False
        self._paused = False
        self._eof = False
        self._eof_told = False
        self._deaf = False  # whatever comes now is of no use
        self._ended = False
        self._handshake: _Handshake | None = None
        transport.set_protocol(self)
        transport.resume_reading()  # what was held up is handed to the layers

    # --- the layers ------------------------------------------------------------------------------

    def set_layers(self, layers: list[Layer], unread: Bytes = b"") -> None:
        """From now on these, the outermost first; ``unread`` came already and is for the last."""
        # What was written before goes out without the new layers, as the peer expects it.
        self._flush()
        self._layers.set(layers, unread)
        self._pump_soon()

    def start_tls(self, layer: TlsLayer, unread: bytes, shaken: Shaken) -> None:
        """Shake hands, with this layer alone; tells ``shaken`` the outcome.

        Nothing may be written meanwhile. ``shaken`` may set further layers, before anything is
        read. After a failure what is written goes out in the clear: a peer that never spoke TLS
        can read it, others have had an alert.
        """
        self._flush()
        self._layers.set([])
        self._resume_raw()
        self._handshake = _Handshake(self, layer, shaken)
        self._handshake.proceed(unread)

    def handshake_ended(self, layer: TlsLayer, error: TlsError | None, shaken: Shaken) -> None:
        """Note the outcome of the handshake; for the handshake itself."""
        self._handshake = None
        self.send_raw(layer.take_output())
        if error is None:
            self._layers.set([layer])
        else:
            self._deaf = True
        shaken(error)
        self._pump_soon()

    def send_raw(self, data: bytes) -> None:
        """Send bytes of the handshake."""
        if data and not self._ended and not self._transport.is_closing():
            self._transport.write(data)

    # --- the way in ------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        if self._deaf:
            return
        if self._handshake is not None:
            self._handshake.proceed(data)
            return
        self._layers.receive_data(data)
        if self._pump_due is None and not self._paused:
            self._pump()
        else:
            # Plain bytes are not taken: more ciphertext would only wait in memory.
            self._pause_raw()

    def _pump_soon(self) -> None:
        if self._pump_due is None and not self._deaf:
            self._pump_due = self._loop.call_soon(self._pump)

    def _pump(self) -> None:
        """Hand over the next piece; when there may be more, that is for the next pass."""
        self._pump_due = None
        if self._deaf or self._paused or self._handshake is not None:
            return
        if self._transport.is_closing():
            return
        try:
            piece = self._layers.read()
        except LayerError as error:
            self._garbage(error)
            return
        self.send_raw(self._layers.take_output())
        if piece:
            # Before the piece is handed over: its taker may pause, or set other layers, meanwhile.
            self._pump_soon()
            self._upper.data_received(piece)
        else:
            self._resume_raw()
            if self._layers.eof or self._eof:
                self._tell_eof()

    def _garbage(self, error: LayerError) -> None:
        self._deaf = True
        self._resume_raw()
        if not self._ended:
            self.send_raw(self._layers.take_output())
            self._on_garbage(error)

    def eof_received(self) -> bool:
        self._eof = True
        if self._handshake is not None:
            self._handshake.cut_short()
            return True
        if self._deaf:
            return False
        self._pump_soon()
        # True keeps the socket open for answers; the layers may still hold bytes to be read.
        return True

    def _tell_eof(self) -> None:
        if not self._eof_told:
            self._eof_told = True
            if not self._upper.eof_received():
                self.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._deaf = True
        if self._handshake is not None:
            self._handshake.cancel()
        self._gathered.clear()
        self._upper.connection_lost(exc)

    def pause_writing(self) -> None:
        self._upper.pause_writing()

    def resume_writing(self) -> None:
        self._upper.resume_writing()

    # --- the way out -----------------------------------------------------------------------------

    def write(self, data: Bytes) -> None:
        if self._ended:
            return
        if not self._gathered:
            self._loop.call_soon(self._flush)
        self._gathered.append(data)
        self._gathered_size += len(data)
        if self._gathered_size > _GATHERED_MAX:
            self._flush()

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        for data in list_of_data:
            self.write(data)

    def _flush(self) -> None:
        if self._gathered:
            plain = self._gathered[0] if len(self._gathered) == 1 else b"".join(self._gathered)
            self._gathered.clear()
            self._gathered_size = 0
            if not self._transport.is_closing():
                self._transport.write(self._layers.send(plain))

    def can_write_eof(self) -> bool:
        return self._transport.can_write_eof()

    def write_eof(self) -> None:
        self._end()
        self._transport.write_eof()

    def _end(self) -> None:
        """Send what is left, and the farewell."""
        self._flush()
        if not self._ended:
            self.send_raw(self._layers.end())
            self._ended = True

    def get_write_buffer_size(self) -> int:
        return self._transport.get_write_buffer_size() + self._gathered_size

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._transport.get_write_buffer_limits()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._transport.set_write_buffer_limits(high, low)

    # --- the connection --------------------------------------------------------------------------

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        assert isinstance(protocol, asyncio.Protocol)
        self._upper = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self._upper

    def is_closing(self) -> bool:
        return self._transport.is_closing()

    def close(self) -> None:
        if not self._transport.is_closing():
            self._end()
        self._transport.close()

    def abort(self) -> None:
        self._transport.abort()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._transport.get_extra_info(name, default)

    def is_reading(self) -> bool:
        return not self._paused

    def pause_reading(self) -> None:
        """Hand over nothing more; the socket is left alone while that holds."""
        self._paused = True

    def resume_reading(self) -> None:
        if self._paused:
            self._paused = False
            self._pump_soon()

    def _pause_raw(self) -> None:
        if not self._raw_paused and not self._eof and not self._transport.is_closing():
            self._raw_paused = True
            self._transport.pause_reading()

    def _resume_raw(self) -> None:
        if self._raw_paused:
            self._raw_paused = False
            if not self._transport.is_closing():
                self._transport.resume_reading()


class _Handshake:
    """A TLS handshake under way, with its deadline."""

    def __init__(self, owner: LayeredTransport, layer: TlsLayer, shaken: Shaken) -> None:
        self._owner = owner
        self._layer = layer
        self._shaken = shaken
        loop = asyncio.get_running_loop()
        self._deadline = loop.call_later(HANDSHAKE_S, self._time_out)

    def proceed(self, data: bytes) -> None:
        self._layer.receive_data(data)
        try:
            done = self._layer.shake_hands()
        except TlsError as error:
            self._end(error)
            return
        if done:
            self._end(None)
        else:
            self._owner.send_raw(self._layer.take_output())

    def cut_short(self) -> None:
        self._end(self._layer.cut_short())

    def _time_out(self) -> None:
        ends = [
            show_address(self._owner.get_extra_info(name) or "")
            for name in ("sockname", "peername")
        ]
        self._end(TlsError(f"read tcp {ends[0]}->{ends[1]}: i/o timeout"))

    def _end(self, error: TlsError | None) -> None:
        self.cancel()
        self._owner.handshake_ended(self._layer, error, self._shaken)

    def cancel(self) -> None:
        self._deadline.cancel()
