"""The answers of a handshake, one by one: what follows one may belong to a layer put on then."""

from __future__ import annotations

from penstock.nsq.client.errors import ClientError
from penstock.nsq.protocol.errors import ProtocolError
from penstock.nsq.protocol.frames import Frame, FrameReader

ANSWER_MAX = 1 << 20
"""Bytes of the longest answer; nodes send less than a thousandth of that."""


class NotNsq(ClientError):
    """A peer that is no nsqd; the text says what it seems to be. ``Wire`` adds the address."""


class AnswerReader:
    """Bytes in, the next frame out; the bytes after it stay."""

    def __init__(self) -> None:
        self._held = bytearray()

    def receive_data(self, data: bytes) -> None:
        """Take bytes of the node."""
        self._held += data

    def next(self) -> Frame | None:
        """The next frame, if it is complete. Raises NotNsq, ProtocolError."""
        held = self._held
        if len(held) < 4:
            return None
        if held.startswith(b"HTTP"):
            raise NotNsq("unexpected HTTP response; is this the HTTP port of nsqd?")
        size = int.from_bytes(held[:4], "big")
        if not 4 <= size <= ANSWER_MAX:
            raise ProtocolError("E_BAD_FRAME", f"an answer of {size} bytes")
        if len(held) < 4 + size:
            return None
        reader = FrameReader(ANSWER_MAX)
        reader.receive_data(bytes(held[: 4 + size]))
        del held[: 4 + size]
        return reader.events()[0]

    def rest(self) -> bytes:
        """The bytes that came after the last frame; they are not kept."""
        rest = bytes(self._held)
        self._held.clear()
        return rest
