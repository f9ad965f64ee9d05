"""Messages that arrived together."""

from __future__ import annotations

from penstock.nsq.client.delivery import Delivery
from penstock.nsq.protocol import encode, frames
from penstock.nsq.protocol.frames import FrameReader, MessageBlock

IDS = [b"%016d" % n for n in range(3)]


class FakeLink:
    is_open = True

    def __init__(self) -> None:
        self.sent = b""
        self.settled_count = 0

    def answer(self, command: bytes) -> bool:
        self.sent += command
        return self.is_open

    def settled(self, count: int = 1) -> None:
        self.settled_count += count


def delivery(link: FakeLink) -> Delivery:
    reader = FrameReader()
    reader.receive_data(b"".join(frames.message(5, 1, identifier, b"x") for identifier in IDS))
    (block,) = reader.events()
    assert isinstance(block, MessageBlock)
    return Delivery(link, block)


def test_finish_once() -> None:
    link = FakeLink()
    messages = delivery(link)
    assert (len(messages), messages.bodies()) == (3, [b"x"] * 3)
    assert messages.finish()
    assert not messages.finish()
    assert link.sent == b"".join(map(encode.finish, IDS))
    assert link.settled_count == 3


def test_requeue_and_touch() -> None:
    link = FakeLink()
    messages = delivery(link)
    assert messages.touch()
    assert messages.requeue(0.25)
    assert not messages.touch()
    lines = [*map(encode.touch, IDS), *(encode.requeue(identifier, 250) for identifier in IDS)]
    assert link.sent == b"".join(lines)


def test_one_by_one() -> None:
    link = FakeLink()
    first, *_ = delivery(link).messages()
    assert first.finish()
    assert link.settled_count == 1
