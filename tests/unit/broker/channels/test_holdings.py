"""What a channel holds in flight, deferred or requeued, and whom it wakes when: as a dict does."""

from __future__ import annotations

import tracemalloc

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from penstock.broker.channels.alarms import Alarms, Sleeper
from penstock.broker.channels.deferred import (
    DUE_IN_ORDER_MAX,
    EARLIEST,
    LATEST,
    Deferred,
    DeferredRange,
)
from penstock.broker.channels.flights import Flights, SingleFlight
from penstock.broker.channels.requeued import Requeued, RequeuedRange
from penstock.core.ranges import RangeSet
from penstock.core.units import MILLISECOND, SECOND

GRAIN = 10 * MILLISECOND
TIMEOUT = 60 * SECOND
NOW = 1000 * SECOND
BACK = st.integers(0, 40)
COUNT = st.integers(1, 12)
ATTEMPTS = st.integers(1, 65535)


# --- in flight -----------------------------------------------------------------------------------


class FlightsModel(RuleBasedStateMachine):
    """The messages in flight to one consumer are a dict by offset."""

    def __init__(self) -> None:
        super().__init__()
        self.flights = Flights(TIMEOUT)
        self.held: dict[int, SingleFlight] = {}
        self.odd: set[int] = set()
        self.now, self.end = NOW, 0

    @rule(step=st.sampled_from([0, 1, GRAIN, SECOND, TIMEOUT]))
    def wait(self, step: int) -> None:
        self.now += step

    @rule(gap=st.integers(0, 1), count=COUNT)
    def deliver(self, gap: int, count: int) -> None:
        first = self.end + gap
        self.end = first + count
        deadline = self.flights.add(first, self.end, self.now)
        assert 0 <= deadline - self.now - TIMEOUT < GRAIN, "never early, at most a grain late"
        self.held |= dict.fromkeys(
            range(first, self.end), SingleFlight(deadline, 1, deadline - TIMEOUT)
        )

    @rule(back=BACK, count=COUNT)
    def finish(self, back: int, count: int) -> None:
        self.finish_from(max(0, self.end - back), count)

    @rule(count=st.one_of(COUNT, st.just(0)))
    def finish_oldest(self, count: int) -> None:
        """So many, or by 0 just the first of its ranges."""
        first, next_, _ = min(self.flights.ranges(), default=(0, 1, 1))
        self.finish_from(first, count or next_ - first)

    def finish_from(self, first: int, count: int) -> None:
        span = range(first, first + count)
        is_fresh = all(offset in self.held and offset not in self.odd for offset in span)
        assert self.flights.finish(span.start, span.stop) is is_fresh, "all of it or nothing"
        if is_fresh:
            for offset in span:
                del self.held[offset]

    @rule(back=BACK, attempts=ATTEMPTS, wait=st.sampled_from([None, 5, SECOND, 3 * TIMEOUT]))
    def take(self, back: int, attempts: int, wait: int | None) -> None:
        """One message is finished, touched or delivered again."""
        offset = max(0, self.end - back)
        assert self.flights.take(offset) == self.held.pop(offset, None)
        self.odd.discard(offset)
        if wait is not None:
            self.flights.add_odd(offset, attempts, self.now + wait, self.now)
            self.held[offset] = SingleFlight(self.now + wait, attempts, self.now)
            self.odd.add(offset)
            self.end = max(self.end, offset + 1)

    @rule()
    def expire(self) -> None:
        late = spread(self.flights.expire(self.now))
        assert late == {o: odd.attempts for o, odd in self.held.items() if odd.deadline <= self.now}
        self.held = {offset: odd for offset, odd in self.held.items() if offset not in late}
        self.odd -= late.keys()

    @rule()
    def clear(self) -> None:
        self.flights.clear()
        self.held.clear()
        self.odd.clear()

    @invariant()
    def agrees(self) -> None:
        assert spread(self.flights.ranges()) == {o: odd.attempts for o, odd in self.held.items()}
        assert self.flights.count == len(self.held)
        assert self.flights.floor() == min(self.held, default=None)
        deadlines = [odd.deadline for odd in self.held.values()]
        assert self.flights.next_deadline() == min(deadlines, default=None)
        near = range(max(0, self.end - 20), self.end + 3)
        assert [o for o in near if o in self.flights] == [o for o in near if o in self.held]


def spread(ranges: list[tuple[int, int, int]]) -> dict[int, int]:
    """The attempts by offset."""
    found = [(o, attempts) for first, next_, attempts in ranges for o in range(first, next_)]
    assert len(found) == len(dict(found)), "none is there twice"
    return dict(found)


TestFlights = FlightsModel.TestCase


