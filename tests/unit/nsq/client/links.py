"""A connection that keeps what it is told, and messages that came together."""

from __future__ import annotations

from penstock.nsq.client.errors import NotConnected
from penstock.nsq.protocol import frames
from penstock.nsq.protocol.frames import FrameReader, MessageBlock


class FakeLink:
    """A connection of a consumer."""

    def __init__(self, in_flight: int = 0) -> None:
        self.address = "node:1"
        self.is_open = True
        self.in_flight = in_flight
        self.sent: list[bytes] = []

    def answer(self, command: bytes) -> bool:
        if self.is_open:
            self.sent.append(command)
        return self.is_open

    def settled(self, count: int = 1) -> None:
        self.in_flight -= count

    def set_ready(self, count: int) -> None:
        if not self.is_open:
            raise NotConnected(self.address, "closed")
        self.sent.append(b"RDY %d\n" % count)

    def numbers(self, command: bytes) -> list[int]:
        """The messages that were answered with this command, in order."""
        lines = [line.split() for line in b"".join(self.sent).splitlines()]
        return [int(line[1], 16) for line in lines if line[0] == command]


def block(*messages: bytes | tuple[int, bytes]) -> MessageBlock:
    """Messages with the ids 0, 1, 2, ...: bodies, perhaps with attempts."""
    reader = FrameReader()
    for number, each in enumerate(messages):
        attempts, body = each if isinstance(each, tuple) else (1, each)
        reader.receive_data(frames.message(5, attempts, b"%016x" % number, body))
    (found,) = reader.events()
    assert isinstance(found, MessageBlock)
    return found
