"""What becomes of each letter that comes, without a node."""

from __future__ import annotations

from collections import Counter
from typing import Any

from penstock.core.errors import PenstockError
from penstock.nsq.dead_letters.resend import HOLD_S, Resending, did_not_come


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
        found.choose(f"{int(number[1:]):016x}", topic)
    return found


def test_where_letters_go() -> None:
    work = resending(n1="a", n2="")
    assert (work.targets, work.result.orphans) == ({f"{1:016x}": "a"}, 1)
    work = Resending("elsewhere")
    work.choose("1", "a")
    work.choose("2", "")
    assert (set(work.targets.values()), work.result.orphans) == ({"elsewhere"}, 0)
    assert did_not_come(1).startswith("1 letter did not come: another consumer of the channel ")


def test_chosen_letters_go_to_their_topics_and_others_are_put_off() -> None:
    work = resending(n1="a", n2="b", n3="a")
    letters: list[Any] = [Letter(number) for number in (1, 2, 3, 4)]
    parts = [(target, list(some)) for target, some in work.to_send(letters)]
    assert parts == [("a", [letters[0], letters[2]]), ("b", [letters[1]])]
    assert [each.answers for each in letters] == [[], [], [], [f"REQ {HOLD_S:g}"]]
    for target, some in parts:
        work.sent(target, some)
    assert [each.answers for each in letters[:3]] == [["FIN"]] * 3
    assert work.targets == {}
    assert work.result.sent == Counter(a=2, b=1)


def test_large_letters_go_in_pieces() -> None:
    work = resending(n1="a", n2="a")
    letters: list[Any] = [Letter(number, b"x" * 700_000) for number in (1, 2)]
    assert [(target, len(some)) for target, some in work.to_send(letters)] == [("a", 1), ("a", 1)]


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
