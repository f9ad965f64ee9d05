"""What is answered over one connection."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from penstock.core.chance import SystemChance
from penstock.nsq.client.config import Config
from penstock.nsq.client.consume.backoff import Backoff
from penstock.nsq.client.consume.replies import Link, Outcome, Replies
from penstock.nsq.client.errors import NotConnected

IDS = [b"%016d" % n for n in range(3)]


class FakeLink:
    """A connection that keeps what it is told."""

    def __init__(self) -> None:
        self.address = "node:1"
        self.is_open = True
        self.in_flight = 0
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


class Desk:
    """Replies, and a loop whose passes a test ends."""

    def __init__(self, in_flight: int = 3, **options: float) -> None:
        self.link = FakeLink()
        self.link.in_flight = in_flight
        self.outcomes: list[Outcome] = []
        self.due: list[Callable[[], None]] = []
        config = Config(**options)  # type: ignore[arg-type]
        self.backoff = Backoff(config, SystemChance(1))
        self.replies = Replies(
            cast(Link, self.link), config, self.backoff, self.outcomes.append, self.due.append
        )

    def end_pass(self) -> list[bytes]:
        """What was sent by the end of this pass of the loop."""
        due, self.due[:] = list(self.due), []
        for flush in due:
            flush()
        sent, self.link.sent = self.link.sent, []
        return sent


def test_fins_of_a_pass_go_out_together() -> None:
    desk = Desk()
    assert all(map(desk.replies.finish, IDS))
    assert len(desk.due) == 1
    assert desk.replies.in_flight == 0
    assert desk.end_pass() == [b"".join(b"FIN %b\n" % each for each in IDS)]
    assert desk.link.in_flight == 0
    assert desk.end_pass() == []
    assert desk.outcomes == []


def test_all_keeps_its_order() -> None:
    desk = Desk(in_flight=5)
    desk.replies.finish(IDS[0])
    desk.replies.touch(IDS[1:2])
    desk.replies.finish(IDS[1])
    desk.replies.requeue([(IDS[2], 1)], 0.25, False)
    desk.replies.finish(b"x" * 16)
    desk.replies.set_ready(7)
    desk.replies.finish_all(b"FIN yyyyyyyyyyyyyyyy\n", 1)
    lines = b"".join(desk.end_pass()).split(b"\n")
    words = [b"FIN", b"TOUCH", b"FIN", b"REQ", b"FIN", b"RDY", b"FIN", b""]
    assert [line.partition(b" ")[0] for line in lines] == words
    assert desk.link.in_flight == 0


def test_delays() -> None:
    desk = Desk(default_requeue_delay=90, max_requeue_delay=200)
    desk.replies.requeue([(IDS[0], 0), (IDS[1], 2), (IDS[2], 3)], None, True)
    assert desk.end_pass() == [b"REQ %b 0\nREQ %b 180000\nREQ %b 200000\n" % tuple(IDS)]
    desk.replies.requeue([(IDS[0], 3)], 1.5, True)
    assert desk.end_pass() == [b"REQ %b 1500\n" % IDS[0]]
    desk.replies.requeue([(IDS[0], 1)], -1, True)
    assert desk.end_pass() == [b"REQ %b 90000\n" % IDS[0]]


def test_outcomes_are_told_before_the_answer() -> None:
    desk = Desk()
    desk.backoff.level = 1
    desk.replies._outcome = lambda _: desk.link.sent.append(b"told")
    desk.replies.finish_all(b"FIN", 1)
    desk.replies.requeue([(IDS[0], 1)], 0, True)
    desk.replies.finish(IDS[1])
    line = b"REQ %b 0\n" % IDS[0]
    assert desk.end_pass() == [b"told", b"FIN", b"told", line, b"told", b"FIN %b\n" % IDS[1]]


def test_which_outcome() -> None:
    desk = Desk(in_flight=9)
    desk.replies.finish(IDS[0])
    desk.replies.requeue([(IDS[1], 1)], 0, True)
    desk.replies.requeue([(IDS[2], 1)], 0, False)
    assert desk.outcomes == [Outcome.FAILURE, Outcome.NEITHER]
    desk.backoff.level = 1
    desk.replies.finish(IDS[0])
    desk.replies.finish_all(b"FIN", 1)
    assert desk.outcomes[2:] == [Outcome.SUCCESS, Outcome.SUCCESS]


def test_giving_back_is_no_outcome() -> None:
    desk = Desk()
    desk.replies.give_back(IDS)
    assert desk.end_pass() == [b"".join(b"REQ %b 0\n" % each for each in IDS)]
    desk.replies.give_back([])
    assert desk.end_pass() == []
    assert desk.outcomes == []


def test_after_the_end() -> None:
    desk = Desk()
    desk.replies.finish(IDS[0])
    desk.replies.close()
    assert not desk.replies.finish(IDS[1])
    assert not desk.replies.finish_all(b"FIN", 1)
    assert not desk.replies.requeue([(IDS[1], 1)], 0, True)
    assert not desk.replies.touch(IDS)
    assert desk.end_pass() == []
    assert desk.outcomes == []


def test_a_connection_that_is_found_gone() -> None:
    desk = Desk()
    desk.link.is_open = False
    assert desk.replies.is_open
    assert not desk.replies.touch(IDS)
    assert not desk.replies.is_open
    other = Desk()
    other.link.is_open = False
    other.replies.set_ready(1)
    assert not other.replies.is_open
