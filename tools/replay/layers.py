"""What a client of nsqd puts between its frames and its socket: TLS, snappy, deflate.

Each layer turns bytes into bytes, so that they stack. Built on ssl, zlib and cramjam alone and on
nothing of Penstock, because it checks Penstock's own.
"""

from __future__ import annotations

import ssl
import zlib
from typing import Protocol

import cramjam

SNAPPY_IDENTIFIER = b"\xff\x06\x00\x00sNaPpY"
_SKIPPABLE = 0x80
_PADDING = 0xFE
_UNCOMPRESSED = 0x01


class LayerError(Exception):
    """The server's bytes are not what the layer promises, or the handshake failed."""


class Alert(LayerError):
    """TLS was ended by the other side, with or without a reason."""


class Layer(Protocol):
    """One direction each; `decode` gives what is complete so far and keeps the rest."""

    def encode(self, data: bytes) -> bytes: ...

    def decode(self, data: bytes) -> bytes: ...


class Deflate:
    """Raw RFC 1951, one stream per direction, flushed after every write (NSQ spec 1.6)."""

    def __init__(self) -> None:
        self._out = zlib.compressobj(6, zlib.DEFLATED, -zlib.MAX_WBITS)
        self._in = zlib.decompressobj(-zlib.MAX_WBITS)

    def encode(self, data: bytes) -> bytes:
        return self._out.compress(data) + self._out.flush(zlib.Z_SYNC_FLUSH)

    def decode(self, data: bytes) -> bytes:
        try:
            return self._in.decompress(data)
        except zlib.error as error:
            raise LayerError(str(error)) from None


class Snappy:
    """The snappy framing format; the server's identifier must come once, and first.

    `restarts`: every write begins with an identifier, as pynsq's do. `odd`: every write is padding,
    a skippable chunk and an uncompressed one, which a receiver must take as well.
    """

    def __init__(self, *, restarts: bool = False, odd: bool = False) -> None:
        self._restarts = restarts
        self._odd = odd
        self._started = False
        self._buffer = b""
        self._identified = False

    def encode(self, data: bytes) -> bytes:
        framed = bytes(cramjam.snappy.compress(data)).removeprefix(SNAPPY_IDENTIFIER)
        if self._odd:
            checksum = framed[4:8]  # of the data itself, whatever the chunk holds
            skipped = _chunk(_PADDING, bytes(5)) + _chunk(_SKIPPABLE, b"skip me")
            framed = skipped + _chunk(_UNCOMPRESSED, checksum + data)
        begins = self._restarts or not self._started
        self._started = True
        return (SNAPPY_IDENTIFIER if begins else b"") + framed

    def decode(self, data: bytes) -> bytes:
        self._buffer += data
        plain = []
        while len(self._buffer) >= 4:
            end = 4 + int.from_bytes(self._buffer[1:4], "little")
            if len(self._buffer) < end:
                break
            chunk, self._buffer = self._buffer[:end], self._buffer[end:]
            plain.append(self._plain(chunk))
        return b"".join(plain)

    def _plain(self, chunk: bytes) -> bytes:
        if (chunk == SNAPPY_IDENTIFIER) == self._identified:
            raise LayerError("the stream identifier comes once, and first")
        if chunk == SNAPPY_IDENTIFIER:
            self._identified = True
            return b""
        try:
            return bytes(cramjam.snappy.decompress(SNAPPY_IDENTIFIER + chunk))
        except cramjam.DecompressionError as error:
            raise LayerError(str(error)) from None


def _chunk(kind: int, data: bytes) -> bytes:
    return bytes([kind]) + len(data).to_bytes(3, "little") + data


class Tls:
    """TLS as a client; first of all `handshake` is called until it says that it is done."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self._in, self._out, server_hostname="localhost")

    def handshake(self, data: bytes) -> tuple[bytes, bool]:
        """Takes what the server sent; what to send, and whether the handshake is over."""
        self._in.write(data)
        try:
            self.tls.do_handshake()
        except ssl.SSLWantReadError:
            return self._out.read(), False
        except ssl.SSLError as error:
            raise LayerError(str(error)) from None
        return self._out.read(), True

    def encode(self, data: bytes) -> bytes:
        self.tls.write(data)
        return self._out.read()

    def decode(self, data: bytes) -> bytes:
        self._in.write(data)
        plain = []
        try:
            while block := self.tls.read(1 << 16):
                plain.append(block)
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError as error:
            raise Alert(str(error)) from None
        return b"".join(plain)
