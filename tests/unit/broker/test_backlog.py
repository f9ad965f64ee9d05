from __future__ import annotations

import tracemalloc

from penstock.broker.backlog import DUE_IN_ORDER_MAX, Deferred, Requeue, Requeued, Waiting


def requeue(*entries: Requeued) -> Requeue:
    waiting = Requeue()
    for entry in entries:
        waiting.add(entry)
    return waiting


def test_nothing_requeued() -> None:
    waiting = Requeue()
    assert waiting.eligible(10) == waiting.count == 0
    assert waiting.take(10, 5) is None
    assert waiting.floor() is None


def test_requeued_come_in_the_order_of_their_return() -> None:
    late, early = Requeued(7, 8, 1, 0), Requeued(2, 4, 3, 0)
    waiting = requeue(late, early)
    assert list(waiting) == [late, early]
    assert waiting.count == 3
    assert waiting.floor() == 2
    assert [waiting.take(0, 9), waiting.take(0, 9), waiting.take(0, 9)] == [late, early, None]
    assert waiting.count == 0


def test_requeued_wait_until_the_cursor_has_reached_after() -> None:
    waiting = requeue(Requeued(0, 3, 1, 10), Requeued(3, 4, 1, 20))
    assert waiting.eligible(9) == 0
    assert waiting.take(9, 5) is None
    assert waiting.eligible(10) > 0
    assert waiting.take(10, 5) == Requeued(0, 3, 1, 10)
    assert waiting.eligible(10) == 0
    assert waiting.take(19, 5) is None
    assert waiting.take(20, 5) == Requeued(3, 4, 1, 20)


def test_a_range_larger_than_the_room_is_split_and_keeps_its_place() -> None:
    waiting = requeue(Requeued(0, 5, 2, 0), Requeued(9, 10, 1, 0))
    assert waiting.take(0, 2) == Requeued(0, 2, 2, 0)
    assert waiting.count == 4
    assert waiting.floor() == 2
    assert waiting.take(0, 9) == Requeued(2, 5, 2, 0)
    assert waiting.take(0, 9) == Requeued(9, 10, 1, 0)


def test_put_back_undoes_a_take() -> None:
    waiting = requeue(Requeued(0, 5, 2, 0), Requeued(9, 10, 1, 0))
    taken = waiting.take(0, 5)
    assert taken is not None
    waiting.put_back(taken._replace(first=3))
    assert waiting.count == 3
    assert list(waiting) == [Requeued(3, 5, 2, 0), Requeued(9, 10, 1, 0)]


def test_clear_requeued() -> None:
    waiting = requeue(Requeued(0, 5, 2, 0))
    waiting.clear()
    assert waiting.count == 0
    assert list(waiting) == []


def test_deferred_are_due_earliest_first() -> None:
    deferred = Deferred()
    deferred.add(30, 0, 2, 1)
    deferred.add(10, 5, 6, 0)
    deferred.add(20, 3, 5, 2)
    assert deferred.count == 5
    assert deferred.next_deadline() == 10
    assert deferred.floor() == 0
    assert deferred.due(9) == []
    assert deferred.due(20) == [Waiting(10, 5, 6, 0), Waiting(20, 3, 5, 2)]
    assert deferred.count == 2
    assert list(deferred) == [Waiting(30, 0, 2, 1)]
    assert deferred.due(30) == [Waiting(30, 0, 2, 1)]
    assert (deferred.count, deferred.floor(), deferred.next_deadline()) == (0, None, None)


def test_the_first_collect_is_everything() -> None:
    deferred = Deferred()
    deferred.add(30, 0, 2, 1)
    assert deferred.collect(everything=False) == (True, [Waiting(30, 0, 2, 1)], [])


def test_collect_tells_what_came_and_went_since() -> None:
    deferred = Deferred()
    deferred.add(10, 0, 2, 1)
    deferred.add(30, 7, 8, 1)
    deferred.collect(everything=False)
    assert deferred.collect(everything=False) == (False, [], [])
    deferred.due(10)
    deferred.add(40, 5, 6, 0)
    assert deferred.collect(everything=False) == (False, [Waiting(40, 5, 6, 0)], [0])
    assert deferred.collect(everything=False) == (False, [], [])


def test_one_that_is_over_and_deferred_again_is_an_addition() -> None:
    deferred = Deferred()
    deferred.add(10, 0, 1, 1)
    deferred.collect(everything=False)
    deferred.due(10)
    deferred.add(50, 0, 1, 2)
    assert deferred.collect(everything=False) == (False, [Waiting(50, 0, 1, 2)], [])


def test_collect_everything_is_a_reset() -> None:
    deferred = Deferred()
    deferred.add(10, 0, 1, 1)
    deferred.collect(everything=False)
    deferred.add(20, 1, 2, 1)
    reset, waiting, over = deferred.collect(everything=True)
    assert (reset, sorted(waiting), over) == (
        True,
        [Waiting(10, 0, 1, 1), Waiting(20, 1, 2, 1)],
        [],
    )
    assert deferred.collect(everything=False) == (False, [], [])


