from __future__ import annotations

import random

from penstock.broker.channels.flights import Flights, Odd
from penstock.core.units import MILLISECOND, SECOND

GRAIN = 10 * MILLISECOND
TIMEOUT = 60 * SECOND
NOW = 1000 * SECOND


def flights(*slices: tuple[int, int], now: int = NOW) -> Flights:
    found = Flights(TIMEOUT)
    for first, next_ in slices:
        found.add(first, next_, now)
    return found


def spans(found: Flights) -> list[tuple[int, int]]:
    return sorted((first, next_) for first, next_, _ in found.ranges())


def test_nothing_in_flight() -> None:
    found = Flights(TIMEOUT)
    assert (found.count, found.floor(), found.next_deadline()) == (0, None, None)
    assert found.ranges() == []
    assert found.expire(10 * NOW) == []
    assert found.take(0) is None
    assert not found.finish(0, 1)
    assert 0 not in found


def test_a_deadline_is_never_early_and_at_most_a_grain_late() -> None:
    found = Flights(TIMEOUT)
    assert found.add(0, 1, NOW) == NOW + TIMEOUT
    late = found.add(1, 2, NOW + 1)
    assert late == NOW + TIMEOUT + GRAIN
    assert found.add(2, 3, NOW + GRAIN) == late
    assert found.next_deadline() == NOW + TIMEOUT


def test_neighbours_of_one_deadline_are_one_range() -> None:
    found = flights((0, 4), (4, 6), (8, 9))
    assert spans(found) == [(0, 6), (8, 9)]
    found.add(9, 10, NOW + SECOND)
    assert spans(found) == [(0, 6), (8, 9), (9, 10)]
    assert found.count == 8


def test_finish_in_order_from_the_front() -> None:
    found = flights((0, 10))
    assert found.finish(0, 4)
    assert spans(found) == [(4, 10)]
    assert found.finish(4, 10)
    assert (spans(found), found.count) == ([], 0)


def test_finish_in_the_middle_splits_a_range() -> None:
    found = flights((0, 10))
    assert found.finish(3, 5)
    assert spans(found) == [(0, 3), (5, 10)]
    assert found.finish(8, 10)
    assert spans(found) == [(0, 3), (5, 8)]
    assert found.count == 6


def test_finish_over_neighbours_of_several_deadlines() -> None:
    found = flights((0, 4))
    found.add(4, 8, NOW + SECOND)
    found.add(8, 12, NOW + 2 * SECOND)
    assert found.finish(2, 10)
    assert spans(found) == [(0, 2), (10, 12)]
    assert [late[:2] for late in found.expire(NOW + TIMEOUT)] == [(0, 2)]


def test_finish_of_more_than_is_held_takes_nothing() -> None:
    found = flights((0, 4), (6, 8))
    for span in [(0, 5), (3, 7), (4, 6), (5, 6), (7, 9), (20, 21)]:
        assert not found.finish(*span), span
    assert (spans(found), found.count) == ([(0, 4), (6, 8)], 6)


def test_finish_leaves_odd_messages_to_take() -> None:
    found = flights((0, 2))
    found.add_odd(2, 3, NOW + TIMEOUT, NOW)
    assert not found.finish(0, 3)
    assert found.count == 3
    assert found.take(2) == Odd(NOW + TIMEOUT, 3, NOW)
    assert found.take(2) is None
    assert found.count == 2


def test_take_from_a_fresh_range() -> None:
    found = flights((0, 5))
    assert found.take(2) == Odd(NOW + TIMEOUT, 1, NOW)
    assert found.take(2) is None
    assert found.take(5) is None
    assert (spans(found), found.count) == ([(0, 2), (3, 5)], 4)


def test_contains() -> None:
    found = flights((2, 4), (6, 7))
    found.add_odd(0, 2, NOW, NOW)
    assert [offset for offset in range(9) if offset in found] == [0, 2, 3, 6]


