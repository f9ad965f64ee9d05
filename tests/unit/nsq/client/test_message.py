"""A message and its answers."""

from __future__ import annotations

from penstock.nsq.client.message import Message
from penstock.nsq.protocol.frames import RawMessage


class Recorder:
    def __init__(self) -> None:
        self.is_open = True
        self.sent: list[bytes] = []
        self.settlements = 0

    def answer(self, command: bytes) -> bool:
        self.sent.append(command)
        return self.is_open

    def settled(self, count: int = 1) -> None:
        self.settlements += count


def test_answers_once() -> None:
    link = Recorder()
    message = Message(RawMessage(7, 2, b"0123456789abcdef", b"x"), link)
    assert (message.timestamp_ns, message.attempts, message.body) == (7, 2, b"x")
    assert message.touch()
    assert message.finish()
    assert message.is_answered
    assert not message.finish()
    assert not message.requeue(5)
    assert not message.touch()
    assert link.sent == [b"TOUCH 0123456789abcdef\n", b"FIN 0123456789abcdef\n"]
    assert link.settlements == 1


def test_requeue_with_a_delay() -> None:
    link = Recorder()
    assert Message(RawMessage(7, 2, b"0123456789abcdef", b"x"), link).requeue(1.5)
    assert link.sent == [b"REQ 0123456789abcdef 1500\n"]


def test_a_lost_connection() -> None:
    link = Recorder()
    message = Message(RawMessage(7, 2, b"0123456789abcdef", b"x"), link)
    assert message.is_alive
    link.is_open = False
    assert not message.is_alive
    assert not message.finish()
    assert link.settlements == 1
    assert "0123456789abcdef" in repr(message)
