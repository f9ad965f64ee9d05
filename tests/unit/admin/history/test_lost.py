"""Nodes that do not answer: kept for a while, within bounds."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.admin.history import history as history_module
from penstock.admin.history import lost as lost_module
from penstock.admin.history.history import History
from penstock.admin.history.lost import GIVEN_UP_S, Lost, LostNodes
from penstock.admin.history.placing import Places
from penstock.admin.history.row_numbers import Key
from tests.unit.admin.conftest import topic
from tests.unit.admin.history.test_history import FIRST, busy, newest, sample


def lost(node: str, at: float) -> Lost:
    last = sample(topic("t", depth=7))
    return Lost(node, at, last, Places(last, [0], [0], []))


def test_a_node_that_stays_away_is_given_up(caplog: pytest.LogCaptureFixture) -> None:
    history = History(10)
    history.take(FIRST, [("a", busy(1, 1)), ("b", busy(1, 160))])
    history.take(FIRST + GIVEN_UP_S - 1, [("a", busy(1, 1))])
    assert newest(history)["depth"] == 161
    ((lost),) = history.lost
    assert (lost.node, lost.at, lost.until) == ("b", FIRST, FIRST + GIVEN_UP_S)
    history.take(FIRST + GIVEN_UP_S, [("a", busy(1, 1))])
    assert (newest(history)["depth"], list(history.lost)) == (1, [])
    (given_up,) = history.lost.given_up
    assert (given_up.node, given_up.depth) == ("b", 160)
    assert "gives up b, silent for 3600 s: 160 messages that waited there" in caplog.text
    history.take(FIRST + 2 * GIVEN_UP_S, [("a", busy(1, 1))])
    assert history.lost.given_up == []


def test_nodes_that_answer_have_room_before_those_that_do_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(history_module, "SUMS_MAX", 6)
    history = History(10)
    history.take(FIRST, [("a", sample(topic("t", depth=1))), ("b", sample(topic("u", depth=1)))])
    for number in (1, 2, 3):
        history.take(FIRST + 10 * number, [("a", sample(*map(topic, "tvwx")))])
    assert list(history.lost) == []
    assert history.series(Key("x")) is not None


def test_there_is_a_bound_and_the_oldest_goes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lost_module, "LOST_MAX", 2)
    nodes = LostNodes()
    for number, name in enumerate("abc"):
        nodes.add(lost(name, FIRST + number))
    nodes.give_up(FIRST + 10, is_full=False)
    assert [each.node for each in nodes] == ["b", "c"]
    assert [(each.node, each.dropped_at, each.depth) for each in nodes.given_up] == [
        ("a", FIRST + 10, 7)
    ]
    nodes.give_up(FIRST + 20, is_full=True)
    assert [each.node for each in nodes] == ["c"]


def test_a_node_that_answers_again_is_neither_lost_nor_given_up() -> None:
    nodes = LostNodes()
    nodes.add(lost("a", FIRST))
    assert "a" in nodes
    nodes.back(FIRST + 1, "a")
    assert "a" not in nodes
    nodes.add(lost("b", FIRST))
    nodes.give_up(FIRST + GIVEN_UP_S, is_full=False)
    nodes.back(FIRST + GIVEN_UP_S + 1, "b")
    assert nodes.given_up == []


def test_when_a_row_was_partial() -> None:
    nodes = LostNodes()
    nodes.add(lost("a", FIRST))
    nodes.mark(FIRST + 10, "a", np.array([3]))
    nodes.mark(FIRST + 20, "a", np.array([3]))
    nodes.back(FIRST + 30, "a")
    times = [FIRST, FIRST + 10, FIRST + 20, FIRST + 30]
    assert nodes.partial(3, times) == [0, 1, 1, 0]
    assert nodes.partial(4, times) == [0, 0, 0, 0]
