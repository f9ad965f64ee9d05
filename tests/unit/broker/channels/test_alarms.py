from __future__ import annotations

from penstock.broker.channels.alarms import Alarms


class Sleeper:
    def __init__(self) -> None:
        self.wake_at: int | None = None


def test_nobody_sleeps() -> None:
    alarms = Alarms()
    assert alarms.next_at() is None
    assert alarms.due(10**18) == []


def test_due_in_the_order_of_time_and_only_once() -> None:
    alarms, a, b, c = Alarms(), Sleeper(), Sleeper(), Sleeper()
    alarms.wake(a, 30)
    alarms.wake(b, 10)
    alarms.wake(c, 20)
    assert alarms.next_at() == 10
    assert alarms.due(9) == []
    assert alarms.due(20) == [b, c]
    assert (a.wake_at, b.wake_at, c.wake_at) == (30, None, None)
    assert alarms.due(20) == []
    assert alarms.next_at() == 30
    assert alarms.due(30) == [a]
    assert alarms.next_at() is None


def test_an_earlier_time_replaces_a_later_one() -> None:
    alarms, a = Alarms(), Sleeper()
    alarms.wake(a, 30)
    alarms.wake(a, 10)
    assert a.wake_at == 10
    assert alarms.due(15) == [a]
    assert alarms.next_at() is None
    assert alarms.due(40) == []


def test_a_later_time_changes_nothing() -> None:
    alarms, a = Alarms(), Sleeper()
    alarms.wake(a, 10)
    alarms.wake(a, 30)
    assert alarms.due(40) == [a]
    assert alarms.next_at() is None


def test_woken_twice_for_one_time() -> None:
    """The entry that was replaced is as late as the new one: it must not wake a second time."""
    alarms, a = Alarms(), Sleeper()
    alarms.wake(a, 30)
    alarms.wake(a, 10)
    assert alarms.due(10) == [a]
    alarms.wake(a, 30)
    assert alarms.due(30) == [a]
    assert alarms.next_at() is None


def test_equal_times_come_in_the_order_of_asking() -> None:
    alarms, sleepers = Alarms(), [Sleeper() for _ in range(5)]
    for sleeper in sleepers:
        alarms.wake(sleeper, 10)
    assert alarms.due(10) == sleepers


def test_thousands_of_replaced_times_are_forgotten_and_none_that_counts() -> None:
    alarms, rest, busy = Alarms(), [Sleeper() for _ in range(300)], Sleeper()
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
    alarms, kept = Alarms(), Sleeper()
    alarms.wake(kept, 10_000)
    for at in range(1000):
        gone = Sleeper()
        alarms.wake(gone, 20_000 + at)
        alarms.cancel(gone)
    assert len(alarms._heap) < 150
    assert alarms.due(50_000) == [kept]
