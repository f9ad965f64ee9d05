"""Finding the messages in the body of an MPUB, however it is cut.

The body is a count and then size, body, size, body … The total size the client declares before it
is not relied on: nsqd checks its range and then follows count and sizes (NSQ spec 1.7), so only a
walk over the sizes tells where the command ends. The walk is resumed when more data has come, and
takes messages of one size a whole column at a time.
"""

from __future__ import annotations

import struct

from penstock.nsq.protocol.errors import ProtocolError

_int32 = struct.Struct(">i").unpack_from


class MpubScanner:
    """One MPUB body on its way in.

    ``max_body_size`` bounds the count, as upstream, and also the bytes that count and sizes may
    lead to, which upstream leaves unbounded.
    """

    __slots__ = ("_max_body_size", "_max_msg_size", "bodies", "consumed", "count", "equal_size")

    def __init__(self, max_msg_size: int, max_body_size: int) -> None:
        self._max_msg_size = max_msg_size
        self._max_body_size = max_body_size
        self.count = 0
        """Messages announced; 0 until known."""
        self.consumed = 0
        """Bytes understood so far, from the count on."""
        self.equal_size = -1
        """The size of every body as long as they are all equal, else 0; -1 before the first."""
        self.bodies: list[bytes] = []
        """The bodies, when they are not all equal."""

    def scan(self, data: bytes | bytearray, start: int) -> bool:
        """Go on over ``data``, where the body begins at ``start``; True when it is complete.

        Later calls must give at least the same bytes again. Raises ProtocolError.
        """
        if not self.count and not self._read_count(data, start):
            return False
        if self.equal_size < 0 and not self._guess_size(data, start):
            return False
        if self.equal_size:
            if self._scan_equal(data, start):
                return self.consumed == 4 + self.count * (4 + self.equal_size)
            self.equal_size, self.consumed = 0, 4  # they differ after all: walk from the first on
        return self._walk(data, start)

    def end_of_data(self, available: int) -> ProtocolError:
        """The error for a client that ended after ``available`` bytes of an unfinished body."""
        if not self.count:
            return ProtocolError("E_BAD_BODY", "MPUB failed to read message count")
        index = len(self.bodies)
        if self.equal_size > 0:
            index = (self.consumed - 4) // (4 + self.equal_size)
        if available - self.consumed < 4:
            return ProtocolError("E_BAD_MESSAGE", f"MPUB failed to read message({index}) body size")
        return ProtocolError("E_BAD_MESSAGE", "MPUB failed to read message body")

    def _read_count(self, data: bytes | bytearray, start: int) -> bool:
        if len(data) - start < 4:
            return False
        (count,) = _int32(data, start)
        # nsqd bounds the count by the size of a body of messages of one byte, whatever is sent.
        if count <= 0 or count > (self._max_body_size - 4) // 5:
            raise ProtocolError("E_BAD_BODY", f"MPUB invalid message count {count}")
        self.count = count
        self.consumed = 4
        return True

    def _guess_size(self, data: bytes | bytearray, start: int) -> bool:
        if len(data) - start < 8:
            return False
        (size,) = _int32(data, start + 4)
        # If all were like the first. Otherwise the walk finds the message that is beyond the bound.
        fits = 4 + self.count * (4 + size) <= self._max_body_size
        self.equal_size = size if 0 < size <= self._max_msg_size and fits else 0
        return True

    def _scan_equal(self, data: bytes | bytearray, start: int) -> bool:
        """Check the sizes that have arrived; False when one differs from the first."""
        distance = 4 + self.equal_size
        first = start + self.consumed
        available = len(data) - first
        left = self.count - (self.consumed - 4) // distance
        sizes = min(left, (available - 4) // distance + 1)
        if sizes > 0:
            expected = self.equal_size.to_bytes(4, "big")
            end = first + (sizes - 1) * distance + 4
            for column in range(4):
                # A slice with a step is a plain C loop, with nothing to set up.
                if data[first + column : end : distance] != expected[column : column + 1] * sizes:
                    return False
            self.consumed += min(left, available // distance) * distance
        return True

    def _walk(self, data: bytes | bytearray, start: int) -> bool:
        add, largest, length = self.bodies.append, self._max_msg_size, len(data)
        limit = start + self._max_body_size
        position = start + self.consumed
        missing = self.count - len(self.bodies)
        while missing and length - position >= 4:
            (size,) = _int32(data, position)
            end = position + 4 + size
            if not 0 < size <= largest or end > limit:
                raise self._bad_size(size, end - start)
            if end > length:
                break
            add(data[position + 4 : end])  # type: ignore[arg-type]  # joins as well as bytes
            position = end
            missing -= 1
        self.consumed = position - start
        return not missing

    def _bad_size(self, size: int, total: int) -> ProtocolError:
        # nsqd numbers the message in this text, but not in that for one that is too big.
        if size <= 0:
            index = len(self.bodies)
            return ProtocolError("E_BAD_MESSAGE", f"MPUB invalid message({index}) body size {size}")
        if size > self._max_msg_size:
            largest = self._max_msg_size
            return ProtocolError("E_BAD_MESSAGE", f"MPUB message too big {size} > {largest}")
        return ProtocolError("E_BAD_BODY", f"MPUB body too big {total} > {self._max_body_size}")
