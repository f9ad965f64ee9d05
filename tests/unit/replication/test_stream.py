"""A follower's connection at a primary: when it is sent what, and what it may say."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from penstock.net.budget import Budget
from penstock.replication.copy import Copy
from penstock.replication.feed import Feed
from penstock.replication.messages import (
    ANSWER_MAX,
    Ack,
    Frames,
    ReplicationError,
    encode_ack,
)
from penstock.replication.stream import AHEAD, SILENT_NS, WAIT_NS, CopyStream
from penstock.testing.clock import FakeClock
from tests.unit.replication.pieces import HELLO, Primary, new_copy


class Wire:
    """The transport of a connection."""

    def __init__(self) -> None:
        self.frames = Frames(ANSWER_MAX)
        self.answers: list[memoryview] = []
        self.state = "open"
        self.has_head = False

    def write(self, data: bytes) -> None:
        if not self.has_head:
            self.has_head = True
            data = data[data.index(b"\r\n\r\n") + 4 :]
        self.answers += self.frames.feed(data) if data else []

    def is_closing(self) -> bool:
        return self.state != "open"

    def close(self) -> None:
        self.state = "closed"

    def abort(self) -> None:
        self.state = "aborted"


class Scene:
    """A primary, a copy, and a connection between them that has begun."""

    def __init__(self, limit: int = 0, *, is_finite: bool = False) -> None:
        self.primary, self.copy, self.clock = Primary(), new_copy(), FakeClock()
        self.copy.begin_run(HELLO)
        self.limit, self.is_finite = limit, is_finite
        self.heard: list[int] = []
        self.closed = 0

    def begin(self) -> None:
        self.wire, self.budget = Wire(), Budget("--max-answer-memory", self.limit)
        fetch = self.copy.request("history", 1, 1 << 20)
        self.stream = CopyStream(Feed(self.primary.source, fetch), "b:1", self.clock, self.budget,
                                 heard=self._hear, closed=self._close,
                                 is_finite=self.is_finite)  # fmt: skip
        self.stream.answer(self.now)
        self.stream.begin(cast(asyncio.Transport, self.wire), b"Date: now\r\n")

    def _hear(self, stream: CopyStream) -> None:
        self.heard.append(stream.feed.number)

    def _close(self, stream: CopyStream) -> None:
        self.closed += 1

    @property
    def now(self) -> int:
        return self.clock.monotonic_ns()

    @property
    def sent(self) -> int:
        """Answers that the follower has not taken."""
        return len(self.wire.answers)

    def take(self) -> None:
        """The follower takes an answer and says so."""
        assert self.copy.take(self.wire.answers.pop(0)) is None
        self.stream.received(encode_ack(self.copy.acknowledge()))

    def until_whole(self) -> None:
        while not self.copy.is_whole:
            self.take()


def end(copy: Copy) -> int:
    return copy.topics["t"].log.next_offset


def test_a_follower_gets_all_and_then_what_comes_without_asking() -> None:
    scene = Scene()
    scene.primary.publish("t", b"1")
    scene.begin()
    scene.until_whole()
    assert (end(scene.copy), scene.sent, scene.budget.used) == (1, 0, 0)
    for number in range(2, 12):
        scene.primary.publish("t", b"%d" % number)
        scene.stream.news(scene.now)
        scene.take()
        assert scene.copy.is_whole
        assert end(scene.copy) == number
    assert scene.heard == list(range(2, 2 + len(scene.heard)))
    assert scene.stream.feed.ends == {("t", scene.copy.topics["t"].log.id_base): 11}


def test_so_many_answers_are_ahead_and_what_comes_meanwhile_shares_the_next() -> None:
    scene = Scene()
    scene.primary.publish("t", b"1")
    scene.begin()
    scene.until_whole()
    for number in range(10):
        scene.primary.publish("t", b"%d" % number)
        scene.stream.news(scene.now)
    assert scene.sent == AHEAD
    scene.take()
    assert scene.sent == AHEAD
    for _ in range(AHEAD):
        scene.take()
    assert (end(scene.copy), scene.sent) == (11, 0)


def test_an_idle_follower_hears_from_its_primary_and_one_that_is_silent_is_let_go() -> None:
    scene = Scene()
    scene.begin()
    scene.until_whole()
    for _ in range(3):
        scene.stream.look(scene.now)
        assert scene.sent == 0
        scene.clock.advance(WAIT_NS)
        scene.stream.look(scene.now)
        scene.take()
        assert scene.copy.last_end.waited_ns == WAIT_NS
    for _ in range(SILENT_NS // WAIT_NS + AHEAD + 1):
        assert scene.wire.state == "open"
        scene.clock.advance(WAIT_NS)
        scene.stream.look(scene.now)
    assert (scene.sent, scene.wire.state) == (AHEAD, "aborted")
    scene.stream.lost()
    assert (scene.closed, scene.budget.used) == (1, 0)


def test_news_without_an_ok_that_waits_goes_out_with_the_tick() -> None:
    scene = Scene()
    scene.primary.publish("t", b"1")
    scene.begin()
    scene.until_whole()
    scene.primary.publish("t", b"2")
    scene.stream.push(scene.now)
    assert scene.sent == 0
    scene.stream.look(scene.now)
    assert scene.sent == 1


def test_one_that_catches_up_at_a_pace_gets_an_answer_a_tick() -> None:
    scene = Scene()
    scene.primary.publish("t", *[bytes(1000)] * 50)
    scene.begin()
    scene.stream.is_paced, scene.stream.room = True, 5000
    scene.take()
    while not scene.copy.is_whole:
        assert scene.sent == 0
        scene.stream.look(scene.now)
        [answer] = scene.wire.answers
        assert len(answer) < 10_000
        scene.take()
    assert end(scene.copy) == 50


def test_one_that_catches_up_waits_for_room_in_the_memory_for_answers() -> None:
    scene = Scene(limit=1 << 20)
    scene.primary.publish("t", *[bytes(1000)] * 50)
    scene.begin()
    others, scene.budget.used = scene.budget.used, 1 << 20
    scene.take()
    scene.stream.look(scene.now)
    assert scene.sent == 0
    scene.budget.used -= (1 << 20) - others
    scene.stream.room = 10_000
    scene.stream.look(scene.now)
    assert scene.sent > 0


def test_a_connection_that_is_full_is_sent_nothing_until_it_has_room() -> None:
    scene = Scene()
    scene.primary.publish("t", b"1")
    scene.begin()
    scene.until_whole()
    scene.stream.pause()
    scene.primary.publish("t", b"2")
    scene.stream.news(scene.now)
    assert scene.sent == 0
    scene.stream.resume()
    assert scene.sent == 1


def test_a_node_that_grows_no_more_ends_when_all_is_sent() -> None:
    scene = Scene(is_finite=True)
    scene.primary.publish("t", b"1", b"2")
    scene.begin()
    scene.until_whole()
    assert (end(scene.copy), scene.wire.state, scene.sent) == (2, "closed", 0)


def test_of_another_run_there_is_one_answer() -> None:
    scene = Scene()
    scene.copy = new_copy()
    scene.begin()
    assert scene.copy.take(scene.wire.answers.pop()) == HELLO
    assert scene.wire.state == "closed"


@pytest.mark.parametrize(
    "said",
    [
        encode_ack(Ack(3, {})),
        encode_ack(Ack(1, {})),
        encode_ack(Ack(2, {})) + encode_ack(Ack(3, {})) * 2,
        b"\x04\0\0\0none",
        b"\xff\xff\xff\xff",
    ],
)
def test_words_out_of_turn_and_no_words_end_the_connection(said: bytes) -> None:
    scene = Scene()
    scene.begin()
    for byte in said:
        if scene.wire.state == "open":
            scene.stream.received(bytes([byte]))
    assert scene.wire.state == "aborted"
    scene.stream.news(scene.now)
    assert scene.sent <= AHEAD


def test_messages_come_as_they_were_sent_however_they_are_cut() -> None:
    messages = [encode_ack(Ack(number, {"t" * number: (1, 2)})) for number in range(1, 40)]
    data = b"".join(messages)
    for size in (1, 2, 3, 5, 7, 100, len(data)):
        frames, found = Frames(1000), []
        for start in range(0, len(data), size):
            found += [bytes(each) for each in frames.feed(data[start : start + size])]
        assert found == [each[4:] for each in messages]
    with pytest.raises(ReplicationError, match="a message of 11 bytes"):
        Frames(10).feed(b"\x0b\0\0\0")
