"""Sharing what may be in flight, slowing down and coming back: each alone, then together."""

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
from penstock.nsq.client.consume.backoff import Backoff, Step
from penstock.nsq.client.consume.flow import Flow
from penstock.nsq.client.consume.ready import Orders, Redistribution, Table, shares
from penstock.testing.clock import FakeClock

# --- RDY for each connection


def table(max_in_flight: int, connections: int, most: int = 2500) -> Table[int]:
    """Connections that came one after the other."""
    made: Table[int] = Table(max_in_flight, SystemChance(1))
    for key in range(connections):
        made.add(key, most, 0)
        made.share(0)
    return made


def given_to(made: Table[int]) -> list[int]:
    return [peer.ready for peer in made.peers.values()]


@pytest.mark.parametrize(
    ("max_in_flight", "connections", "counts"),
    [(10, 0, []), (10, 1, [10]), (10, 4, [3, 3, 2, 2]), (1, 3, [1, 0, 0]), (0, 2, [0, 0])],
)
def test_examples(max_in_flight: int, connections: int, counts: list[int]) -> None:
    assert shares(max_in_flight, connections) == counts


@given(st.integers(0, 5000), st.integers(1, 50))
def test_all_is_given_and_evenly(max_in_flight: int, connections: int) -> None:
    counts = shares(max_in_flight, connections)
    assert sum(counts) == max_in_flight
    assert max(counts) - min(counts) <= 1


def test_who_gets_less_is_told_first() -> None:
    made = table(10, 1)
    made.take_orders()
    made.add(1, 2500, 0)
    made.share(0)
    assert made.take_orders() == [(0, 5), (1, 5)]
    assert made.take_orders() == []


def test_more_connections_than_messages() -> None:
    made = table(2, 4)
    assert made.is_scarce
    assert given_to(made) == [1, 1, 0, 0]
    made.share(1)
    assert given_to(made) == [1, 1, 0, 0]


def test_who_had_it_last_waits() -> None:
    made = table(1, 3)
    made.give(made.peers[0], 0, 1)
    made.spread(1, 1, frozenset({0, 1}))
    assert given_to(made) == [0, 0, 1]
    made.silence(2)
    made.spread(1, 2, frozenset({0, 1, 2}))
    assert made.total == 1


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("add"), st.integers(1, 6)),
            st.tuples(st.just("remove"), st.integers(0, 8)),
            st.tuples(st.just("bound"), st.integers(0, 12)),
        ),
        max_size=40,
    )
)
def test_the_bounds_hold_at_every_moment(changes: list[tuple[str, int]]) -> None:
    made: Table[int] = Table(4, SystemChance(2))
    told: dict[int, int] = {}
    for number, (what, value) in enumerate(changes):
        bound = made.max_in_flight
        if what == "add":
            made.add(number, value, number)
        elif what == "remove" and made.peers:
            key = sorted(made.peers)[value % len(made.peers)]
            made.remove(key)
            told.pop(key, None)
        elif what == "bound":
            made.max_in_flight = value
            bound = max(bound, value)
        made.share(number)
        for key, count in made.take_orders():
            told[key] = count
            assert sum(told.values()) <= bound
            assert 0 <= count <= made.peers[key].most
        assert made.total == sum(told.values()) <= made.max_in_flight
        wanted = min(made.max_in_flight, len(made.peers))
        assert sum(count > 0 for count in told.values()) >= wanted


class Turns:
    """Three connections and one message."""

    def __init__(self) -> None:
        self.in_flight: Counter[str] = Counter()
        self.table: Table[str] = Table(1, SystemChance(1))
        for key in "abc":
            self.table.add(key, 2500, 0)
        self.table.share(0)
        self.made: Redistribution[str] = Redistribution(Config(), self.in_flight.__getitem__)

    @property
    def holders(self) -> list[str]:
        return [key for key, peer in self.table.peers.items() if peer.ready]

    def run(self, seconds: int) -> int:
        return self.made.run(self.table, 1, seconds * SECOND)


@pytest.fixture
def turns() -> Turns:
    return Turns()


