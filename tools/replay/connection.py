"""A client connection to nsqd, byte by byte, with the layers it was upgraded to."""

from __future__ import annotations

import asyncio
import ssl
import struct
from contextlib import suppress

from .layers import Alert, Layer, LayerError, Tls
from .parts import shorten

FRAME_S_MAX = 30.0
"""Longest wait for a frame: a deferred message of a new channel may be 5 s late in Go."""
RESPONSE, ERROR, MESSAGE = 0, 1, 2
CLOSED, SILENT, GARBAGE = -1, -2, -3
"""What `frame()` says in place of a frame's type."""


class Miss(Exception):
    """The daemon did something else than recorded: the step, what was expected, what came."""

    def __init__(self, where: str, expected: object, actual: object) -> None:
        super().__init__(where, expected, actual)
        self.where, self.expected, self.actual = where, shorten(expected), shorten(actual)


class Connection:
    """One connection. Bytes pass the layers in the order in which they were added."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._layers: list[Layer] = []
        self._plain = b""

    @classmethod
    async def open(cls, port: int, host: str = "127.0.0.1") -> Connection:
        """Connect; nothing is sent yet."""
        return cls(*await asyncio.open_connection(host, port))

    @classmethod
    async def open_unix(cls, path: str) -> Connection:
        """The same over a unix socket."""
        return cls(*await asyncio.open_unix_connection(path))

    async def send(self, data: bytes) -> None:
        """Send; a connection the server has closed meanwhile shows in a later step."""
        for layer in reversed(self._layers):
            data = layer.encode(data)
        await self.send_below(data)

    async def send_below(self, data: bytes) -> None:
        """Send these bytes as they are, past all layers."""
        if self._writer.transport.is_closing():
            return
        with suppress(ConnectionError):
            self._writer.write(data)
            await self._writer.drain()

    async def frame(self) -> tuple[int, bytes]:
        """The next frame: type and data; or CLOSED, SILENT or GARBAGE and some words."""
        try:
            async with asyncio.timeout(FRAME_S_MAX):
                size, kind = struct.unpack(">ii", await self.exactly(8))
                return kind, await self.exactly(size - 4)
        except (asyncio.IncompleteReadError, ConnectionError, Alert):
            return CLOSED, b"<closed>"
        except TimeoutError:
            return SILENT, b"<nothing>"
        except LayerError as error:
            return GARBAGE, str(error).encode()

    async def exactly(self, size: int) -> bytes:
        """So many bytes. Raises asyncio.IncompleteReadError, ConnectionError or LayerError."""
        while len(self._plain) < size:
            if not await self._fill():
                raise asyncio.IncompleteReadError(self._plain, size)
        data, self._plain = self._plain[:size], self._plain[size:]
        return data

    async def closed(self) -> bytes | None:
        """None when the connection ends, else what came instead."""
        try:
            async with asyncio.timeout(FRAME_S_MAX):
                while not self._plain:
                    if not await self._fill():
                        return None
                return self._plain
        except (ConnectionError, Alert):
            return None
        except TimeoutError:
            return b"<still open>"
        except LayerError as error:
            return str(error).encode()

    async def silence(self, seconds: float) -> bytes:
        """What arrives within this time; nothing is wanted."""
        try:
            async with asyncio.timeout(seconds):
                while not self._plain:
                    if not await self._fill():
                        return b"<closed>"
                return self._plain
        except (ConnectionError, Alert):
            return b"<closed>"
        except TimeoutError:
            return b""

    async def _fill(self) -> bool:
        """Read what is there; False at the end of the stream."""
        data = await self._reader.read(1 << 16)
        if not data:
            return False
        for layer in self._layers:
            data = layer.decode(data)
        self._plain += data
        return True

    def add(self, layer: Layer) -> None:
        """From here on both directions continue inside this layer."""
        self._layers.append(layer)
        self._plain = layer.decode(self._plain)

    async def start_tls(self, context: ssl.SSLContext) -> Tls:
        """Shake hands. Raises LayerError when that fails, also when the server closes meanwhile."""
        layer = Tls(context)
        out, done = layer.handshake(b"")
        async with asyncio.timeout(FRAME_S_MAX):
            while True:
                await self.send_below(out)
                if done:
                    self._layers.append(layer)
                    self._plain = layer.decode(b"")
                    return layer
                try:
                    data = await self._reader.read(1 << 16)
                except ConnectionError:
                    data = b""
                if not data:
                    raise LayerError("closed during the handshake")
                out, done = layer.handshake(data)

    def half_close(self) -> None:
        """Nothing more is sent; what comes is still read."""
        self._writer.write_eof()

    def close(self) -> None:
        """Close both directions."""
        self._writer.close()

    def reset(self) -> None:
        """Close without a farewell."""
        self._writer.transport.abort()
