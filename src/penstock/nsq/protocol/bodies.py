"""The message bodies of one publish, and the message frames made of them.

Frames are built once, at publish, ready to be sent to every consumer (design, chapter 1). For
messages of one size numpy copies whole columns; for mixed sizes the headers come from numpy and one
join does the rest. A handful of messages is quicker without numpy.
"""

from __future__ import annotations

import struct
from binascii import hexlify
from collections.abc import Iterable, Sequence
from functools import cache
from typing import TYPE_CHECKING, ClassVar, TypeAlias

import numpy as np

from penstock import lane
from penstock.nsq.protocol.errors import ProtocolError
from penstock.nsq.protocol.frames import BODY_AT
from penstock.nsq.protocol.mpub import MpubScanner

if TYPE_CHECKING:
    import numpy.typing as npt

Frames = bytes | memoryview
Positions: TypeAlias = "npt.NDArray[np.uint32]"
Encoded: TypeAlias = "tuple[Frames, Positions | None]"

_FEW = 12  # for fewer messages numpy costs more than it saves
_MASK = (1 << 64) - 1

# Everything of a message frame before the id: size, type, time stamp, attempts.
_front = struct.Struct(">IIqH").pack


class Bodies:
    """The bodies of one publish, kept without an object per message where possible.

    ``count`` messages of ``nbytes`` bytes in all; ``stride`` is the size of each message frame when
    they are all equal, otherwise 0.
    """

    __slots__ = ("count", "nbytes", "stride")

    count: int
    nbytes: int
    stride: int
    note: ClassVar[bytes] = b""
    dialect: ClassVar[int] = 0

    def encode(self, first_id: int, timestamp_ns: int) -> Encoded:
        """The message frames, with consecutive ids from ``first_id`` and attempts 1.

        Gives also the positions of the frames (count + 1, the last is the total), or None when all
        have the size ``stride``.
        """
        raise NotImplementedError

    def to_list(self) -> list[bytes]:
        """The bodies one by one."""
        raise NotImplementedError

    @staticmethod
    def single(body: bytes) -> Bodies:
        """One message."""
        return _Single(body)

    @staticmethod
    def from_list(bodies: Sequence[bytes]) -> Bodies:
        """Messages that are already cut apart."""
        return _Single(bodies[0]) if len(bodies) == 1 else _Listed(bodies)

    @staticmethod
    def at_even_distances(
        buffer: bytes, first: int, distance: int, size: int, count: int
    ) -> Bodies:
        """Messages of one size in a buffer, from position ``first`` on."""
        if count == 1:
            return _Single(buffer[first : first + size])
        return _Equal(buffer, first, distance, size, count)

    @staticmethod
    def from_mpub(
        buffer: bytes | memoryview, max_msg_size: int, max_body_size: int = 5 * 1024 * 1024
    ) -> Bodies:
        """The bodies of an MPUB from its message count on; bytes after the last one are ignored.

        Raises ProtocolError with the text of NSQ spec 1.3, MPUB rows 7 to 12.
        """
        frames: Bodies | None = lane.frames_of_mpub(buffer, max_msg_size, max_body_size)
        if frames is not None:
            return frames
        data = buffer if isinstance(buffer, bytes) else bytes(buffer)
        scanner = MpubScanner(max_msg_size, max_body_size)
        if not scanner.scan(data, 0):
            raise scanner.end_of_data(len(data))
        return Bodies.from_scan(scanner, data, 0)

    @staticmethod
    def from_scan(scanner: MpubScanner, data: bytes, start: int) -> Bodies:
        """The bodies a finished scan found in ``data``, where the MPUB's count is at ``start``."""
        size = scanner.equal_size
        if not size:
            return Bodies.from_list(scanner.bodies)
        if scanner.count == 1:
            return _Single(data[start + 8 : start + 8 + size])
        return _Equal(data, start + 8, size + 4, size, scanner.count)

    @staticmethod
    def from_lines(data: bytes, max_msg_size: int) -> Bodies | None:
        """One message a line, empty lines dropped (text /mpub, NSQ spec 2.3); None if none.

        Raises ProtocolError MSG_TOO_BIG.
        """
        # As in Go a CR before the LF stays in the message.
        lines = [line for line in data.split(b"\n") if line]
        if not lines:
            return None
        # A body within the bound has no line beyond it: most requests need no look at each line.
        if len(data) > max_msg_size and max(map(len, lines)) > max_msg_size:
            raise ProtocolError("MSG_TOO_BIG", "")
        return Bodies.from_list(lines)


class _Single(Bodies):
    __slots__ = ("_body",)

    def __init__(self, body: bytes) -> None:
        self._body = body
        self.count = 1
        self.nbytes = size = len(body)
        self.stride = BODY_AT + size

    def encode(self, first_id: int, timestamp_ns: int) -> Encoded:
        front = _front(30 + self.nbytes, 2, timestamp_ns, 1)
        return b"%b%016x%b" % (front, first_id, self._body), None

    def to_list(self) -> list[bytes]:
        return [self._body]


