"""RDY, backoff and redistribution together, by a clock that a test moves.

The cases of pynsq's test_rdy and test_backoff (NSQ spec 8.7) are among them.
"""

from __future__ import annotations

import logging
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.chance import SystemChance
from penstock.core.units import MILLISECOND, SECOND
from penstock.nsq.client.config import Config
from penstock.nsq.client.consume.flow import Flow
from penstock.nsq.client.consume.ready import Orders
from penstock.testing.clock import FakeClock


class Case:
    """A flow, what its connections were told, and what was logged."""

    def __init__(self, max_in_flight: int = 10, connections: int = 0, **options: Any) -> None:
        self.clock = FakeClock(0)
        self.told: dict[str, int] = {}
        self.lines: list[str] = []
        self.in_flight: Counter[str] = Counter()
        self.flow: Flow[str] = Flow(
            Config(max_in_flight=max_in_flight, **options),
            self.clock,
            SystemChance(3),
            in_flight=self.in_flight.__getitem__,
            tell=self.tell,
        )
        for number in range(connections):
            self.connect(f"n{number}")

    def tell(self, level: int, _event: str, text: str, address: str = "", **_: Any) -> None:
        if level > logging.DEBUG:
            self.lines.append(f"({address}) {text}" if address else text)

    def obey(self, orders: Orders[str]) -> Orders[str]:
        for key, count in orders:
            self.told[key] = count
            assert sum(self.told.values()) <= self.flow.max_in_flight or count == 0
        assert self.told == {key: self.flow.ready(key) for key in self.told}
        return orders

    def connect(self, key: str, most: int = 2500) -> Orders[str]:
        self.told[key] = 0
        return self.obey(self.flow.connected(key, most))

    def lose(self, key: str) -> Orders[str]:
        del self.told[key]
        return self.obey(self.flow.lost(key))

    def fail(self) -> Orders[str]:
        return self.obey(self.flow.failed())

    def succeed(self) -> Orders[str]:
        return self.obey(self.flow.succeeded())

    def wait(self, seconds: float) -> Orders[str]:
        """Let time pass, ticking when it is due and not before."""
        orders: Orders[str] = []
        end = self.clock.monotonic_ns() + int(seconds * SECOND)
        while (due := self.flow.deadline) is not None and due <= end:
            self.clock.advance(max(0, due - self.clock.monotonic_ns()))
            orders += self.obey(self.flow.tick())
        self.clock.advance(end - self.clock.monotonic_ns())
        assert self.flow.tick() == []
        return orders

    def resume(self) -> str:
        """The end of a period: who tests the waters."""
        waiting = self.flow.backoff.until
        assert waiting is not None
        self.wait((waiting - self.clock.monotonic_ns()) / SECOND)
        (tester,) = [key for key, ready in self.told.items() if ready]
        assert self.told[tester] == 1
        return tester


def test_the_first_ready_is_all() -> None:
    case = Case(max_in_flight=200)
    assert case.connect("a") == [("a", 200)]


def test_a_new_connection_throttles_the_others_first() -> None:
    case = Case()
    case.connect("a")
    assert case.connect("b") == [("a", 5), ("b", 5)]
    assert case.connect("c") == [("a", 4), ("b", 3), ("c", 3)]
    assert case.lose("a") == [("b", 5), ("c", 5)]


def test_a_node_that_allows_little() -> None:
    case = Case(max_in_flight=200)
    assert case.connect("a", most=5) == [("a", 5)]


def test_changing_the_bound() -> None:
    case = Case(max_in_flight=4, connections=2)
    assert case.obey(case.flow.set_max_in_flight(10)) == [("n0", 5), ("n1", 5)]
    assert case.obey(case.flow.set_max_in_flight(0)) == [("n0", 0), ("n1", 0)]
    assert case.connect("late") == []
    assert case.flow.deadline is None
    case.obey(case.flow.set_max_in_flight(3))
    assert case.told == {"n0": 1, "n1": 1, "late": 1}


@pytest.mark.parametrize("max_in_flight", [10, 4])
def test_a_whole_backoff_of_five_connections(max_in_flight: int) -> None:
    case = Case(max_in_flight=max_in_flight, connections=5)
    before = sum(case.told.values())
    assert before == max_in_flight
    case.fail()
    assert set(case.told.values()) == {0}
    case.resume()
    case.fail()
    assert case.flow.backoff.level == 2
    case.resume()
    case.succeed()
    assert (case.flow.backoff.level, set(case.told.values())) == (1, {0})
    case.resume()
    case.succeed()
    assert sum(case.told.values()) == before
    assert case.lines[0] == "backing off for 2s (backoff level 1), setting all to RDY 0"
    assert case.lines[1].endswith(") backoff timeout expired, sending RDY 1")
    assert case.lines[2] == "backing off for 4s (backoff level 2), setting all to RDY 0"
    assert case.lines[-1].startswith("exiting backoff, returning all to RDY ")


