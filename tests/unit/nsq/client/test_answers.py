"""What has come and nobody has taken, messages and deliveries, and how they are answered."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import cast

import pytest

from penstock.core.chance import SystemChance
from penstock.nsq.client.config import Config
from penstock.nsq.client.consume.backoff import Backoff
from penstock.nsq.client.consume.delivery import Delivery
from penstock.nsq.client.consume.inbox import Inbox
from penstock.nsq.client.consume.replies import Link, Outcome, Replies
from penstock.nsq.client.message import Message
from penstock.nsq.protocol import encode
from tests.unit.nsq.client.links import FakeLink, block

ID = b"0123456789abcdef"
IDS = [b"%016x" % n for n in range(3)]


class Desk:
    """Replies, and a loop whose passes a test ends."""

    def __init__(self, in_flight: int = 3, **options: float) -> None:
        self.link = FakeLink(in_flight)
        self.outcomes: list[Outcome] = []
        self.due: list[Callable[[], None]] = []
        config = Config(**options)  # type: ignore[arg-type]
        self.backoff = Backoff(config, SystemChance(1))
        self.replies = Replies(
            cast(Link, self.link), config, self.backoff, self.outcomes.append, self.due.append
        )

    def message(self) -> Message:
        return Message(7, 2, ID, b"x", self.replies)

    def delivery(self) -> Delivery:
        return Delivery(self.replies, block(*[(2, b"x")] * 3))

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


# --- one message


def test_answers_once() -> None:
    desk = Desk()
    made = desk.message()
    assert (made.timestamp_ns, made.attempts, made.body, made.address) == (7, 2, b"x", "node:1")
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
    assert desk.message().requeue(1.5)
    assert desk.message().requeue()
    assert not desk.message().is_answered
    assert b"".join(desk.end_pass()) == b"REQ %b 1500\nREQ %b 20000\n" % (ID, ID)


@pytest.mark.parametrize("delay", [math.inf, math.nan])
@pytest.mark.parametrize("make", [Desk.message, Desk.delivery])
def test_an_endless_delay_leaves_it_to_be_answered(
    make: Callable[[Desk], Message | Delivery], delay: float
) -> None:
    desk = Desk()
    made = make(desk)
    with pytest.raises(ValueError, match="a delay of"):
        made.requeue(delay)
    assert not made.is_answered
    assert not desk.outcomes
    assert made.requeue(0)


def test_a_lost_connection() -> None:
    desk = Desk()
    made = desk.message()
    assert made.is_alive
    desk.replies.close()
    assert not made.is_alive
    assert not made.finish()
    assert "0123456789abcdef" in repr(made)


# --- messages that arrived together


def test_finish_once() -> None:
    desk = Desk()
    messages = desk.delivery()
    assert (len(messages), messages.bodies(), messages.address) == (3, [b"x"] * 3, "node:1")
    assert messages.is_alive
    assert messages.finish()
    assert messages.is_answered
    assert not messages.finish()
    assert not messages.requeue()
    assert desk.end_pass() == [b"".join(map(encode.finish, IDS))]
    assert desk.link.in_flight == 0


def test_requeue_and_touch() -> None:
    desk = Desk(default_requeue_delay=2)
    messages = desk.delivery()
    assert messages.touch()
    assert messages.requeue()
    assert not messages.touch()
    touches = b"".join(map(encode.touch, IDS))
    requeues = b"".join(encode.requeue(identifier, 4000) for identifier in IDS)
    assert desk.end_pass() == [touches, requeues]
    assert len(desk.outcomes) == 1


def test_one_by_one() -> None:
    desk = Desk()
    first, *others = desk.delivery().messages()
    assert (first.id, first.body, first.attempts, first.timestamp_ns) == (IDS[0], b"x", 2, 5)
    assert first.finish()
    assert [one.id for one in others] == IDS[1:]
    desk.end_pass()
    assert desk.link.in_flight == 2


# --- what nobody has taken yet


def rest(inbox: Inbox) -> list[bytes]:
    return [message.body for message in iter(inbox.message, None)]


def test_one_by_one_and_together() -> None:
    inbox, desk = Inbox(0), Desk()
    assert inbox.is_empty
    assert inbox.message() is inbox.delivery() is None
    inbox.put(desk.replies, block(b"a", b"b"))
    inbox.put(desk.replies, block((65535, b"c")))  # there is no limit
    inbox.put(desk.replies, block(b"d", b"e"))
    first = inbox.message()
    assert first is not None
    assert first.body == b"a"
    assert not inbox.is_empty
    delivery = inbox.delivery()
    assert delivery is not None
    assert delivery.bodies() == [b"c"]
    assert rest(inbox) == [b"b", b"d", b"e"]
    assert inbox.is_empty
    inbox.put(desk.replies, block(b"f"))
    assert inbox.message() is not None
    assert inbox.is_empty


def test_spent_messages_are_put_aside() -> None:
    inbox, desk = Inbox(5), Desk()
    inbox.put(desk.replies, block((5, b"a"), (6, b"b"), b"c", b"d", (9, b"e")))
    inbox.put(desk.replies, block((6, b"f")))
    inbox.put(desk.replies, block((5, b"g")))
    assert [message.body for message in inbox.spent] == [b"b", b"e", b"f"]
    found = [one.bodies() for one in iter(inbox.delivery, None)]
    assert found == [[b"a"], [b"c", b"d"], [b"g"]]


def test_many_of_one_size() -> None:
    inbox, desk = Inbox(5), Desk()
    many = block(*((6 if number == 17 else 1, b"%03d" % number) for number in range(40)))
    assert many.stride
    inbox.put(desk.replies, many)
    assert [message.body for message in inbox.spent] == [b"017"]
    assert rest(inbox) == [b"%03d" % number for number in range(40) if number != 17]


def test_what_a_lost_connection_brought_is_dropped() -> None:
    inbox, lost, kept = Inbox(5), Desk(), Desk()
    inbox.put(lost.replies, block(b"a", b"b"))
    inbox.put(kept.replies, block(b"c"))
    inbox.put(lost.replies, block(b"d"))
    inbox.put(lost.replies, block((6, b"e")))
    assert inbox.message() is not None
    lost.replies.close()
    inbox.discard(lost.replies)
    assert rest(inbox) == [b"c"]
    assert not inbox.spent


def test_giving_back() -> None:
    inbox, desk = Inbox(5), Desk(in_flight=5)
    inbox.put(desk.replies, block(b"a", b"b", b"c"))
    inbox.put(desk.replies, block(b"d", (7, b"e")))
    assert inbox.message() is not None
    inbox.give_back()
    assert inbox.is_empty
    assert not inbox.spent
    sent = b"".join(desk.end_pass())
    assert sent.count(b"REQ ") == sent.count(b" 0\n") == 4
    assert desk.link.in_flight == 1
