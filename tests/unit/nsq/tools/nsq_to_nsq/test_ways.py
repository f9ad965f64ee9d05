from __future__ import annotations

import pytest

from penstock.nsq.tools.nsq_to_nsq import ways
from penstock.nsq.tools.nsq_to_nsq.ways import Picked, Run

from .fakes import delivery

BODIES = [b"%d" % number for number in range(7)]


@pytest.mark.parametrize("is_picked", [False, True])
def test_shares_are_answered_by_themselves(is_picked: bool) -> None:
    whole, link = delivery(*BODIES)
    run = Run(Picked(list(whole.messages())) if is_picked else whole, BODIES)
    shares = list(run.shares(3))
    assert [list(share.bodies) for share in shares] == [BODIES[:2], BODIES[2:4], BODIES[4:]]
    assert [share.first_id for share in shares] == [f"{number:016d}" for number in (0, 2, 4)]
    shares[1].messages.finish()
    shares[2].messages.requeue()
    assert (link.finished(), link.requeued()) == ([2, 3], [4, 5, 6])
    assert link.in_flight == 2


def test_one_share_is_the_run_itself() -> None:
    whole, link = delivery(*BODIES)
    (share,) = Run(whole, BODIES).shares(1)
    assert share.messages is whole
    share.messages.finish()
    assert link.finished() == list(range(7))


def test_fewer_messages_than_shares() -> None:
    whole, _ = delivery(b"a", b"b")
    assert [list(share.bodies) for share in Run(whole, [b"a", b"b"]).shares(5)] == [[b"a"], [b"b"]]


def test_halves() -> None:
    whole, _ = delivery(*BODIES)
    left, right = Run(whole, BODIES).halves()
    assert (len(left), len(right)) == (3, 4)
    assert [*left.bodies, *right.bodies] == BODIES


def test_no_share_is_too_much_for_one_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ways, "BYTES_MAX", 10)
    bodies = [b"x" * size for size in (1, 1, 9, 20, 3, 3, 3)]
    whole, link = delivery(*bodies)
    shares = list(Run(whole, bodies).shares(1))
    assert [body for share in shares for body in share.bodies] == bodies
    assert all(len(share) == 1 or sum(map(len, share.bodies)) <= 10 for share in shares)
    for share in shares:
        share.messages.finish()
    assert link.finished() == list(range(7))
