from __future__ import annotations

import random
import tracemalloc

from penstock.broker.channels.deferred import (
    DUE_IN_ORDER_MAX,
    EARLIEST,
    LATEST,
    Deferred,
    DeferredRange,
)


def test_deferred_are_due_earliest_first() -> None:
    deferred = Deferred()
    deferred.add(30, 0, 2, 1)
    deferred.add(10, 5, 6, 0)
    deferred.add(20, 3, 5, 2)
    assert deferred.count == 5
    assert deferred.next_deadline() == 10
    assert deferred.floor() == 0
    assert deferred.due(9) == []
    assert deferred.due(20) == [DeferredRange(10, 5, 6, 0), DeferredRange(20, 3, 5, 2)]
    assert deferred.count == 2
    assert list(deferred) == [DeferredRange(30, 0, 2, 1)]
    assert deferred.due(30) == [DeferredRange(30, 0, 2, 1)]
    assert (deferred.count, deferred.floor(), deferred.next_deadline()) == (0, None, None)


def test_what_is_due_together_comes_in_the_order_of_the_log() -> None:
    deferred = Deferred()
    for offset in range(4):
        deferred.add(10, offset, offset + 1, 0)
    deferred.due(10)  # its rows are used again, the last one first
    for offset in (7, 4, 6, 5):
        deferred.add(20, offset, offset + 1, 0)
    assert deferred.drop(1) == 1
    assert [entry.first for entry in deferred.due(20)] == [5, 6, 7]


def test_the_first_collect_is_everything() -> None:
    deferred = Deferred()
    deferred.add(30, 0, 2, 1)
    assert deferred.collect(everything=False) == (True, [DeferredRange(30, 0, 2, 1)], [])


def test_collect_tells_what_came_and_went_since() -> None:
    deferred = Deferred()
    deferred.add(10, 0, 2, 1)
    deferred.add(30, 7, 8, 1)
    deferred.collect(everything=False)
    assert deferred.collect(everything=False) == (False, [], [])
    deferred.due(10)
    deferred.add(40, 5, 6, 0)
    assert deferred.collect(everything=False) == (False, [DeferredRange(40, 5, 6, 0)], [0])
    assert deferred.collect(everything=False) == (False, [], [])


def test_one_that_is_over_and_deferred_again_is_an_addition() -> None:
    deferred = Deferred()
    deferred.add(10, 0, 1, 1)
    deferred.collect(everything=False)
    deferred.due(10)
    deferred.add(50, 0, 1, 2)
    assert deferred.collect(everything=False) == (False, [DeferredRange(50, 0, 1, 2)], [])