def test_clear_deferred_is_a_reset() -> None:
    deferred = Deferred()
    deferred.add(10, 0, 1, 1)
    deferred.collect(everything=False)
    deferred.clear()
    assert deferred.count == 0
    deferred.add(20, 1, 2, 1)
    assert deferred.collect(everything=False) == (True, [Waiting(20, 1, 2, 1)], [])


def test_what_is_due_in_masses_comes_in_the_order_of_the_log() -> None:
    deferred = Deferred()
    total = DUE_IN_ORDER_MAX + 600
    for offset in range(total):
        deferred.add(1000 + offset // 100, offset, offset + 1, offset // (total - 100))
    deferred.add(5000, total, total + 1, 0)
    deferred.collect(everything=True)
    found = deferred.due(2000)
    earliest, rest = found[:DUE_IN_ORDER_MAX], found[DUE_IN_ORDER_MAX:]
    assert [entry.deadline for entry in earliest] == sorted(entry.deadline for entry in earliest)
    assert [entry.first for entry in rest] == sorted(entry.first for entry in rest)
    assert len(rest) == 2  # neighbours of as many attempts are joined
    offsets = [(o, e.attempts) for e in found for o in range(e.first, e.next)]
    assert sorted(offsets) == [(o, o // (total - 100)) for o in range(total)]
    assert (deferred.count, deferred.next_deadline()) == (1, 5000)
    assert sorted(deferred.collect(everything=False)[2]) == list(range(total))


# --- single messages of what is deferred ---------------------------------------------------------


def deferred_ranges() -> Deferred:
    deferred = Deferred()
    deferred.add(30, 0, 4, 1)
    deferred.add(10, 7, 8, 2)
    deferred.add(-5, 9, 11, 65535)  # a time before the machine was started
    return deferred


def test_values_of_any_size_come_back() -> None:
    deferred = Deferred()
    entries = [Waiting(-(1 << 62), 0, 1, 0), Waiting(1 << 64, (1 << 63) - 2, (1 << 63) - 1, 65535),
               Waiting(5, 1 << 40, (1 << 40) + (1 << 31), 1)]  # fmt: skip
    for entry in entries:
        deferred.add(*entry)
    assert sorted(deferred) == sorted(entries)
    assert deferred.due(1 << 65) == sorted(entries)


def test_taking_out_cuts_ranges() -> None:
    deferred = deferred_ranges()
    assert deferred.collect(everything=False)[0]
    assert sorted(deferred.take([2, 9, 100])) == [Waiting(-5, 9, 10, 65535), Waiting(30, 2, 3, 1)]
    rest = [Waiting(-5, 10, 11, 65535), Waiting(10, 7, 8, 2), Waiting(30, 0, 2, 1),
            Waiting(30, 3, 4, 1)]  # fmt: skip
    assert sorted(deferred) == rest
    assert (deferred.count, deferred.floor(), deferred.next_deadline()) == (5, 0, -5)
    reset, added, over = deferred.collect(everything=False)
    assert (reset, over) == (False, [9])
    assert sorted(added) == [rest[0], rest[2], rest[3]]
    assert deferred.take([55]) == []


def test_dropping_takes_what_comes_next() -> None:
    deferred = deferred_ranges()
    assert deferred.drop(4) == 4
    assert list(deferred) == [Waiting(30, 1, 4, 1)]
    assert deferred.drop(9) == 3
    assert deferred.count == 0


def test_the_soonest_in_pages() -> None:
    deferred = deferred_ranges()
    found: list[tuple[int, int]] = []
    while page := deferred.soonest(2, found[-1] if found else None):
        assert len(page) <= 2
        assert all(entry.next == entry.first + 1 for entry in page)
        found += [(entry.deadline, entry.first) for entry in page]
    assert found == [(-5, 9), (-5, 10), (10, 7), (30, 0), (30, 1), (30, 2), (30, 3)]


def test_by_offset() -> None:
    deferred = deferred_ranges()
    assert [entry.first for entry in deferred.nearest(2, 2)] == [0, 7]
    assert [entry.first for entry in deferred.nearest(4, 9)] == [7, 9]
    assert [entry.first for entry in deferred.newest(2)] == [9, 7]


def test_a_deferral_costs_less_than_100_bytes() -> None:
    tracemalloc.start()
    deferred = Deferred()
    for offset in range(20_000):
        deferred.add(10**18 + offset * 7919 % 10**6, offset, offset + 1, 1)
    deferred.collect(everything=True)
    nbytes, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert nbytes < 100 * 20_000


# --- what was requeued ---------------------------------------------------------------------------


def test_requeued_messages_are_dropped_from_the_oldest_on() -> None:
    requeue = Requeue()
    requeue.add(Requeued(0, 3, 1, 0))
    requeue.add(Requeued(9, 10, 1, 0))
    assert requeue.drop(2) == 2
    assert list(requeue) == [Requeued(2, 3, 1, 0), Requeued(9, 10, 1, 0)]
    assert requeue.drop(5) == 2
    assert requeue.count == 0


def test_those_with_enough_attempts_are_taken_out() -> None:
    requeue = Requeue()
    for first, attempts in enumerate((1, 5, 2, 6)):
        requeue.add(Requeued(first, first + 1, attempts, 0))
    assert [entry.first for entry in requeue.take_spent(5)] == [1, 3]
    assert ([entry.first for entry in requeue], requeue.count) == ([0, 2], 2)
