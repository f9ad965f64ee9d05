"""Dead letters: by name, as runs and lines, sent again; stored messages in pages and pieces."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import msgspec
import pytest
from msgspec import UNSET

from penstock.core.errors import PenstockError
from penstock.nsq.dead_letters.export import FORMS, described
from penstock.nsq.dead_letters.listing import OffsetRun, count_of, first_of, joined, newest_of
from penstock.nsq.dead_letters.resend import DISCARDED, HOLD_S, Resending, Target, did_not_come
from penstock.nsq.dead_letters.topics import group_of, is_named_so, is_rocketmq
from penstock.nsq.page import Origin, Page, shown_body
from penstock.nsq.pieces import PIECE_BYTES, pieces
from penstock.nsq.stored import Stored


class Letter:
    """A message that keeps its answers."""

    def __init__(self, number: int, body: bytes = b"x") -> None:
        self.id = b"%016x" % number
        self.body = body
        self.answers: list[str] = []

    def finish(self) -> None:
        self.answers.append("FIN")

    def requeue(self, delay: float, backoff: bool) -> None:
        assert not backoff
        self.answers.append(f"REQ {delay:g}")


def resending(**targets: str) -> Resending:
    found = Resending()
    for number, topic in targets.items():
        found.choose(f"{int(number[1:]):016x}", Target(topic, "c" if topic else ""))
    return found


def test_where_letters_go() -> None:
    work = resending(n1="a", n2="")
    assert (work.targets, work.result.orphans) == ({f"{1:016x}": Target("a")}, 1)
    work = Resending("elsewhere")
    work.choose("1", Target("a", "c"))
    work.choose("2", Target(""))
    assert (set(work.targets.values()), work.result.orphans) == ({Target("elsewhere")}, 0)
    work = Resending(to_channel=True)
    work.choose("1", Target("a", "c"))
    assert work.targets == {"1": Target("a", "c")}
    work = Resending(discards=True)
    work.choose("1", Target(""))
    assert (work.targets, work.result.orphans) == ({"1": DISCARDED}, 0)
    assert did_not_come(1).startswith("1 letter did not come: another consumer of the channel ")


def test_chosen_letters_go_to_their_topics_and_others_are_put_off() -> None:
    work = resending(n1="a", n2="b", n3="a")
    letters: list[Any] = [Letter(number) for number in (1, 2, 3, 4)]
    parts = [(target, list(some)) for target, some in work.to_send(letters)]
    assert parts == [(Target("a"), [letters[0], letters[2]]), (Target("b"), [letters[1]])]
    assert [each.answers for each in letters] == [[], [], [], [f"REQ {HOLD_S:g}"]]
    for target, some in parts:
        work.sent(target, some)
    assert [each.answers for each in letters[:3]] == [["FIN"]] * 3
    assert work.targets == {}
    assert work.result.sent == Counter(a=2, b=1)


def test_large_letters_go_in_pieces() -> None:
    work = resending(n1="a", n2="a")
    letters: list[Any] = [Letter(number, b"x" * 700_000) for number in (1, 2)]
    parts = [(target, len(some)) for target, some in work.to_send(letters)]
    assert parts == [(Target("a"), 1), (Target("a"), 1)]


def test_a_letter_that_comes_again_after_it_was_sent_is_finished() -> None:
    """As when it timed out between the publish and its FIN."""
    work = resending(n1="a")
    letter: Any = Letter(1)
    for target, some in work.to_send([letter]):
        work.sent(target, some)
    assert work.was_sent("0000000000000001")
    assert not work.was_sent("0000000000000002")
    assert list(work.to_send([letter])) == []
    assert letter.answers == ["FIN", "FIN"]
    assert work.result.sent == Counter(a=1)


def test_refused_letters_stay() -> None:
    work = resending(n1="a")
    letter: Any = Letter(1)
    ((target, some),) = work.to_send([letter])
    error = work.refused(target, some, PenstockError("full"))
    assert str(error) == "topic a did not take the letters: full; 0 are sent, the rest stays"
    assert letter.answers == ["REQ 0"]
    assert list(work.targets) == ["0000000000000001"]
    error = work.refused(Target("a", "c"), [], PenstockError("full"))
    assert str(error).startswith("channel c of topic a did not take the letters: full")


def test_joined() -> None:
    assert joined([0, 1, 2, 5, 8, 9]) == [OffsetRun(0, 3), OffsetRun(5, 6), OffsetRun(8, 10)]
    assert joined([]) == []


def test_ends() -> None:
    runs = [OffsetRun(0, 3), OffsetRun(5, 6), OffsetRun(8, 12)]
    assert count_of(runs) == 8
    assert first_of(runs) == [OffsetRun(0, 1)]
    assert newest_of(runs, 1) == [OffsetRun(11, 12)]
    assert newest_of(runs, 6) == [OffsetRun(2, 3), OffsetRun(5, 6), OffsetRun(8, 12)]
    assert newest_of(runs, 99) == runs
    assert first_of([]) == newest_of([], 3) == []


LETTER = Stored(7, "4d20c5c6ea0f049a", 10**18, b"a\nb", Origin("t", "c", "0" * 16, 5, 10**18))


def test_letters_as_lines() -> None:
    assert FORMS["raw"]("n:1", "t.dead", LETTER) == b"a\nb\n"
    line = FORMS["json"]("n:1", "t.dead", LETTER)
    assert line.count(b"\n") == 1
    assert json.loads(line) == described("n:1", "t.dead", LETTER)
    assert json.loads(line)["origin"]["channel"] == "c"


def test_by_name() -> None:
    names = ["orders.dead", "orders.dead#ephemeral", "%DLQ%g", "orders", "dead", "x.deadly"]
    assert [name for name in names if is_named_so(name)] == names[:3]
    assert [name for name in names if is_rocketmq(name)] == ["%DLQ%g"]
    assert [group_of(name) for name in names[1:4]] == ["", "g", ""]


# --- stored messages in pages and pieces


MESSAGE = {"offset": 3, "id": "0", "timestamp": 1, "state": "queued", "attempts": 0, "size": 1}


def test_a_page() -> None:
    page = msgspec.convert({"messages": [MESSAGE], "next": 4, "later": 1}, Page)
    assert (page.messages[0].offset, page.messages[0].origin, page.next) == (3, UNSET, 4)


def test_what_is_none() -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"messages": [{}]}, Page)


@pytest.mark.parametrize(
    ("body", "preview", "shown"),
    [
        (b"", 9, {"body": ""}),
        (b"text", 4, {"body": "text"}),
        (b"text", 3, {"body": "tex", "truncated": True}),
        ("Grüße".encode(), 3, {"body": "Gr", "truncated": True}),
        ("Grü".encode()[:3], 9, {"body_base64": "R3LD"}),
        (b"\xff\xfe", 1, {"body_base64": "/w==", "truncated": True}),
    ],
)
def test_a_body_in_json(body: bytes, preview: int, shown: dict[str, object]) -> None:
    assert shown_body(body, preview) == shown


def stored(*bodies: bytes) -> list[Stored]:
    return [Stored(offset, "", 0, body) for offset, body in enumerate(bodies)]


def test_pieces_have_so_many_messages_at_most_and_so_many_bytes() -> None:
    many = stored(*[b"x"] * 25)
    assert [len(piece) for piece in pieces(many, 10)] == [10, 10, 5]
    half = b"w" * (PIECE_BYTES // 2)
    large = stored(b"x" * 10, b"y" * PIECE_BYTES, b"z", half, half, half)
    found = [[message.offset for message in piece] for piece in pieces(large, 10)]
    assert found == [[0], [1], [2, 3], [4], [5]]
    assert list(pieces([], 10)) == []
