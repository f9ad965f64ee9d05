"""Messages and deliveries without a connection."""

from __future__ import annotations

from typing import cast

from penstock.core.chance import SystemChance
from penstock.nsq.client import Delivery
from penstock.nsq.client.config import Config
from penstock.nsq.client.consume.backoff import Backoff
from penstock.nsq.client.consume.replies import Link, Outcome, Replies
from penstock.nsq.protocol.frames import FrameReader, MessageBlock, message


class FakeLink:
    """Keeps the answers."""

    address = "127.0.0.1:4150"

    def __init__(self) -> None:
        self.answers = b""
        self.in_flight = 0

    def answer(self, command: bytes) -> bool:
        self.answers += command
        return True

    def settled(self, count: int = 1) -> None:
        self.in_flight -= count

    def set_ready(self, count: int) -> None:
        raise AssertionError

    def finished(self) -> list[int]:
        """The numbers of the messages that were finished, in order."""
        return self._answered(b"FIN")

    def requeued(self) -> list[int]:
        """The numbers of the messages that were requeued, in order."""
        return self._answered(b"REQ")

    def _answered(self, word: bytes) -> list[int]:
        lines = [line.split() for line in self.answers.splitlines()]
        return [int(line[1]) for line in lines if line[0] == word]


def delivery(*bodies: bytes) -> tuple[Delivery, FakeLink]:
    """Messages with the ids 0, 1, 2, ... that came together, and where their answers go."""
    link = FakeLink()
    link.in_flight = len(bodies)
    config = Config()
    outcomes: list[Outcome] = []
    backoff = Backoff(config, SystemChance())
    replies = Replies(cast(Link, link), config, backoff, outcomes.append, lambda call: call())
    reader = FrameReader()
    for number, body in enumerate(bodies):
        reader.receive_data(message(1, 1, b"%016d" % number, body))
    (block,) = reader.events()
    assert isinstance(block, MessageBlock)
    return Delivery(replies, block), link
