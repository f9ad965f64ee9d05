"""A connection without sockets."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.core.units import SECOND
from penstock.rocketmq.client.config import Config
from penstock.rocketmq.client.errors import BadAnswer, NotConnected, TimedOut
from penstock.rocketmq.client.network.wire import Wire
from penstock.rocketmq.protocol import frames
from penstock.rocketmq.protocol.command import Command, Serialization
from penstock.rocketmq.protocol.signing import ACCESS_KEY, SIGNATURE, signature
from tests.unit.rocketmq.client.memory_hub import FakeClock


class Far:
    """The server's side."""

    def __init__(self, config: Config | None = None) -> None:
        self.clock = FakeClock()
        self.flushes = 0
        self.requests: list[Command] = []
        self.wire = Wire("b:1", config or Config(), self.clock, self._flush, self._asked)

    def _flush(self, _: Wire) -> None:
        self.flushes += 1

    def _asked(self, _: Wire, request: Command) -> None:
        self.requests.append(request)

    def take(self) -> list[Command]:
        reader = frames.FrameReader()
        reader.feed(self.wire.take_output())
        return reader.next_commands(100)


def test_answers_find_their_requests_in_any_order() -> None:
    far = Far()
    first = far.wire.ask(Command(11), 1.0)
    second = far.wire.ask(Command(11), 1.0)
    one, two = far.take()
    far.wire.opened()
    far.wire.receive_data(frames.encode(two.answer(remark="two")))
    assert not first.is_done
    far.wire.receive_data(frames.encode(one.answer(remark="one")))
    assert (first.result().remark, second.result().remark) == ("one", "two")
    assert (far.wire.state.requests, far.wire.state.answers) == (2, 2)


def test_several_requests_are_one_write() -> None:
    far = Far()
    for _ in range(3):
        far.wire.ask(Command(11), 1.0)
    assert far.flushes == 1
    assert len(far.take()) == 3


def test_a_request_that_is_late_fails_alone() -> None:
    far = Far()
    early, late = far.wire.ask(Command(11), 1.0), far.wire.ask(Command(11), 5.0)
    one, two = far.take()
    assert far.wire.deadline == far.clock.now + SECOND
    far.wire.opened()
    far.wire.expire(far.clock.now + SECOND)
    with pytest.raises(TimedOut, match=r"b:1: no answer within 1 s"):
        early.result()
    assert far.wire.deadline == far.clock.now + 5 * SECOND
    far.wire.receive_data(frames.encode(one.answer()) + frames.encode(two.answer()))
    assert late.is_done
    assert late.error is None


@pytest.mark.parametrize(
    ("heard_s", "seconds", "is_silent"), [(0.0, 5.0, True), (2.0, 5.0, False), (0.0, 2.0, False)]
)
def test_a_connection_is_silent_if_nothing_comes_for_so_long(
    heard_s: float, seconds: float, is_silent: bool
) -> None:
    far = Far()
    far.wire.opened()
    far.wire.ask(Command(11), 60.0)
    far.wire.ask(Command(11), seconds)
    one, _ = far.take()
    sent = far.clock.now
    if heard_s:
        far.clock.now = sent + int(heard_s * SECOND)
        far.wire.receive_data(frames.encode(one.answer()))
    assert not far.wire.is_silent(sent + int(seconds * SECOND) - 1)
    assert far.wire.is_silent(sent + int(seconds * SECOND)) is is_silent


def test_a_connection_is_not_judged_by_what_was_asked_before_it_was_there() -> None:
    far = Far()
    far.wire.ask(Command(11), 5.0)
    sent = far.clock.now
    assert not far.wire.is_silent(sent + 5 * SECOND)
    far.clock.now += 4 * SECOND
    far.wire.opened()
    assert not far.wire.is_silent(sent + 5 * SECOND)


def test_time_may_begin_when_a_request_is_sent() -> None:
    far = Far()
    far.wire.ask(Command(11), 9.0)
    far.take()
    far.clock.now += SECOND
    far.wire.ask(Command(11), 5.0)
    far.wire.begin_now()
    far.clock.now += 7 * SECOND
    assert far.wire.deadline == far.clock.now - 2 * SECOND
    far.wire.begin_now()
    assert far.wire.deadline == far.clock.now + SECOND, "that of the first one, which was sent"
    far.wire.expire(far.clock.now + SECOND)
    assert far.wire.deadline == far.clock.now + 5 * SECOND


def test_a_lost_connection_fails_what_waits() -> None:
    far = Far()
    promise = far.wire.ask(Command(11), 1.0)
    far.wire.lost(NotConnected("b:1", "gone"))
    assert isinstance(promise.error, NotConnected)
    assert far.wire.take_output() == b""


def test_a_one_way_request_waits_for_nothing() -> None:
    far = Far()
    far.wire.tell(Command(37))
    assert far.wire.nbytes_said > 0
    (request,) = far.take()
    assert far.wire.nbytes_said == 0
    assert request.is_one_way
    assert far.wire.deadline is None


def test_requests_of_the_server_are_handed_on() -> None:
    far = Far()
    far.wire.receive_data(frames.encode(Command(40, 1)))
    (request,) = far.requests
    far.wire.answer(request.answer())
    assert far.take()[0].is_response


def test_headers_may_be_binary_but_for_codes_that_do_not_fit() -> None:
    far = Far(Config(serialization="ROCKETMQ"))
    far.wire.ask(Command(11), 1.0)
    far.wire.ask(Command(200_050), 1.0)
    kinds = [request.serialization for request in far.take()]
    assert kinds == [Serialization.BINARY, Serialization.JSON]


def test_an_account_signs_its_requests() -> None:
    config = replace(Config(), access_key="me", secret_key="shh", security_token="t")
    far = Far(config)
    far.wire.ask(Command(11, 0, {"topic": "T"}), 1.0)
    (request,) = far.take()
    assert request.ext is not None
    assert (request.ext[ACCESS_KEY], request.ext["SecurityToken"]) == ("me", "t")
    assert request.ext[SIGNATURE] == signature(request, "shh").decode()


@pytest.mark.parametrize(
    ("said", "guess"),
    [(b"HTTP/1.1 400 Bad Request\r\n\r\n", "HTTP"), (b"\x15\x03\x01\x00\x02\x02F", "tls_enable"),
     (b"\xff\xff\xff\xff\xff\xff\xff\xff", "server of RocketMQ")],
)  # fmt: skip
def test_a_stranger_is_named(said: bytes, guess: str) -> None:
    with pytest.raises(BadAnswer, match=guess):
        Far().wire.receive_data(said)
