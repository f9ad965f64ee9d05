"""Messages that arrived together."""

from __future__ import annotations

import math

import pytest

from penstock.nsq.client.consume.delivery import Delivery
from penstock.nsq.protocol import encode, frames
from penstock.nsq.protocol.frames import FrameReader, MessageBlock
from tests.unit.nsq.client.consume.test_replies import IDS, Desk


def delivery(desk: Desk) -> Delivery:
    reader = FrameReader()
    reader.receive_data(b"".join(frames.message(5, 2, identifier, b"x") for identifier in IDS))
    (block,) = reader.events()
    assert isinstance(block, MessageBlock)
    return Delivery(desk.replies, block)


def test_finish_once() -> None:
    desk = Desk()
    messages = delivery(desk)
    assert (len(messages), messages.bodies()) == (3, [b"x"] * 3)
    assert messages.address == "node:1"
    assert messages.is_alive
    assert messages.finish()
    assert messages.is_answered
    assert not messages.finish()
    assert not messages.requeue()
    assert desk.end_pass() == [b"".join(map(encode.finish, IDS))]
    assert desk.link.in_flight == 0


def test_requeue_and_touch() -> None:
    desk = Desk(default_requeue_delay=2)
    messages = delivery(desk)
    assert messages.touch()
    assert messages.requeue()
    assert not messages.touch()
    touches = b"".join(map(encode.touch, IDS))
    requeues = b"".join(encode.requeue(identifier, 4000) for identifier in IDS)
    assert desk.end_pass() == [touches, requeues]
    assert len(desk.outcomes) == 1


def test_an_endless_delay_leaves_them_to_be_answered() -> None:
    desk = Desk()
    messages = delivery(desk)
    with pytest.raises(ValueError, match="a delay of"):
        messages.requeue(math.inf)
    assert not messages.is_answered
    assert messages.finish()


def test_one_by_one() -> None:
    desk = Desk()
    first, *others = delivery(desk).messages()
    assert (first.id, first.body, first.attempts, first.timestamp_ns) == (IDS[0], b"x", 2, 5)
    assert first.finish()
    assert [one.id for one in others] == IDS[1:]
    desk.end_pass()
    assert desk.link.in_flight == 2