def test_neighbours_of_one_deadline_are_one_range() -> None:
    found = Flights(TIMEOUT)
    for first, next_, now in ((0, 4, NOW), (4, 6, NOW), (8, 9, NOW), (9, 10, NOW + SECOND)):
        found.add(first, next_, now)
    assert sorted(found.ranges()) == [(0, 6, 1), (8, 9, 1), (9, 10, 1)]


def test_neighbours_of_several_deadlines_are_finished_together() -> None:
    found = Flights(TIMEOUT)
    for first, next_, now in ((0, 4, NOW), (4, 6, NOW + SECOND), (7, 9, NOW + 2 * SECOND)):
        found.add(first, next_, now)
    assert not found.finish(3, 8), "6 is not in flight"
    assert found.finish(1, 6)
    assert sorted(found.ranges()) == [(0, 1, 1), (7, 9, 1)]


def test_a_message_touched_thousands_of_times_does_not_pile_up() -> None:
    found = Flights(TIMEOUT)
    for step in range(5000):
        found.take(1)
        found.add_odd(1, 1, NOW + step, NOW)
    assert len(found._odd_heap) < 2500
    assert found.expire(NOW + 4998) == []
    assert found.expire(NOW + 4999) == [(1, 2, 1)]


# --- deferred ------------------------------------------------------------------------------------


class DeferredModel(RuleBasedStateMachine):
    """Deferred messages are a dict of deadlines and attempts; a journal keeps what it is told."""

    def __init__(self) -> None:
        super().__init__()
        self.deferred = Deferred()
        self.waiting: dict[int, tuple[int, int]] = {}
        self.kept: dict[int, DeferredRange] = {}
        self.is_new = True
        self.now, self.end = 0, 0

    def in_time(self) -> list[tuple[int, int]]:
        return sorted((deadline, offset) for offset, (deadline, _) in self.waiting.items())

    def forget(self, offsets: list[int]) -> None:
        for offset in offsets:
            del self.waiting[offset]

    @rule(
        wait=st.one_of(st.integers(0, 40), st.sampled_from([EARLIEST, -(1 << 65), 1 << 65])),
        gap=st.integers(0, 1), count=st.sampled_from([1, 1, 5]), attempts=st.integers(0, 65535),
    )  # fmt: skip
    def add(self, wait: int, gap: int, count: int, attempts: int) -> None:
        first = self.end + gap
        self.end = first + count
        self.deferred.add(self.now + wait, first, self.end, attempts)
        deadline = min(max(self.now + wait, EARLIEST), LATEST)
        self.waiting |= dict.fromkeys(range(first, self.end), (deadline, attempts))

    @rule(step=st.integers(0, 9))
    def due(self, step: int) -> None:
        self.now += step
        found = self.deferred.due(self.now)
        assert found == sorted(found), "by deadline, then in the order of the log"
        gone = [(e.deadline, o) for e in found for o in range(e.first, e.next)]
        assert gone == [each for each in self.in_time() if each[0] <= self.now]
        assert all(self.waiting[e.first] == (e.deadline, e.attempts) for e in found)
        self.forget([offset for _, offset in gone])

    @rule(backs=st.lists(st.integers(-3, 40), max_size=20))
    def take(self, backs: list[int]) -> None:
        wanted = [self.end - back for back in backs]
        taken = self.deferred.take([*wanted, -1, 1 << 70])
        assert sorted(taken, key=lambda entry: entry.first) == [
            DeferredRange(self.waiting[o][0], o, o + 1, self.waiting[o][1])
            for o in sorted(set(wanted) & set(self.waiting))
        ]
        self.forget([entry.first for entry in taken])

    @rule(count=COUNT)
    def drop(self, count: int) -> None:
        next_ = [offset for _, offset in self.in_time()[:count]]
        assert self.deferred.drop(count) == len(next_)
        self.forget(next_)

    @rule(everything=st.booleans())
    def collect(self, everything: bool) -> None:
        reset, added, over = self.deferred.collect(everything=everything)
        assert reset is (everything or self.is_new)
        self.kept = {} if reset else {o: e for o, e in self.kept.items() if o not in over}
        self.kept |= {entry.first: entry for entry in added}
        assert sorted(self.kept.values()) == sorted(self.deferred)
        assert self.deferred.collect(everything=False) == (False, [], [])
        self.is_new = False

    @rule()
    def clear(self) -> None:
        self.deferred.clear()
        self.waiting.clear()
        self.is_new = True

    @rule(back=st.integers(-2, 40), limit=st.integers(1, 9))
    def look(self, back: int, limit: int) -> None:
        low, in_time = self.end - back, self.in_time()
        after = in_time[back % len(in_time)] if in_time and back % 3 else None
        page = [(entry.deadline, entry.first) for entry in self.deferred.soonest(limit, after)]
        assert page == [each for each in in_time if after is None or each > after][:limit]
        ranges = sorted(self.deferred, key=lambda entry: entry.first)
        ahead = [entry for entry in ranges if entry.next > low]
        assert self.deferred.nearest(low, limit) == ahead[:limit]
        assert self.deferred.newest(limit) == ranges[::-1][:limit]
        assert self.deferred.count_below(low) == sum(offset < low for offset in self.waiting)

    @invariant()
    def agrees(self) -> None:
        assert self.deferred.count == len(self.waiting)
        assert self.deferred.floor() == min(self.waiting, default=None)
        deadlines = [deadline for deadline, _ in self.waiting.values()]
        assert self.deferred.next_deadline() == min(deadlines, default=None)


