"""Layers between a socket and a protocol, stacked: each turns bytes into other bytes.

No I/O happens here, so the same layers serve servers and clients, asyncio's and blocking ones:

    layers.receive_data(from_the_socket)
    while piece := layers.read():        # plain bytes, in pieces of a bounded size
        ...
    socket.send(layers.take_output())    # what a layer has to say by itself
    socket.send(layers.send(plain))

Reading is pulled, because a few compressed bytes may become very many plain ones: a layer holds
what it was given as it came, and makes no more of it at a time than it is asked for.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from penstock.core.errors import PenstockError

PIECE = 256 * 1024
"""Bytes of the largest piece of plain text."""

Bytes = bytes | bytearray | memoryview


class LayerError(PenstockError):
    """A layer can make no sense of what came; nothing after it can be read."""


class Layer(ABC):
    """One of them, both ways."""

    eof = False
    """The peer has said, inside this layer, that nothing more will come."""

    @abstractmethod
    def receive_data(self, data: Bytes) -> None:
        """Take bytes of the peer; they are held until ``read`` asks for them."""

    @abstractmethod
    def read(self) -> bytes:
        """The next plain bytes, at most ``PIECE``; none when more must come. Raises LayerError."""

    @abstractmethod
    def send(self, data: Bytes) -> bytes:
        """Encode plain bytes, so that the peer can read all of them."""

    def take_output(self) -> bytes:
        """Bytes to be sent for other reasons than ``send``: an alert, for instance."""
        return b""

    def end(self) -> bytes:
        """Bytes that tell the peer that nothing more will come."""
        return b""


class Layers:
    """A stack of layers, the outermost, next to the socket, first."""

    def __init__(self) -> None:
        self._layers: list[Layer] = []

    def set(self, layers: list[Layer], unread: Bytes = b"") -> None:
        """Put these in the place of those there were, the same objects perhaps among them.

        ``unread`` was read already but belongs to the new innermost layer.
        """
        self._layers = layers
        if unread and layers:
            layers[-1].receive_data(unread)

    def receive_data(self, data: Bytes) -> None:
        """Take bytes of the peer."""
        self._layers[0].receive_data(data)

    def read(self) -> bytes:
        """The next plain bytes, at most ``PIECE``; none when more must come. Raises LayerError."""
        return self._read(len(self._layers) - 1)

    def _read(self, depth: int) -> bytes:
        layer = self._layers[depth]
        while not (data := layer.read()):
            if not depth or not (more := self._read(depth - 1)):
                return b""
            layer.receive_data(more)
        return data

    @property
    def eof(self) -> bool:
        """True if one of the layers has ended; ask when ``read`` gives nothing more."""
        return any(layer.eof for layer in self._layers)

    def send(self, data: Bytes) -> Bytes:
        """Encode plain bytes through all layers."""
        for layer in reversed(self._layers):
            data = layer.send(data)
        return data

    def take_output(self) -> bytes:
        """Bytes that the outermost layer has to send by itself; the inner ones never have any."""
        return self._layers[0].take_output() if self._layers else b""

    def end(self) -> bytes:
        """The farewell of the outermost layer; compressed streams are never ended in NSQ."""
        return self._layers[0].end() if self._layers else b""
