"""Sharing what may be in flight."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.chance import SystemChance
from penstock.core.units import SECOND
from penstock.nsq.client.config import Config
from penstock.nsq.client.consume.ready import Redistribution, Table, shares


def table(max_in_flight: int, connections: int, most: int = 2500) -> Table[int]:
    """Connections that came one after the other."""
    made: Table[int] = Table(max_in_flight, SystemChance(1))
    for key in range(connections):
        made.add(key, most, 0)
        made.share(0)
    return made


def given_to(made: Table[int]) -> list[int]:
    return [peer.ready for peer in made.peers.values()]


def test_examples() -> None:
    assert shares(10, 0) == []
    assert shares(10, 1) == [10]
    assert shares(10, 4) == [3, 3, 2, 2]
    assert shares(1, 3) == [1, 0, 0]
    assert shares(0, 2) == [0, 0]


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


def test_a_node_that_allows_little() -> None:
    made = table(100, 2, most=5)
    assert given_to(made) == [5, 5]


def test_more_connections_than_messages() -> None:
    made = table(2, 4)
    assert made.is_scarce
    assert given_to(made) == [1, 1, 0, 0]
    made.share(1)
    assert given_to(made) == [1, 1, 0, 0]


def test_less_than_before() -> None:
    made = table(8, 4)
    made.max_in_flight = 2
    made.share(1)
    assert sorted(given_to(made)) == [0, 0, 1, 1]
    made.max_in_flight = 0
    made.share(2)
    assert given_to(made) == [0, 0, 0, 0]
    assert not made.is_scarce
    made.max_in_flight = 9
    made.share(3)
    assert given_to(made) == [3, 2, 2, 2]


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


class Case:
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
def case() -> Case:
    return Case()


def test_when_to_look(case: Case) -> None:
    case.made.watch(False, 0)
    assert case.made.due is None
    case.made.watch(True, 0)
    case.made.watch(True, SECOND)
    assert case.made.due == 5 * SECOND
    case.run(6)
    assert case.made.due == 11 * SECOND
    case.made.watch(False, 7 * SECOND)
    assert case.made.due is None


def test_the_idle_hand_on(case: Case) -> None:
    (first,) = case.holders
    assert case.run(10) == 0
    assert case.run(11) == 1
    (second,) = case.holders
    assert second != first
    assert case.run(15) == 0
    assert case.holders == [second]


def test_all_get_their_turn(case: Case) -> None:
    seen = set()
    for round_number in range(1, 60):
        case.run(11 * round_number)
        seen.update(case.holders)
    assert seen == set("abc")


def test_who_is_in_use_keeps_it(case: Case) -> None:
    (holder,) = case.holders
    case.table.peers[holder].heard = 8 * SECOND
    assert case.run(15) == 0
    assert case.holders == [holder]


def test_a_message_under_way_is_not_idleness(case: Case) -> None:
    (holder,) = case.holders
    case.in_flight[holder] = 1
    assert case.run(29) == 0


def test_nobody_is_pinned(case: Case) -> None:
    (holder,) = case.holders
    case.table.peers[holder].heard = 31 * SECOND
    case.in_flight[holder] = 1
    assert case.run(31) == 1
    assert holder not in case.holders
    assert case.table.total == 1


def test_what_is_free_is_given(case: Case) -> None:
    case.table.remove(case.holders[0])
    assert case.run(1) == 0
    assert len(case.holders) == 1
