"""Which transactions are open: the window, copies, outcomes, what is forgotten."""

from __future__ import annotations

import random

from penstock.rocketmq.broker.transactions.book import RECENT_MAX, Book, Decision, Outcome

COMMIT, ROLLBACK, GIVE_UP = Outcome.COMMIT, Outcome.ROLLBACK, Outcome.GIVE_UP


def done(book: Book, root: int, outcome: Outcome = COMMIT, op: int = 0) -> None:
    book.decide(root, Decision(outcome, root, op))
    book.finish(root)


def test_the_window_moves_over_what_has_ended() -> None:
    book = Book(10)
    assert not book.advance(20)
    done(book, 11)
    assert not book.advance(20)
    assert book.is_open(10)
    done(book, 10)
    assert book.advance(20)
    assert book.first == 12
    assert not book.advance(20)


def test_the_window_waits_for_what_is_not_done() -> None:
    book = Book(0)
    book.decide(0, Decision(COMMIT, 0, 3))
    assert not book.advance(5)
    assert list(book.undone()) == [(0, Decision(COMMIT, 0, 3))]
    book.finish(0)
    assert book.advance(5)
    assert list(book.undone()) == []


def test_a_copy_takes_the_place_of_its_half() -> None:
    book = Book(0)
    book.copied(0, 7)
    assert book.root_of(7) == 0
    assert (book.is_open(0), book.is_open(7)) == (False, True)
    book.advance(7)
    assert book.first == 1
    assert book.newest(0) == 7
    assert not book.is_forgotten(0)
    book.copied(0, 9)
    done(book, 0)
    assert not book.is_open(9)
    for other in (1, 2, 3, 4, 5, 6, 8):
        done(book, other)
    assert book.advance(10)
    assert book.first == 10


def test_a_half_that_has_left_the_window_is_not_open() -> None:
    book = Book(0)
    book.copied(0, 1)
    done(book, 0)
    assert book.advance(2)
    assert not book.is_open(1)


def test_a_copy_of_what_has_ended_holds_nothing_up() -> None:
    book = Book(0)
    done(book, 0)
    book.advance(1)
    book.copied(0, 1)
    assert not book.is_open(1)
    assert book.advance(2)


def test_repetitions_are_known_for_a_while() -> None:
    book = Book(0)
    done(book, 0, ROLLBACK)
    book.advance(1)
    assert book.outcome(0) is ROLLBACK
    assert not book.is_forgotten(0)
    for root in range(1, RECENT_MAX + 2):
        done(book, root)
        book.advance(root + 1)
    assert book.outcome(0) is None
    assert book.is_forgotten(0)


def test_an_outcome_that_could_not_be_recorded() -> None:
    book = Book(0)
    assert book.decide(0, Decision(COMMIT, 0)) is None
    assert not book.is_open(0)
    book.undecide(0, None)
    assert book.is_open(0)
    given_up = Decision(GIVE_UP, 0, 1, done=True)
    book.decide(0, given_up)
    before = book.decide(0, Decision(COMMIT, 0))
    assert before is given_up
    book.undecide(0, before)
    assert book.outcome(0) is GIVE_UP


def test_a_late_outcome_behind_the_window_leaves_nothing() -> None:
    book = Book(0)
    done(book, 0, GIVE_UP)
    book.advance(5)
    done(book, 0, COMMIT, 9)
    assert book.outcome(0) is COMMIT
    assert book.decision(0) is None


def test_what_cannot_be_read_does_not_hold_the_window() -> None:
    book = Book(0)
    book.lose(0)
    book.advance(1)
    assert book.first == 1


def test_where_a_start_has_to_read_ops_from() -> None:
    book = Book(0)
    assert book.first_op(50) == 50
    book.lose(4)
    book.decide(3, Decision(COMMIT, 3, op_min=19))
    book.decide(1, Decision(COMMIT, 1, 20))
    book.decide(2, Decision(ROLLBACK, 2, 21))
    assert book.first_op(50) == 19
    book.undecide(3, None)
    assert book.first_op(50) == 20
    for root in (0, 1, 2):
        done(book, root, op=30)
    assert book.first_op(50) == 30


def test_the_book_is_as_small_as_its_window() -> None:
    """Any history of checks and outcomes: when all has ended, nothing is left."""
    chance = random.Random(5)
    for _ in range(50):
        book, end = Book(0), 0
        live: dict[int, int] = {}
        for _ in range(300):
            kind = chance.random()
            if kind < 0.4 or not live:
                live[end] = end
                end += 1
            elif kind < 0.6:
                root = chance.choice(list(live))
                book.copied(root, end)
                end += 1
            else:
                root = chance.choice(list(live))
                del live[root]
                done(book, root, chance.choice([COMMIT, ROLLBACK]))
                book.advance(end)
            for root in live:
                assert book.is_open(book.newest(root))
                assert book.first <= book.newest(root)
        for root in list(live):
            done(book, root)
        book.advance(end)
        assert book.first == end
        assert [book._decided, book._root_of, book._newest] == [{}, {}, {}]