def test_outcomes_of_what_was_under_way_do_not_count() -> None:
    case = Case(connections=2)
    case.fail()
    assert case.fail() == case.succeed() == case.obey(case.flow.continued()) == []
    assert case.flow.backoff.level == 1


def test_success_without_backoff_says_nothing() -> None:
    case = Case(connections=1)
    assert case.succeed() == []
    assert case.obey(case.flow.continued()) == []


def test_requeued_without_backoff_in_a_backoff() -> None:
    case = Case(max_in_flight=1, connections=1)
    case.fail()
    case.resume()
    assert case.obey(case.flow.continued()) == [("n0", 0)]
    case.resume()
    assert case.succeed() == []  # it is RDY 1 already
    assert case.flow.backoff.level == 0


def test_who_tests_the_waters_is_a_matter_of_chance() -> None:
    case = Case(connections=4, max_backoff_duration=3)
    testers = set()
    for _ in range(60):
        case.fail()
        testers.add(case.resume())
    assert testers == {"n0", "n1", "n2", "n3"}


def test_a_new_connection_in_a_backoff_waits() -> None:
    case = Case(connections=1)
    case.fail()
    assert case.connect("late") == []
    case.resume()
    assert case.connect("later") == []
    assert sum(case.told.values()) == 1


def test_the_one_that_tests_the_waters_is_lost() -> None:
    case = Case(connections=3)
    case.fail()
    case.lose(case.resume())
    assert sorted(case.told.values()) == [0, 1]
    for key in list(case.told):
        case.lose(key)
    assert case.connect("new") == [("new", 1)]
    assert case.succeed() == [("new", 10)]


def test_all_are_lost_in_a_period() -> None:
    case = Case(connections=1)
    case.fail()
    case.lose("n0")
    case.wait(2)
    assert "no connection available to resume" in case.lines
    assert case.flow.deadline == 3 * SECOND
    case.connect("new")
    assert case.wait(1) == [("new", 1)]


def test_a_pause_in_a_backoff() -> None:
    case = Case(connections=2)
    case.fail()
    case.obey(case.flow.set_max_in_flight(0))
    assert case.wait(60) == []
    assert case.flow.deadline is None
    case.obey(case.flow.set_max_in_flight(10))
    assert sum(case.told.values()) == 1
    case.obey(case.flow.set_max_in_flight(0))
    assert sum(case.told.values()) == 0
    case.obey(case.flow.set_max_in_flight(10))
    case.succeed()
    assert case.told == {"n0": 5, "n1": 5}


def test_more_connections_than_messages_take_turns() -> None:
    case = Case(max_in_flight=2, connections=5)
    seen: set[str] = set()
    for _ in range(40):
        seen.update(key for key, ready in case.told.items() if ready)
        case.wait(15)
        assert sum(case.told.values()) == 2
    assert seen == set(case.told)


def test_who_is_heard_keeps_its_ready_for_a_while() -> None:
    case = Case(max_in_flight=1, connections=2)
    (holder,) = [key for key, ready in case.told.items() if ready]
    for _ in range(6):
        case.flow.came(holder)
        assert case.wait(5) == []
    case.flow.came(holder)
    assert case.wait(5) != []
    assert case.told[holder] == 0


def test_turns_in_a_backoff() -> None:
    case = Case(connections=3)
    case.fail()
    first = case.resume()
    case.wait(20)
    assert case.told[first] == 0
    assert sum(case.told.values()) == 1


def test_no_turns_where_there_is_enough() -> None:
    case = Case(connections=3)
    assert case.flow.deadline is None
    case.connect("more")
    assert case.flow.deadline is None


def test_nothing_after_the_end() -> None:
    case = Case(max_in_flight=1, connections=3)
    case.flow.close()
    assert case.flow.deadline is None
    assert case.fail() == case.flow.tick() == case.flow.set_max_in_flight(5) == []


ACTIONS = st.lists(
    st.sampled_from(["connect", "lose", "fail", "succeed", "continue", "more", "less", "wait"]),
    max_size=60,
)


@given(ACTIONS, st.integers(0, 8))
def test_never_too_much_and_never_stuck(actions: list[str], max_in_flight: int) -> None:
    case = Case(max_in_flight=max_in_flight, backoff_multiplier=0.1, max_backoff_duration=1)
    for number, action in enumerate(actions):
        if action == "connect":
            case.connect(f"c{number}")
        elif action == "lose" and case.told:
            case.lose(sorted(case.told)[number % len(case.told)])
        elif action in ("more", "less"):
            bound = max(0, case.flow.max_in_flight + (1 if action == "more" else -1))
            case.obey(case.flow.set_max_in_flight(bound))
        elif action == "wait":
            case.clock.advance(100 * MILLISECOND)
            case.obey(case.flow.tick())
        elif action in ("fail", "succeed"):
            getattr(case, action)()
        else:
            case.obey(case.flow.continued())
        assert sum(case.told.values()) <= case.flow.max_in_flight
    case.wait(10)
    if case.told and case.flow.max_in_flight:
        assert sum(case.told.values()) > 0
