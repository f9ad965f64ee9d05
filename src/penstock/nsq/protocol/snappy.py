"""The snappy layer: snappy's framing format, both ways (NSQ spec 1.6).

The stream is a run of chunks: one byte of type, three of length, then the content. What is sent
together becomes separate chunks. ``cramjam`` does the coding and the checksums, for as many whole
chunks at once as there are; here they are counted out, so that no more is decoded at a time than
was asked for.
"""

from __future__ import annotations

import struct
from typing import Final

import cramjam

from penstock.net.tls.layers import PIECE, Bytes, Layer, LayerError

STREAM_ID: Final = b"\xff\x06\x00\x00sNaPpY"
_COMPRESSED: Final = 0x00
_UNCOMPRESSED: Final = 0x01
_SKIPPABLE: Final = 0x80
_IDENTIFIER: Final = 0xFF
_HEADER: Final = 4
_CHECKSUM: Final = 4
_PLAIN_MAX: Final = 65536
_CONTENT_MAX: Final = _CHECKSUM + 32 + _PLAIN_MAX + _PLAIN_MAX // 6
"""The largest content of a chunk of data: snappy makes nothing longer of 64 KiB."""

_word = struct.Struct("<I").unpack_from


class SnappyLayer(Layer):
    """One stream for each direction."""

    def __init__(self) -> None:
        self._compressor = cramjam.snappy.Compressor()
        self._held = bytearray()
        self._begun = False
        self._to_skip = 0

    def receive_data(self, data: Bytes) -> None:
        self._held += data

    def send(self, data: Bytes) -> bytes:
        self._compressor.compress(data if type(data) is bytes else bytes(data))
        return bytes(self._compressor.flush())

    def read(self) -> bytes:
        plain = b""
        while not plain:
            size, plain_size = self._next_run()
            if not size:
                break
            # cramjam decodes whole streams, and each begins with the identifier.
            run = STREAM_ID + self._held[:size]
            del self._held[:size]
            try:
                plain = bytes(cramjam.snappy.decompress(run, output_len=plain_size))
            except cramjam.DecompressionError as error:
                raise LayerError(str(error)) from error
        return plain

    def _next_run(self) -> tuple[int, int]:
        """The size of the whole chunks that decode to at most one piece, and their decoded size."""
        size = plain_size = 0
        while True:
            if self._to_skip and (size or not self._skip()):
                return size, plain_size
            try:
                end, more = self._chunk(size)
            except LayerError:
                if size:  # first what came before it
                    return size, plain_size
                raise
            if end == size:
                if self._to_skip:
                    continue
                return size, plain_size
            if size and plain_size + more > PIECE:
                return size, plain_size
            self._begun = True
            size, plain_size = end, plain_size + more

    def _chunk(self, start: int) -> tuple[int, int]:
        """The end of the chunk there and the bytes it decodes to; the end is ``start`` if it is not
        all there, or to be skipped. Raises LayerError.
        """
        held = self._held
        if len(held) < start + _HEADER:
            return start, 0
        (word,) = _word(held, start)
        kind, length = word & 0xFF, word >> 8
        if _SKIPPABLE <= kind < _IDENTIFIER:
            self._to_skip = _HEADER + length
            return start, 0
        self._check(kind, length)
        content, end = start + _HEADER, start + _HEADER + length
        if len(held) < end:
            return start, 0
        # pynsq makes a compressor for each write, so the identifier comes again and again.
        if kind == _IDENTIFIER:
            if held[start:end] != STREAM_ID:
                raise LayerError("snappy: corrupt input (wrong stream identifier)")
            return end, 0
        return end, _plain_size(held, kind, content, end)

    def _skip(self) -> bool:
        """Drop what there is of a chunk without meaning; whether that was all of it."""
        held = self._held
        dropped = min(self._to_skip, len(held))
        del held[:dropped]  # at the front that costs nothing
        self._to_skip -= dropped
        return not self._to_skip

    def _check(self, kind: int, length: int) -> None:
        """Raise LayerError if no such chunk may be here, as soon as its header is known."""
        if kind == _IDENTIFIER:
            allowed = length == len(STREAM_ID) - _HEADER
        else:
            # Types 0x02 to 0x7f are reserved: by snappy's framing format they must not be skipped.
            allowed = self._begun and kind <= _UNCOMPRESSED and _CHECKSUM <= length <= _CONTENT_MAX
        if not allowed:
            what = f"chunk type {kind:#04x}, {length} bytes"
            where = "" if self._begun else " in the place of the stream identifier"
            raise LayerError(f"snappy: corrupt input ({what}{where})")


def _plain_size(held: bytearray, kind: int, content: int, end: int) -> int:
    """The decoded size that a chunk of data declares, in bytes."""
    content += _CHECKSUM
    size = end - content if kind == _UNCOMPRESSED else _varint(held, content, end)
    if size > _PLAIN_MAX:
        raise LayerError(f"snappy: corrupt input (a chunk of {size} plain bytes)")
    return size


def _varint(data: bytearray, start: int, end: int) -> int:
    """The number that snappy's blocks begin with; at most three bytes matter here."""
    value = 0
    for shift, at in enumerate(range(start, min(start + 4, end))):
        value |= (data[at] & 0x7F) << 7 * shift
        if data[at] < 0x80:
            return value
    raise LayerError("snappy: corrupt input (a chunk without a length)")
