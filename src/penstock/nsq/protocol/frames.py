"""The frames a server sends: response, error, message; written here and read here.

A frame is a 32-bit size, a 32-bit type and data; the size counts type and data. A message frame's
data is an 8-byte time stamp, 2 bytes of attempts, a 16-byte id and the body (NSQ spec 1.1).
How many message frames at once are *written* is the matter of ``bodies``; here they are read, as
runs (``MessageBlock``). Nothing in this file needs numpy.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from penstock.nsq.protocol.errors import ProtocolError

RESPONSE, ERROR, MESSAGE = 0, 1, 2

ATTEMPTS_AT = 16
"""The offset of the attempts in a message frame."""
ID_AT = 18
"""The offset of the id in a message frame."""
BODY_AT = 34
"""The offset of the body in a message frame: the overhead of a message."""

FIN_LENGTH = 21
"""Bytes of ``FIN <16 byte id> LF``."""

_prefix = struct.Struct(">II")
_message_head = struct.Struct(">qH16s")
_FEW = 16  # for fewer messages looking for equal ones costs more than it saves


def response(data: bytes) -> bytes:
    """A response frame, such as ``OK``, JSON or ``_heartbeat_``."""
    return _prefix.pack(len(data) + 4, RESPONSE) + data


def error(text: str | bytes) -> bytes:
    """An error frame; ``text`` is the whole line, code first. Surrogate escapes become bytes."""
    data = text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text
    return _prefix.pack(len(data) + 4, ERROR) + data


def message(timestamp_ns: int, attempts: int, message_id: bytes, body: bytes) -> bytes:
    """One message frame; ``message_id`` is 16 bytes, ``attempts`` wraps as a uint16 does."""
    head = _message_head.pack(timestamp_ns, attempts & 0xFFFF, message_id)
    return _prefix.pack(len(body) + 30, MESSAGE) + head + body


OK_FRAME = response(b"OK")
HEARTBEAT_FRAME = response(b"_heartbeat_")
CLOSE_WAIT_FRAME = response(b"CLOSE_WAIT")


@dataclass(slots=True)
class Response:
    """A response frame of the server."""

    data: bytes

    @property
    def is_heartbeat(self) -> bool:
        """True if the server wants a sign of life (any command, by custom NOP)."""
        return self.data == b"_heartbeat_"


@dataclass(slots=True)
class Error:
    """An error frame of the server."""

    text: str

    @property
    def code(self) -> str:
        """The first word, e.g. ``E_FIN_FAILED``."""
        return self.text.partition(" ")[0]

    @property
    def is_fatal(self) -> bool:
        """True if the server closes the connection after this error."""
        return self.code not in ("E_FIN_FAILED", "E_REQ_FAILED", "E_TOUCH_FAILED")


class RawMessage(NamedTuple):
    """One message of a block."""

    timestamp_ns: int
    attempts: int
    id: bytes
    body: bytes


class MessageBlock:
    """A run of whole message frames that lie back to back in one buffer.

    ``positions[i]`` is where frame i starts, ``positions[count]`` where the last one ends;
    ``stride`` is the common size of the frames, or 0 when they differ.
    """

    __slots__ = ("buffer", "count", "positions", "stride")

    def __init__(self, buffer: bytes, positions: Sequence[int], stride: int) -> None:
        self.buffer = buffer
        self.positions = positions
        self.count = len(positions) - 1
        self.stride = stride

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> RawMessage:
        start, end = self.positions[index], self.positions[index + 1]
        return self._message(start, end)

    def __iter__(self) -> Iterator[RawMessage]:
        return (self._message(start, end) for start, end in pairwise(self.positions))

    def _message(self, start: int, end: int) -> RawMessage:
        timestamp_ns, attempts, identifier = _message_head.unpack_from(self.buffer, start + 8)
        return RawMessage(timestamp_ns, attempts, identifier, self.buffer[start + BODY_AT : end])

    def fields(self) -> Iterator[tuple[int, int, bytes, bytes]]:
        """Time stamp, attempts, id and body of each message: the quick way to all of them."""
        buffer = self.buffer
        if self.stride:
            layout = struct.Struct(f">8xqH16s{self.stride - BODY_AT}s")
            yield from layout.iter_unpack(self.frames())
            return
        unpack = _message_head.unpack_from
        for start, end in pairwise(self.positions):
            timestamp_ns, attempts, identifier = unpack(buffer, start + 8)
            yield timestamp_ns, attempts, identifier, buffer[start + BODY_AT : end]

    def most_attempts(self) -> int:
        """The largest number of attempts among the messages."""
        buffer, starts = self.buffer, self.positions[:-1]
        if self.stride:  # two columns of bytes, each a plain loop in C
            first, end = self.positions[0] + ATTEMPTS_AT, self.positions[-1]
            if not any(buffer[first : end : self.stride]):
                return max(buffer[first + 1 : end : self.stride])
        return max(
            buffer[start + ATTEMPTS_AT] << 8 | buffer[start + ATTEMPTS_AT + 1] for start in starts
        )

    def part(self, first: int, last: int) -> MessageBlock:
        """The messages ``first`` up to, not including, ``last``; no copy."""
        return MessageBlock(self.buffer, self.positions[first : last + 1], self.stride)

    def bodies(self) -> list[bytes]:
        """All bodies, in order."""
        buffer = self.buffer
        return [buffer[start + BODY_AT : end] for start, end in pairwise(self.positions)]

    def ids(self, first: int = 0, last: int | None = None) -> list[bytes]:
        """The ids of messages ``first`` up to, not including, ``last``."""
        buffer = self.buffer
        starts = self._starts(first, last)
        return [buffer[start + ID_AT : start + BODY_AT] for start in starts]

    def frames(self) -> memoryview:
        """The run as it came over the wire."""
        return memoryview(self.buffer)[self.positions[0] : self.positions[-1]]

    def finish_commands(self, first: int = 0, last: int | None = None) -> bytes:
        """The FIN lines of messages ``first`` up to, not including, ``last``, for one write."""
        identifiers = self.ids(first, last)
        return b"FIN " + b"\nFIN ".join(identifiers) + b"\n" if identifiers else b""

    def _starts(self, first: int, last: int | None) -> Sequence[int]:
        return self.positions[first : self.count if last is None else min(last, self.count)]


Frame = Response | Error | MessageBlock

_UNKNOWN = "E_BAD_FRAME"


class FrameReader:
    """A client's ear: bytes in, frames out, runs of messages as one block.

    Data may be cut anywhere. ``max_frame_size`` bounds what one frame may claim to hold (bytes of
    type and data), and thereby the memory kept for an unfinished frame.
    """

    def __init__(self, max_frame_size: int = 64 * 1024 * 1024) -> None:
        self.max_frame_size = max_frame_size
        self._chunks: list[bytes] = []
        self._held = 0
        self._needed = 8

    def receive_data(self, data: bytes) -> None:
        """Take bytes from the server."""
        self._chunks.append(data)
        self._held += len(data)

    @property
    def unread(self) -> int:
        """Bytes of a frame that is not complete yet."""
        return self._held

    def events(self) -> list[Frame]:
        """All frames that are complete, in order.

        Raises ProtocolError when the server speaks something else than NSQ.
        """
        if self._held < self._needed:
            return []
        buffer = self._chunks[0] if len(self._chunks) == 1 else b"".join(self._chunks)
        found: list[Frame] = []
        position = 0
        while (end := self._frame_end(buffer, position)) <= len(buffer):
            position = self._take(buffer, position, end, found)
        # Nothing is joined before the frame is whole: a large one comes in hundreds of reads.
        self._needed = end - position
        self._held = len(buffer) - position
        self._chunks = [buffer[position:]] if self._held else []
        return found

    def _frame_end(self, buffer: bytes, position: int) -> int:
        if len(buffer) - position < 8:
            return position + 8
        size, kind = _prefix.unpack_from(buffer, position)
        # 30 is a message without a body: type, time stamp, attempts and id.
        if kind > MESSAGE or size < (30 if kind == MESSAGE else 4):
            raise ProtocolError(_UNKNOWN, f"type {kind}, size {size} is not an NSQ frame")
        if size > self.max_frame_size:
            raise ProtocolError(_UNKNOWN, f"size {size} > {self.max_frame_size}")
        return int(position + 4 + size)

    def _take(self, buffer: bytes, position: int, end: int, found: list[Frame]) -> int:
        # The last byte of the type is all of it: ``_frame_end`` refuses types above 2.
        kind = buffer[position + 7]
        if kind == MESSAGE:
            block = _equal_run(buffer, position, end) or self._mixed_run(buffer, position, end)
            found.append(block)
            return block.positions[-1]
        data = buffer[position + 8 : end]
        if kind == RESPONSE:
            found.append(Response(data))
        else:
            found.append(Error(data.decode("utf-8", "surrogateescape")))
        return end

    def _mixed_run(self, buffer: bytes, position: int, end: int) -> MessageBlock:
        positions = [position, end]
        add, unpack, length = positions.append, _prefix.unpack_from, len(buffer)
        largest = self.max_frame_size
        while length - end >= 8:
            size, kind = unpack(buffer, end)
            if kind != MESSAGE or not 30 <= size <= largest or end + 4 + size > length:
                break
            end += 4 + size
            add(end)
        only_one = len(positions) == 2
        return MessageBlock(buffer, positions, end - position if only_one else 0)


def _equal_run(buffer: bytes, position: int, end: int) -> MessageBlock | None:
    """The frames from ``position`` on that have the size of the first, if they are many.

    Column by column over slices with a step: plain C loops, and no need of numpy.
    """
    stride = end - position
    if buffer[end : end + 8] != buffer[position : position + 8]:
        return None
    count = (len(buffer) - position) // stride
    for column in range(8):
        byte = buffer[position + column : position + column + 1]
        values = buffer[position + column : position + count * stride : stride]
        count = len(values) - len(values.lstrip(byte))
    if count < _FEW:
        return None
    return MessageBlock(buffer, range(position, position + count * stride + 1, stride), stride)
