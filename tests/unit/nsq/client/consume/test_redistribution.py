"""Handing RDY on."""

from __future__ import annotations

from collections import Counter

import pytest

from penstock.core.chance import SystemChance
from penstock.core.units import SECOND
from penstock.nsq.client.config import Config
from penstock.nsq.client.consume.ready import Table
from penstock.nsq.client.consume.redistribution import Redistribution


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