def test_when_to_look(turns: Turns) -> None:
    turns.made.watch(False, 0)
    assert turns.made.due is None
    turns.made.watch(True, 0)
    turns.made.watch(True, SECOND)
    assert turns.made.due == 5 * SECOND
    turns.run(6)
    assert turns.made.due == 11 * SECOND
    turns.made.watch(False, 7 * SECOND)
    assert turns.made.due is None


def test_the_idle_hand_on(turns: Turns) -> None:
    (first,) = turns.holders
    assert turns.run(10) == 0
    assert turns.run(11) == 1
    (second,) = turns.holders
    assert second != first
    assert turns.run(15) == 0
    assert turns.holders == [second]


@pytest.mark.parametrize(
    ("heard", "in_flight", "at", "moved"),
    [(8, 0, 15, 0), (0, 1, 29, 0), (31, 1, 31, 1)],
    ids=["in-use", "a-message-under-way", "nobody-is-pinned"],
)
def test_who_keeps_its_ready_and_for_how_long(
    turns: Turns, heard: int, in_flight: int, at: int, moved: int
) -> None:
    (holder,) = turns.holders
    turns.table.peers[holder].heard = heard * SECOND
    turns.in_flight[holder] = in_flight
    assert turns.run(at) == moved
    assert (holder in turns.holders) == (not moved)
    assert turns.table.total == 1


def test_what_is_free_is_given(turns: Turns) -> None:
    turns.table.remove(turns.holders[0])
    assert turns.run(1) == 0
    assert len(turns.holders) == 1


# --- backoff


def backoff(**options: object) -> Backoff:
    return Backoff(Config(**options), SystemChance(1))  # type: ignore[arg-type]


def fail(state: Backoff, times: int, now: int = 0) -> int:
    """So many failures in a row, each after the period of the one before; when it is by then."""
    for _ in range(times):
        assert state.failed(now) is Step.PAUSE
        assert state.until is not None
        now = state.until
        assert state.is_due(now)
        state.test_the_waters()
    return now


LEVELS = pytest.mark.parametrize(("level", "seconds"), [(0, 1), (1, 2), (3, 8), (5, 32)])


@LEVELS
def test_exponential(level: int, seconds: int) -> None:
    assert backoff().length(level) == seconds * SECOND


@LEVELS
def test_full_jitter_is_anything_up_to_that(level: int, seconds: int) -> None:
    state = backoff(backoff_strategy="full_jitter")
    lengths = [state.length(level) for _ in range(200)]
    assert 0 <= min(lengths) < max(lengths) < seconds * SECOND
    assert max(lengths) > seconds * SECOND * 0.9


def test_a_failure_begins_a_period() -> None:
    state = backoff()
    assert not state.is_on
    assert state.failed(100) is Step.PAUSE
    assert (state.level, state.period, state.until) == (1, 2 * SECOND, 100 + 2 * SECOND)
    assert not state.is_due(99 + 2 * SECOND)
    assert state.is_due(100 + 2 * SECOND)


def test_the_level_ends_where_the_period_would_be_too_long() -> None:
    state = backoff(max_backoff_duration=10)
    fail(state, 7)
    assert (state.level, state.period) == (3, 8 * SECOND)


@pytest.mark.parametrize("longest", [0, 1])
def test_without_backoff_or_where_the_first_period_would_be_too_long(longest: int) -> None:
    state = backoff(max_backoff_duration=longest)
    assert state.failed(0) is Step.NONE
    assert not state.is_on


# --- together, by a clock that a test moves; pynsq's test_rdy and test_backoff are among them


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


def test_the_first_ready_is_all_and_a_new_connection_throttles_the_others_first() -> None:
    case = Case()
    assert case.connect("a") == [("a", 10)]
    assert case.connect("b") == [("a", 5), ("b", 5)]
    assert case.connect("c") == [("a", 4), ("b", 3), ("c", 3)]
    assert case.lose("a") == [("b", 5), ("c", 5)]
    assert case.flow.deadline is None, "there is enough for all"


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
    assert case.succeed() == case.obey(case.flow.continued()) == []
    case.fail()
    assert case.fail() == case.succeed() == case.obey(case.flow.continued()) == []
    assert case.flow.backoff.level == 1


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


def test_turns_in_a_backoff() -> None:
    case = Case(connections=3)
    case.fail()
    first = case.resume()
    case.wait(20)
    assert case.told[first] == 0
    assert sum(case.told.values()) == 1


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
