"""Frames: a length, a length with the serialisation in its top byte, a header, a body.

See RocketMQ spec 1.1.

    4  bytes that follow = 4 + header + body
    4  serialisation (8 bits) and length of the header (24 bits)
       header
       body
"""

from __future__ import annotations

import struct
from typing import Final

from penstock.rocketmq.protocol import header_binary, header_json
from penstock.rocketmq.protocol.command import Command, Serialization
from penstock.rocketmq.protocol.errors import FrameError

# The default of com.rocketmq.remoting.frameMaxLength (RocketMQ spec 1.1).
FRAME_MAX: Final = 16 * 1024 * 1024
"""The largest first length that the Java side takes."""

_LENGTHS = struct.Struct(">iI")
HEADER_BITS: Final = 24
"""Of the second number the upper ones are the serialisation, these the header's length."""
HEADER_MAX: Final = (1 << HEADER_BITS) - 1
_TAIL_APPENDED: Final = 64 * 1024
_JSON, _BINARY = int(Serialization.JSON), int(Serialization.BINARY)


def encode(command: Command) -> bytes:
    """One frame. Raises ValueError when the command does not fit into its serialisation."""
    head = encode_head(command, len(command.body))
    return head + command.body if command.body else head


def encode_head(command: Command, body_length: int) -> bytes:
    """A frame up to its body, for a body that is sent in separate pieces."""
    if command.serialization is Serialization.JSON:
        header = header_json.encode(command)
    else:
        header = header_binary.encode(command)
    if len(header) > HEADER_MAX:
        raise ValueError(f"a header of {len(header)} bytes")
    return prefix(command.serialization, len(header), body_length) + header


def prefix(serialization: int, header_length: int, body_length: int) -> bytes:
    """The bytes before a header."""
    return _LENGTHS.pack(
        4 + header_length + body_length, serialization << HEADER_BITS | header_length
    )


class FrameReader:
    """A cutter of one connection's bytes into commands; holds at most one frame and what came with
    it.

    ``feed`` bytes, then call ``next_command`` until it gives None.
    """

    def __init__(self, frame_max: int = FRAME_MAX) -> None:
        self._frame_max = frame_max
        self._data: bytes | bytearray = b""
        self._place = 0

    @property
    def unread(self) -> int:
        """Bytes held that are part of no command yet."""
        return len(self._data) - self._place

    def feed(self, data: bytes) -> None:
        """Take bytes of the peer."""
        left = len(self._data) - self._place
        if not left:
            self._data = data
        elif isinstance(self._data, bytearray) and not self._place:
            # A large frame grows in place: to join bytes with each read would copy it each time.
            self._data += data
            return
        # A few bytes are joined; only a large tail is worth a buffer that grows.
        elif left < _TAIL_APPENDED:
            self._data = bytes(self._data[self._place :]) + data
        else:
            grown = bytearray(memoryview(self._data)[self._place :])
            grown += data
            self._data = grown
        self._place = 0

    def next_command(self) -> Command | None:
        """The next command; None when more bytes are needed.

        Raises FrameError when the stream makes no sense; nothing behind that place can be read.
        """
        unread = len(self._data) - self._place
        if unread < 8:
            if unread >= 4:
                # Four bytes are enough to refuse what is not a frame, such as an HTTP request.
                self._check(struct.unpack_from(">i", self._data, self._place)[0])
            return None
        length, second = _LENGTHS.unpack_from(self._data, self._place)
        if not 4 <= length <= self._frame_max:
            self._check(length)
        header_length = second & HEADER_MAX
        if header_length > length - 4:
            raise FrameError(f"a header of {header_length} bytes in a frame of {length}")
        start = self._place + 8
        end = self._place + 4 + length
        if end > len(self._data):
            return None
        header_end = start + header_length
        header = bytes(self._data[start:header_end])
        command = _decode_header(second >> HEADER_BITS, header)
        if header_end < end:
            command.body = bytes(self._data[header_end:end])
        self._place = end
        if end == len(self._data):
            self._data, self._place = b"", 0
        return command

    def next_commands(self, count: int) -> list[Command]:
        """The next commands, up to ``count``; none when more bytes are needed.

        Raises FrameError when what comes next makes no sense: those before it were given then.
        """
        commands: list[Command] = []
        try:
            while self._data and len(commands) < count and (command := self.next_command()):
                commands.append(command)
        except FrameError:
            if not commands:
                raise
        return commands

    def _check(self, length: int) -> None:
        if not 4 <= length <= self._frame_max:
            raise FrameError(f"a frame of {length} bytes, where 4 to {self._frame_max} are allowed")


def _decode_header(kind: int, header: bytes) -> Command:
    if kind == _BINARY:
        return header_binary.decode(header)
    if kind == _JSON:
        return header_json.decode(header)
    raise FrameError(f"a header of the unknown serialisation {kind}")
