"""The deflate layer: raw RFC 1951, one stream for each direction (NSQ spec 1.6).

The streams never end. All that is sent together ends in a sync flush, so the peer can read it.
"""

from __future__ import annotations

from collections import deque

from penstock.net.tls.layers import PIECE, Bytes, Layer, LayerError

try:
    from zlib_ng import zlib_ng as zlib
except ImportError:  # not built for this machine
    import zlib  # type: ignore[no-redef]

# Negative: no zlib header and no checksum (NSQ spec 1.6).
_RAW = -15
_SLICE = 16 * 1024
"""Input given to zlib at a time: what it does not use up is copied again and again."""


class DeflateLayer(Layer):
    """``level`` 1 to 9."""

    def __init__(self, level: int = 6) -> None:
        self._compressor = zlib.compressobj(level, zlib.DEFLATED, _RAW)
        self._decompressor = zlib.decompressobj(_RAW)
        self._waiting: deque[memoryview] = deque()

    def receive_data(self, data: Bytes) -> None:
        view = memoryview(data)
        self._waiting += [view[at : at + _SLICE] for at in range(0, len(view), _SLICE)]

    def read(self) -> bytes:
        inflate = self._decompressor
        parts: list[bytes] = []
        room = PIECE
        while room and not inflate.eof:
            given = inflate.unconsumed_tail or (self._waiting and self._waiting.popleft()) or b""
            try:
                part = inflate.decompress(given, room)
            except zlib.error as error:  # type: ignore[misc]  # in its stub it is not a class
                if parts:
                    break  # first what came before it; zlib fails again
                raise LayerError(f"deflate: {error}") from error
            if not part and not self._waiting:
                break
            parts.append(part)
            room -= len(part)
        self.eof = inflate.eof and not parts
        return b"".join(parts)

    def send(self, data: Bytes) -> bytes:
        compressor = self._compressor
        return compressor.compress(data) + compressor.flush(zlib.Z_SYNC_FLUSH)
