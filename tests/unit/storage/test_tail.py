"""The newest batches in memory: which stay, and how one is found."""

from __future__ import annotations

from penstock.core.ranges import RangeSet
from penstock.storage.tail import Tail
from tools.harness.small_logs import make


def filled(tail: Tail, *counts: int, body: bytes = b"x") -> Tail:
    """The tail with a batch of each count more."""
    first = tail.batches[-1].next_offset if tail.batches else 0
    for count in counts:
        tail.append(make(first, *[body] * count))
        first += count
    return tail


def firsts(tail: Tail) -> list[int]:
    return [batch.first_offset for batch in tail.batches]


def test_an_empty_tail_holds_nothing() -> None:
    tail = Tail(10)
    assert tail.first_offset is None
    assert tail.find(0) is None
    assert tail.nbytes == 0


def test_find() -> None:
    tail = Tail(100)
    for batch in (make(10, b"a", b"b"), make(12, b"c"), make(13, b"d", b"e")):
        tail.append(batch)
    assert [tail.find(offset) for offset in (9, 10, 11, 12, 13, 14)] == [None, 0, 0, 1, 2, 2]
    assert tail.first_offset == 10


def test_it_keeps_the_newest_messages_and_not_many_more() -> None:
    tail = Tail(100)
    for _ in range(1000):
        filled(tail, 1)
        held = tail.batches[-1].next_offset - firsts(tail)[0]
        assert min(100, tail.batches[-1].next_offset) <= held <= 125
        assert tail.nbytes == sum(len(batch.raw) for batch in tail.batches)
    assert tail.find(999) == len(tail.batches) - 1
    assert tail.find(0) is None


def test_it_stays_below_its_bytes() -> None:
    size = len(make(0, b"x" * 1000).raw)
    tail = Tail(10_000, nbytes_max=10 * size)
    for _ in range(300):
        filled(tail, 1, body=b"x" * 1000)
        assert tail.nbytes <= 10 * size
    assert len(tail.batches) == 10
    assert firsts(tail)[0] == tail.first_offset == 290


def test_the_newest_batch_stays_whatever_its_size() -> None:
    tail = filled(Tail(2, nbytes_max=50), 1, 1, 500)
    assert firsts(tail) == [2]
    assert tail.find(501) == 0
    filled(tail, 1)
    assert firsts(tail) == [502]
    assert firsts(filled(Tail(0), 1, 1, 1)) == [2]


def test_keep_only_what_is_needed() -> None:
    tail = filled(Tail(100), 2, 2, 2, 2)  # 0-1, 2-3, 4-5, 6-7
    needed = RangeSet()
    needed.add(3, 4)
    needed.add(6, 20)
    tail.keep(needed)
    assert firsts(tail) == [2, 6]
    assert tail.first_offset == 2
    assert tail.nbytes == sum(len(batch.raw) for batch in tail.batches)
    tail.keep(RangeSet())
    assert (firsts(tail), tail.nbytes, tail.first_offset) == ([], 0, None)


def test_drop_and_clear() -> None:
    tail = filled(Tail(100), 1, 2, 3)
    tail.drop(2)
    assert (firsts(tail), tail.nbytes) == ([3], len(tail.batches[0].raw))
    assert tail.find(2) is None
    assert tail.find(5) == 0
    tail.clear()
    assert (firsts(tail), tail.nbytes) == ([], 0)
    assert firsts(filled(tail, 1)) == [0]