def test_expire_takes_what_has_passed_its_deadline() -> None:
    found = flights((0, 3))
    found.add(3, 5, NOW + SECOND)
    found.add_odd(9, 4, NOW + TIMEOUT, NOW)
    assert found.expire(NOW + TIMEOUT - 1) == []
    assert sorted(found.expire(NOW + TIMEOUT)) == [(0, 3, 1), (9, 10, 4)]
    assert found.count == 2
    assert found.next_deadline() == NOW + SECOND + TIMEOUT
    assert found.expire(NOW + SECOND + TIMEOUT) == [(3, 5, 1)]
    assert (found.count, found.next_deadline()) == (0, None)


def test_an_odd_message_with_a_new_deadline_does_not_expire_at_the_old_one() -> None:
    found = Flights(TIMEOUT)
    found.add_odd(1, 2, NOW + 5, NOW)
    found.take(1)
    found.add_odd(1, 2, NOW + 9, NOW)
    assert found.expire(NOW + 5) == []
    assert found.next_deadline() == NOW + 9
    assert found.expire(NOW + 9) == [(1, 2, 2)]


def test_next_deadline_forgets_odd_messages_that_are_over() -> None:
    found = Flights(TIMEOUT)
    found.add_odd(1, 2, NOW + 5, NOW)
    found.add_odd(2, 2, NOW + 7, NOW)
    found.take(1)
    assert found.next_deadline() == NOW + 7


def test_floor_is_the_lowest_of_both_kinds() -> None:
    found = flights((5, 8))
    assert found.floor() == 5
    found.add_odd(9, 2, NOW, NOW)
    assert found.floor() == 5
    found.add_odd(1, 2, NOW, NOW)
    assert found.floor() == 1
    found.finish(5, 8)
    found.take(1)
    assert found.floor() == 9


def test_clear() -> None:
    found = flights((5, 8))
    found.add_odd(1, 2, NOW, NOW)
    found.clear()
    assert (found.count, found.ranges(), found.next_deadline()) == (0, [], None)
    assert found.expire(10 * NOW) == []


def test_a_message_touched_thousands_of_times_does_not_pile_up() -> None:
    found = Flights(TIMEOUT)
    for step in range(5000):
        found.take(1)
        found.add_odd(1, 1, NOW + step, NOW)
    assert len(found._odd_heap) < 2500
    assert found.count == 1
    assert found.expire(NOW + 4998) == []
    assert found.expire(NOW + 4999) == [(1, 2, 1)]


def test_as_a_set_of_offsets() -> None:
    """Many random steps against a plain dict of offsets."""
    rng = random.Random(3)
    found, plain, next_offset, now = Flights(TIMEOUT), dict[int, int](), 0, NOW
    for _ in range(3000):
        now += rng.choice([0, 0, GRAIN, SECOND])
        match rng.randrange(4):
            case 0:
                first = next_offset + rng.randrange(2)
                next_offset = first + rng.randrange(1, 9)
                deadline = found.add(first, next_offset, now)
                plain.update(dict.fromkeys(range(first, next_offset), deadline))
            case 1:
                first = rng.choice([found.floor() or 0, rng.randrange(next_offset + 1)])
                span = range(first, first + rng.randrange(1, 12))
                assert found.finish(span.start, span.stop) == all(o in plain for o in span)
                if all(o in plain for o in span):
                    for offset in span:
                        del plain[offset]
            case 2:
                offset = rng.randrange(max(0, next_offset - 50), next_offset + 1)
                odd = found.take(offset)
                assert (odd and odd.deadline) == plain.pop(offset, None)
            case 3:
                late = [o for f, n, _ in found.expire(now) for o in range(f, n)]
                assert sorted(late) == sorted(o for o, at in plain.items() if at <= now)
                plain = {o: at for o, at in plain.items() if at > now}
        assert found.count == len(plain)
        assert found.floor() == min(plain, default=None)
        assert found.next_deadline() == min(plain.values(), default=None)
    assert next_offset > 1000
