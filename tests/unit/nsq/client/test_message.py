"""A message and its answers."""

from __future__ import annotations

import math

import pytest

from penstock.nsq.client.message import Message
from tests.unit.nsq.client.consume.test_replies import Desk

ID = b"0123456789abcdef"


def message(desk: Desk) -> Message:
    return Message(7, 2, ID, b"x", desk.replies)


def test_answers_once() -> None:
    desk = Desk()
    made = message(desk)
    assert (made.timestamp_ns, made.attempts, made.body) == (7, 2, b"x")
    assert made.address == "node:1"
    assert made.touch()
    assert made.finish()
    assert made.is_answered
    assert not made.finish()
    assert not made.requeue(5)
    assert not made.touch()
    assert desk.end_pass() == [b"TOUCH 0123456789abcdef\n", b"FIN 0123456789abcdef\n"]
    assert desk.link.in_flight == 2


def test_requeue() -> None:
    desk = Desk(default_requeue_delay=10)
    assert message(desk).requeue(1.5)
    assert message(desk).requeue()
    assert not message(desk).is_answered
    assert b"".join(desk.end_pass()) == b"REQ %b 1500\nREQ %b 20000\n" % (ID, ID)


@pytest.mark.parametrize("delay", [math.inf, math.nan])
def test_an_endless_delay_leaves_the_message_to_be_answered(delay: float) -> None:
    desk = Desk()
    made = message(desk)
    with pytest.raises(ValueError, match="a delay of"):
        made.requeue(delay)
    assert not made.is_answered
    assert not desk.outcomes
    assert made.requeue(0)
    assert desk.end_pass() == [b"REQ %b 0\n" % ID]


def test_a_lost_connection() -> None:
    desk = Desk()
    made = message(desk)
    assert made.is_alive
    desk.replies.close()
    assert not made.is_alive
    assert not made.finish()
    assert "0123456789abcdef" in repr(made)