TestDeferred = DeferredModel.TestCase


def test_values_of_any_size_come_back() -> None:
    deferred = Deferred()
    entries = [
        DeferredRange(EARLIEST, 0, 1, 0),
        DeferredRange(LATEST, (1 << 63) - 2, (1 << 63) - 1, 65535),
        DeferredRange(5, 1 << 40, (1 << 40) + (1 << 31), 1),
    ]
    for entry in entries:
        deferred.add(*entry)
    assert deferred.count_below(1 << 70) == deferred.count == (1 << 31) + 2
    assert sorted(deferred) == sorted(entries)
    assert deferred.due(1 << 65) == sorted(entries)


def test_what_is_beyond_the_bounds_stands_at_them() -> None:
    deferred = Deferred()
    deferred.add(LATEST + 1, 0, 1, 0)
    deferred.add(EARLIEST - 1, 1, 2, 0)
    assert [entry.deadline for entry in deferred] == [LATEST, EARLIEST]
    assert deferred.soonest(1, (LATEST + 5, 0)) == []
    assert deferred.nearest(1 << 70, 5) == []
    assert deferred.take([-1, 1 << 70]) == []


def test_what_was_taken_is_not_due() -> None:
    deferred = Deferred()
    for deadline in (10, 12, 14):
        deferred.add(deadline, deadline, deadline + 1, 1)
    deferred.take([10, 12])
    assert deferred.due(13) == []
    assert deferred.due(14) == [DeferredRange(14, 14, 15, 1)]


def test_the_next_deadline_is_of_what_still_waits() -> None:
    deferred = Deferred()
    for deadline in (10, 20):
        deferred.add(deadline, deadline, deadline + 1, 1)
    deferred.take([10])
    assert deferred.next_deadline() == 20


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


def test_a_deferral_costs_less_than_100_bytes() -> None:
    tracemalloc.start()
    deferred = Deferred()
    for offset in range(20_000):
        deferred.add(10**18 + offset * 7919 % 10**6, offset, offset + 1, 1)
    deferred.collect(everything=True)
    nbytes, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert nbytes < 100 * 20_000


def test_the_memory_of_what_is_over_is_used_again() -> None:
    """In masses; and taken out one by one they leave nothing until their deadline."""
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
    for offset in range(20_000):
        deferred.add(LATEST, offset, offset + 1, 1)
        assert len(deferred.take([offset])) == 1
        deferred.collect(everything=False)
    nbytes, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert nbytes < 3000 * 100


# --- requeued ------------------------------------------------------------------------------------


