"""Which transactions are open: the window, copies, outcomes, what is forgotten."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.rocketmq.broker.transactions.book import (
    RECENT_MAX,
    Decision,
    Outcome,
    TransactionBook,
)

COMMIT, ROLLBACK, GIVE_UP = Outcome.COMMIT, Outcome.ROLLBACK, Outcome.GIVE_UP


def done(book: TransactionBook, root: int, outcome: Outcome = COMMIT, op: int = 0) -> None:
    book.decide(root, Decision(outcome, root, op))
    book.finish(root)


KINDS = st.sampled_from(["begin", "copy", "decide", "undecide", "finish", "lose"])


@given(st.lists(st.tuples(KINDS, st.integers(0, 99)), max_size=60))
def test_the_book_is_as_small_as_its_window(history: list[tuple[str, int]]) -> None:
    """Any history of checks and outcomes; the window begins with the first that is not done."""
    book, end = TransactionBook(0), 0
    newest: dict[int, int] = {}  # the newest half of what is not done, by root
    decided: dict[int, Outcome] = {}
    ended: dict[int, Outcome] = {}
    for kind, pick in history:
        open_ones = [root for root in newest if root not in decided]
        roots = list(decided) if kind in ("undecide", "finish") else open_ones
        if kind == "begin":
            newest[end] = end
            end += 1
        elif roots:
            root = roots[pick % len(roots)]
            if kind == "copy":
                book.copied(root, end)
                newest[root] = end
                end += 1
            elif kind == "decide":
                decided[root] = (COMMIT, ROLLBACK)[pick % 2]
                book.decide(root, Decision(decided[root], newest[root], pick))
            elif kind == "undecide":
                book.undecide(root, None)
                del decided[root]
            elif kind == "finish":
                book.finish(root)
                ended[root] = decided.pop(root)
                del newest[root]
            else:
                book.lose(newest.pop(root))
                ended[root] = GIVE_UP
        start = book.first
        assert book.advance(end) == (book.first > start)
        assert book.first == min(newest.values(), default=end)
        assert {root: each.outcome for root, each in book.undone()} == decided
        assert {offset for offset in range(end) if book.is_open(offset)} == {
            offset for root, offset in newest.items() if root not in decided
        }
        for root, offset in newest.items():
            assert (book.newest(root), book.root_of(offset)) == (offset, root)
        for root, outcome in ended.items():
            assert (book.outcome(root), book.is_forgotten(root)) == (outcome, False)
    for root in newest:
        done(book, root)
    book.advance(end)
    assert book.first == end
    assert [book._decided, book._root_of, book._newest] == [{}, {}, {}]


def test_a_copy_of_what_has_ended_holds_nothing_up() -> None:
    book = TransactionBook(0)
    done(book, 0)
    book.advance(1)
    book.copied(0, 1)
    assert not book.is_open(1)
    assert book.advance(2)


def test_repetitions_are_known_for_a_while() -> None:
    book = TransactionBook(0)
    done(book, 0, ROLLBACK)
    book.advance(1)
    assert (book.outcome(0), book.is_forgotten(0)) == (ROLLBACK, False)
    for root in range(1, RECENT_MAX + 2):
        done(book, root)
        book.advance(root + 1)
    assert (book.outcome(0), book.is_forgotten(0)) == (None, True)


def test_an_outcome_that_could_not_be_recorded() -> None:
    book = TransactionBook(0)
    given_up = Decision(GIVE_UP, 0, 1, done=True)
    book.decide(0, given_up)
    before = book.decide(0, Decision(COMMIT, 0))
    assert before is given_up
    book.undecide(0, before)
    assert book.outcome(0) is GIVE_UP


def test_a_late_outcome_behind_the_window_leaves_nothing() -> None:
    book = TransactionBook(0)
    done(book, 0, GIVE_UP)
    book.advance(5)
    done(book, 0, COMMIT, 9)
    assert book.outcome(0) is COMMIT
    assert book.decision(0) is None


def test_where_a_start_has_to_read_ops_from() -> None:
    book = TransactionBook(0)
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