class _Equal(Bodies):
    """Bodies of one size at even distances in a buffer."""

    __slots__ = ("_buffer", "_distance", "_first", "_size")

    def __init__(self, buffer: bytes, first: int, distance: int, size: int, count: int) -> None:
        self._buffer = buffer
        self._first = first
        self._distance = distance
        self._size = size
        self.count = count
        self.nbytes = count * size
        self.stride = BODY_AT + size

    def encode(self, first_id: int, timestamp_ns: int) -> Encoded:
        if self.count < _FEW:
            return _join(self.to_list(), first_id, timestamp_ns), None
        frames = np.empty(self.count, np.dtype([("head", head()), ("body", f"V{self._size}")]))
        _fill(frames["head"], self._size, first_id, timestamp_ns)
        frames["body"] = np.ndarray(
            self.count, f"V{self._size}", self._buffer, self._first, (self._distance,)
        )
        return frames.view(np.uint8).data, None

    def to_list(self) -> list[bytes]:
        end = self._first + self.count * self._distance
        starts = range(self._first, end, self._distance)
        return [self._buffer[start : start + self._size] for start in starts]


class _Listed(Bodies):
    """Bodies cut apart, of any sizes."""

    __slots__ = ("_bodies", "_sizes")

    def __init__(self, bodies: Sequence[bytes]) -> None:
        self._bodies = bodies
        self._sizes = sizes = list(map(len, bodies))
        self.count = count = len(bodies)
        self.nbytes = sum(sizes)
        self.stride = BODY_AT + sizes[0] if sizes.count(sizes[0]) == count else 0

    def encode(self, first_id: int, timestamp_ns: int) -> Encoded:
        if self.stride:
            return self._encode_equal(first_id, timestamp_ns)
        positions = np.zeros(self.count + 1, np.uint32)
        sizes = np.array(self._sizes, np.uint32)
        np.cumsum(sizes + np.uint32(BODY_AT), out=positions[1:])
        if self.count < _FEW:
            return _join(self._bodies, first_id, timestamp_ns), positions
        heads = np.empty(self.count, head())
        _fill(heads, sizes, first_id, timestamp_ns)
        # As "S" numpy drops trailing zero bytes; a head ends with hex digits, so it loses nothing.
        return _interleave(heads.view(f"S{BODY_AT}").tolist(), self._bodies), positions

    def _encode_equal(self, first_id: int, timestamp_ns: int) -> Encoded:
        if self.count < _FEW:
            return _join(self._bodies, first_id, timestamp_ns), None
        size = self._sizes[0]
        packed = _Equal(b"".join(self._bodies), 0, size, size, self.count)
        return packed.encode(first_id, timestamp_ns)

    def to_list(self) -> list[bytes]:
        return list(self._bodies)


def _fill(
    heads: np.ndarray[tuple[int], np.dtype[np.void]],
    sizes: int | npt.NDArray[np.uint32],
    first_id: int,
    timestamp_ns: int,
) -> None:
    count = len(heads)
    if isinstance(sizes, int):
        # For one size the front is the same in every frame: packed once, copied by numpy.
        front = np.void(_front(30 + sizes, 2, timestamp_ns, 1))
        heads.view(_front_and_id())["front"] = front
    else:
        heads["size"] = sizes + np.uint32(30)
        heads["type"] = 2
        heads["timestamp"] = timestamp_ns
        heads["attempts"] = 1
    heads["id"] = np.frombuffer(hex_ids(first_id, count), "V16")


@cache
def head() -> np.dtype[np.void]:
    """A message frame before its body."""
    return np.dtype(
        [("size", ">u4"), ("type", ">u4"), ("timestamp", ">i8"), ("attempts", ">u2"), ("id", "V16")]
    )


@cache
def _front_and_id() -> np.dtype[np.void]:
    return np.dtype([("front", "V18"), ("id", "V16")])


def hex_ids(first_id: int, count: int) -> bytes:
    """``count`` consecutive ids as 16 lower-case hex digits each, back to back."""
    ids = np.arange(count, dtype=np.uint64) + np.uint64(first_id & _MASK)
    return hexlify(ids.astype(">u8").tobytes())


def _join(bodies: Iterable[bytes], first_id: int, timestamp_ns: int) -> bytes:
    return b"".join(
        [
            b"%b%016x%b" % (_front(30 + len(body), 2, timestamp_ns, 1), identifier, body)
            for identifier, body in enumerate(bodies, first_id)
        ]
    )


def _interleave(heads: list[bytes], bodies: Sequence[bytes]) -> bytes:
    parts = [b""] * (2 * len(heads))
    parts[0::2] = heads
    parts[1::2] = bodies
    return b"".join(parts)