class RequeuedModel(RuleBasedStateMachine):
    """Requeued messages are a list; each waits until the cursor has come to its tail."""

    def __init__(self) -> None:
        super().__init__()
        self.requeued = Requeued()
        self.waiting: list[RequeuedRange] = []
        self.end = self.tail = 0

    def singles(self) -> list[tuple[int, int]]:
        return [
            (o, entry.attempts) for entry in self.waiting for o in range(entry.first, entry.next)
        ]

    @rule(count=COUNT, attempts=st.integers(1, 6), step=st.integers(0, 3))
    def add(self, count: int, attempts: int, step: int) -> None:
        self.tail += step
        entry = RequeuedRange(self.end, self.end + count, attempts, self.tail)
        self.end += count + 1
        self.requeued.add(entry)
        self.waiting.append(entry)

    @rule(back=st.integers(0, 4), room=st.integers(1, 9), put_back=st.booleans())
    def take(self, back: int, room: int, put_back: bool) -> None:
        cursor = self.tail - back
        is_due = bool(self.waiting) and self.waiting[0].after <= cursor
        assert bool(self.requeued.eligible(cursor)) is is_due
        taken = self.requeued.take(cursor, room)
        if not is_due:
            assert taken is None
            return
        first = self.waiting[0]
        assert taken == first._replace(next=min(first.next, first.first + room))
        if put_back:
            self.requeued.put_back(taken)
            self.waiting[:1] = [taken, *self.cut(first, taken.next)]
        else:
            self.waiting[:1] = self.cut(first, taken.next)

    @staticmethod
    def cut(entry: RequeuedRange, low: int) -> list[RequeuedRange]:
        return [entry._replace(first=low)] if low < entry.next else []

    @rule(count=COUNT)
    def drop(self, count: int) -> None:
        assert self.requeued.drop(count) == min(count, len(self.singles()))
        while self.waiting and count:
            first = self.waiting[0]
            low = min(first.next, first.first + count)
            count -= low - first.first
            self.waiting[:1] = self.cut(first, low)

    @rule(attempts=st.integers(1, 7))
    def take_spent(self, attempts: int) -> None:
        spent = [entry for entry in self.waiting if entry.attempts >= attempts]
        assert self.requeued.take_spent(attempts) == spent
        self.waiting = [entry for entry in self.waiting if entry.attempts < attempts]

    @rule(back=BACK, count=COUNT)
    def forget(self, back: int, count: int) -> None:
        low = max(0, self.end - back)
        gone = RangeSet()
        gone.add(low, low + count)
        self.requeued.forget(gone)
        self.waiting = [
            entry._replace(first=first, next=next_)
            for entry in self.waiting
            for first, next_ in ((entry.first, min(entry.next, low)),
                                 (max(entry.first, low + count), entry.next))
            if first < next_
        ]  # fmt: skip

    @rule()
    def clear(self) -> None:
        self.requeued.clear()
        self.waiting.clear()

    @invariant()
    def agrees(self) -> None:
        assert list(self.requeued) == self.waiting
        assert self.requeued.count == len(self.singles())
        assert self.requeued.floor() == min((entry.first for entry in self.waiting), default=None)


TestRequeued = RequeuedModel.TestCase


# --- alarms --------------------------------------------------------------------------------------


class Dozing:
    def __init__(self) -> None:
        self.wake_at: int | None = None


class AlarmsModel(RuleBasedStateMachine):
    """A sleeper is woken once, at the earliest time it has asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.alarms = Alarms()
        self.sleepers: list[Sleeper] = [Dozing() for _ in range(4)]
        self.asleep: dict[int, int] = {}
        self.now = 0

    @rule(number=st.integers(0, 3), wait=st.integers(0, 6))
    def wake(self, number: int, wait: int) -> None:
        at = self.now + wait
        self.alarms.wake(self.sleepers[number], at)
        self.asleep[number] = min(at, self.asleep.get(number, at))

    @rule(number=st.integers(0, 3))
    def cancel(self, number: int) -> None:
        self.alarms.cancel(self.sleepers[number])
        self.asleep.pop(number, None)

    @rule(step=st.integers(0, 4))
    def due(self, step: int) -> None:
        self.now += step
        woken = [self.sleepers.index(sleeper) for sleeper in self.alarms.due(self.now)]
        assert sorted(woken) == sorted(n for n, at in self.asleep.items() if at <= self.now)
        times = [self.asleep.pop(number) for number in woken]
        assert times == sorted(times)

    @invariant()
    def agrees(self) -> None:
        assert self.alarms.next_at() == min(self.asleep.values(), default=None)
        assert [s.wake_at for s in self.sleepers] == [self.asleep.get(n) for n in range(4)]


TestAlarms = AlarmsModel.TestCase


def test_equal_times_come_in_the_order_of_asking() -> None:
    alarms, sleepers = Alarms(), [Dozing() for _ in range(5)]
    for sleeper in sleepers:
        alarms.wake(sleeper, 10)
    assert alarms.due(10) == sleepers


def test_thousands_of_replaced_times_are_forgotten_and_none_that_counts() -> None:
    alarms, rest, busy = Alarms(), [Dozing() for _ in range(300)], Dozing()
    for number, sleeper in enumerate(rest):
        alarms.wake(sleeper, 80_000 + number)
        alarms.wake(sleeper, 50_000 + number * 7 % 300)
    for at in range(40_000, 10_000, -1):
        alarms.wake(busy, at)
    assert len(alarms._heap) < 3000
    assert alarms.due(10_000) == []
    assert alarms.due(10_001) == [busy]
    assert alarms.due(60_000) == sorted(rest, key=lambda sleeper: rest.index(sleeper) * 7 % 300)
    assert alarms.next_at() is None


def test_those_that_are_cancelled_are_let_go_of() -> None:
    alarms, kept = Alarms(), Dozing()
    alarms.wake(kept, 10_000)
    for at in range(1000):
        gone = Dozing()
        alarms.wake(gone, 20_000 + at)
        alarms.cancel(gone)
    assert len(alarms._heap) < 150
    assert alarms.due(50_000) == [kept]
