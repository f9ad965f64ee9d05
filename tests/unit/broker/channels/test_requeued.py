from __future__ import annotations

from penstock.broker.channels.requeued import Requeued, RequeuedRange


def requeue(*entries: RequeuedRange) -> Requeued:
    waiting = Requeued()
    for entry in entries:
        waiting.add(entry)
    return waiting


def test_nothing_requeued() -> None:
    waiting = Requeued()
    assert waiting.eligible(10) == waiting.count == 0
    assert waiting.take(10, 5) is None
    assert waiting.floor() is None


def test_requeued_come_in_the_order_of_their_return() -> None:
    late, early = RequeuedRange(7, 8, 1, 0), RequeuedRange(2, 4, 3, 0)
    waiting = requeue(late, early)
    assert list(waiting) == [late, early]
    assert waiting.count == 3
    assert waiting.floor() == 2
    assert [waiting.take(0, 9), waiting.take(0, 9), waiting.take(0, 9)] == [late, early, None]
    assert waiting.count == 0


def test_requeued_wait_until_the_cursor_has_reached_after() -> None:
    waiting = requeue(RequeuedRange(0, 3, 1, 10), RequeuedRange(3, 4, 1, 20))
    assert waiting.eligible(9) == 0
    assert waiting.take(9, 5) is None
    assert waiting.eligible(10) > 0
    assert waiting.take(10, 5) == RequeuedRange(0, 3, 1, 10)
    assert waiting.eligible(10) == 0
    assert waiting.take(19, 5) is None
    assert waiting.take(20, 5) == RequeuedRange(3, 4, 1, 20)


def test_a_range_larger_than_the_room_is_split_and_keeps_its_place() -> None:
    waiting = requeue(RequeuedRange(0, 5, 2, 0), RequeuedRange(9, 10, 1, 0))
    assert waiting.take(0, 2) == RequeuedRange(0, 2, 2, 0)
    assert waiting.count == 4
    assert waiting.floor() == 2
    assert waiting.take(0, 9) == RequeuedRange(2, 5, 2, 0)
    assert waiting.take(0, 9) == RequeuedRange(9, 10, 1, 0)


def test_put_back_undoes_a_take() -> None:
    waiting = requeue(RequeuedRange(0, 5, 2, 0), RequeuedRange(9, 10, 1, 0))
    taken = waiting.take(0, 5)
    assert taken is not None
    waiting.put_back(taken._replace(first=3))
    assert waiting.count == 3
    assert list(waiting) == [RequeuedRange(3, 5, 2, 0), RequeuedRange(9, 10, 1, 0)]


def test_clear_requeued() -> None:
    waiting = requeue(RequeuedRange(0, 5, 2, 0))
    waiting.clear()
    assert waiting.count == 0
    assert list(waiting) == []


def test_requeued_messages_are_dropped_from_the_oldest_on() -> None:
    requeued = Requeued()
    requeued.add(RequeuedRange(0, 3, 1, 0))
    requeued.add(RequeuedRange(9, 10, 1, 0))
    assert requeued.drop(2) == 2
    assert list(requeued) == [RequeuedRange(2, 3, 1, 0), RequeuedRange(9, 10, 1, 0)]
    assert requeued.drop(5) == 2
    assert requeued.count == 0


def test_those_with_enough_attempts_are_taken_out() -> None:
    requeued = Requeued()
    for first, attempts in enumerate((1, 5, 2, 6)):
        requeued.add(RequeuedRange(first, first + 1, attempts, 0))
    assert [entry.first for entry in requeued.take_spent(5)] == [1, 3]
    assert ([entry.first for entry in requeued], requeued.count) == ([0, 2], 2)