def test_collect_everything_is_a_reset() -> None:
    deferred = Deferred()
    deferred.add(10, 0, 1, 1)
    deferred.collect(everything=False)
    deferred.add(20, 1, 2, 1)
    reset, waiting, over = deferred.collect(everything=True)
    assert (reset, sorted(waiting), over) == (
        True,
        [DeferredRange(10, 0, 1, 1), DeferredRange(20, 1, 2, 1)],
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
    assert deferred.collect(everything=False) == (True, [DeferredRange(20, 1, 2, 1)], [])


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


def test_what_is_late_comes_in_the_order_of_the_log_though_far_more_still_waits() -> None:
    deferred = Deferred()
    waiting = 10 * DUE_IN_ORDER_MAX
    for offset in range(DUE_IN_ORDER_MAX):
        deferred.add(100, offset, offset + 1, 0)
    for offset in range(4):  # the latest first
        deferred.add(500 - offset, DUE_IN_ORDER_MAX + offset, DUE_IN_ORDER_MAX + offset + 1, 0)
    deferred.add(501, 5000, 5000 + waiting, 0)
    for offset in range(waiting):
        deferred.add(10**6 + offset, 10**6 + offset, 10**6 + offset + 1, 0)
    *in_time, joined, alone = deferred.due(501)
    assert [entry.first for entry in in_time] == list(range(DUE_IN_ORDER_MAX))
    assert joined == DeferredRange(500, DUE_IN_ORDER_MAX, DUE_IN_ORDER_MAX + 4, 0)
    assert alone == DeferredRange(501, 5000, 5000 + waiting, 0)
    assert (deferred.count, deferred.next_deadline()) == (waiting, 10**6)


# --- single messages of what is deferred ---------------------------------------------------------


def deferred_ranges() -> Deferred:
    deferred = Deferred()
    deferred.add(30, 0, 4, 1)
    deferred.add(10, 7, 8, 2)
    deferred.add(-5, 9, 11, 65535)  # a time before the machine was started
    return deferred


def test_values_of_any_size_come_back() -> None:
    deferred = Deferred()
    entries = [
        DeferredRange(EARLIEST, 0, 1, 0),
        DeferredRange(LATEST, (1 << 63) - 2, (1 << 63) - 1, 65535),
        DeferredRange(5, 1 << 40, (1 << 40) + (1 << 31), 1),
    ]
    for entry in entries:
        deferred.add(*entry)
    assert sorted(deferred) == sorted(entries)
    assert deferred.due(1 << 65) == sorted(entries)


def test_taking_out_cuts_ranges() -> None:
    deferred = deferred_ranges()
    assert deferred.collect(everything=False)[0]
    assert sorted(deferred.take([2, 9, 100])) == [
        DeferredRange(-5, 9, 10, 65535),
        DeferredRange(30, 2, 3, 1),
    ]
    rest = [
        DeferredRange(-5, 10, 11, 65535),
        DeferredRange(10, 7, 8, 2),
        DeferredRange(30, 0, 2, 1),
        DeferredRange(30, 3, 4, 1),
    ]
    assert sorted(deferred) == rest
    assert (deferred.count, deferred.floor(), deferred.next_deadline()) == (5, 0, -5)
    reset, added, over = deferred.collect(everything=False)
    assert (reset, over) == (False, [9])
    assert sorted(added) == [rest[0], rest[2], rest[3]]
    assert deferred.take([55]) == []


def test_dropping_takes_what_comes_next() -> None:
    deferred = deferred_ranges()
    assert deferred.drop(4) == 4
    assert list(deferred) == [DeferredRange(30, 1, 4, 1)]
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


def test_deadlines_beyond_the_bounds_stand_at_them() -> None:
    deferred = Deferred()
    deferred.add(LATEST + 1, 0, 1, 0)
    deferred.add(EARLIEST - 1, 1, 2, 0)
    assert [entry.deadline for entry in deferred] == [LATEST, EARLIEST]
    assert deferred.soonest(1, (LATEST + 5, 0)) == []
    assert deferred.nearest(1 << 70, 5) == []
    assert deferred.take([-1, 1 << 70]) == []


def test_it_agrees_with_a_plain_list() -> None:
    chance = random.Random(11)
    deferred = Deferred()
    model: dict[int, tuple[int, int]] = {}  # offset: deadline, attempts
    kept: dict[int, DeferredRange] = {}  # what a journal would hold
    now = offset = 0
    for _ in range(3000):
        match chance.randrange(5):
            case 0 | 1:
                count, deadline = chance.choice((1, 1, 5)), now + chance.randrange(40)
                deferred.add(deadline, offset, offset + count, 3)
                model.update(dict.fromkeys(range(offset, offset + count), (deadline, 3)))
                offset += count + chance.randrange(2)
            case 2:
                now += chance.randrange(9)
                gone = {o for entry in deferred.due(now) for o in range(entry.first, entry.next)}
                assert gone == {o for o, (deadline, _) in model.items() if deadline <= now}
                model = {o: value for o, value in model.items() if o not in gone}
            case 3:
                wanted = [chance.randrange(offset + 1) for _ in range(chance.randrange(20))]
                taken = [entry.first for entry in deferred.take(wanted)]
                assert sorted(taken) == sorted(set(wanted) & set(model))
                for each in taken:
                    del model[each]
            case 4:
                reset, added, over = deferred.collect(everything=chance.random() < 0.1)
                kept = {} if reset else {o: e for o, e in kept.items() if o not in over}
                kept |= {entry.first: entry for entry in added}
                assert sorted(kept.values()) == sorted(deferred)
        in_time = sorted((deadline, o) for o, (deadline, _) in model.items())
        after = chance.choice([None, *in_time[:20]])
        page = [(entry.deadline, entry.first) for entry in deferred.soonest(7, after)]
        assert page == [each for each in in_time if after is None or each > after][:7]
        assert deferred.count == len(model)
        assert deferred.floor() == min(model, default=None)
        assert deferred.next_deadline() == (in_time[0][0] if in_time else None)


def test_the_memory_of_what_is_over_is_used_again() -> None:
    deferred = Deferred()
    deferred.collect(everything=False)
    tracemalloc.start()
    for turn in range(40):
        for offset in range(1000):
            deferred.add(10**18, offset, offset + 1, 1)
        if turn % 2:
            assert len(deferred.take(range(1000))) == 1000
        else:
            assert deferred.drop(1000) == 1000
        deferred.collect(everything=False)
    nbytes, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert nbytes < 10 * 75 * 1000


def test_deferrals_taken_out_one_by_one_leave_nothing_until_their_deadline() -> None:
    deferred = Deferred()
    deferred.collect(everything=False)
    tracemalloc.start()
    for offset in range(20_000):
        deferred.add(LATEST, offset, offset + 1, 1)
        assert len(deferred.take([offset])) == 1
        deferred.collect(everything=False)
    nbytes, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert nbytes < 3000 * 100


def test_how_many_are_below_an_offset() -> None:
    deferred = Deferred()
    deferred.add(1000, 10, 15, 0)
    deferred.add(500, 3, 4, 0)
    deferred.add(700, 20, 21, 0)
    deferred.due(500)
    assert [deferred.count_below(offset) for offset in (0, 5, 10, 12, 15, 20, 21, 1 << 63)] == [
        0, 0, 0, 2, 5, 5, 6, 6]  # fmt: skip
