"""Rates and trends from counts."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.cluster.figures import NodeFigures
from penstock.cluster.rates import LOOKS, History, Look, Series, rates, summed
from tests.unit.cluster.samples import SECOND, at, channel, topic


def series(*lags: int) -> Series:
    made = Series()
    for second, lag in enumerate(lags):
        made.add(Look(second * SECOND, second * 10, second * 5, lag))
    return made


def test_rates_are_those_between_the_last_two_looks() -> None:
    made = Series()
    assert made.rate_in is None
    made.add(Look(0, 0, 0, 0))
    assert made.rate_out is None
    made.add(Look(2 * SECOND, 100, 50, 50))
    made.add(Look(4 * SECOND, 300, 50, 250))
    assert (made.rate_in, made.rate_out) == (100.0, 0.0)
    assert made.rates_in() == [50.0, 100.0]


def test_a_count_that_starts_anew_has_no_rate() -> None:
    made = Series()
    made.add(Look(0, 1000, 1000, 0))
    made.add(Look(SECOND, 10, 10, 0))
    assert (made.rate_in, made.rate_out) == (0.0, 0.0)


def test_rates_of_numbers_and_of_columns_are_the_same() -> None:
    looks = [((10, 5, 3), (16, 9, 1)), ((10, 5, 3), (8, 8, 8)), ((0, 0, 0), (0, 4, 0))]
    found = [rates(then, now, 2.0) for then, now in looks]
    assert found == [[3.0, 2.0, 0.0], [0.0, 0.0, 0.0], [0.0, 2.0, 0.0]]
    then, now = (np.array(side, float).T for side in zip(*looks, strict=True))
    columns = np.array(rates(then, now, 2.0))
    assert columns.T.tolist() == found
    assert not np.signbit(columns).any()


def test_a_look_of_the_same_moment_is_no_news() -> None:
    made = Series()
    made.add(Look(5, 1, 1, 0))
    made.add(Look(5, 2, 2, 0))
    assert made.rate_in is None


def test_no_more_than_so_many_looks() -> None:
    assert len(series(*range(3 * LOOKS)).rates_in()) == LOOKS - 1


@pytest.mark.parametrize(
    ("lags", "trend"),
    [((), 0), ((5,), 0), ((0, 5), 0), ((0, 5, 9), 1), ((0, 5, 5, 9), 1), ((0, 5, 4, 9), 0),
     ((9, 5, 0), -1), ((7, 7, 7), 0), ((9, 0, 1, 2, 3, 4), 1)],
)  # fmt: skip
def test_trends(lags: tuple[int, ...], trend: int) -> None:
    assert series(*lags).trend == trend


def test_a_nodes_history() -> None:
    history = History()
    for second in range(3):
        sent = 100 * second
        bill = channel("c", message_count=sent, depth=10 * second)
        history.add(at("n:1", second, topic("t", bill, message_count=sent)))
    assert history.of("n:1", "t").rate_in == 100.0
    assert history.of("n:1", "t", "channel/c").rate_out == 90.0
    assert history.of("n:1", "t", "channel/c").trend == 1
    assert history.of("n:2", "t").rate_in is None


def test_what_a_node_has_no_more_is_forgotten_but_not_when_it_does_not_answer() -> None:
    history = History()
    for second in range(2):
        history.add(at("n:1", second, topic("t", message_count=second), topic("u")))
    history.add(NodeFigures("n:1", 2 * SECOND, error="timed out"))
    assert history.of("n:1", "u").rate_in == 0.0
    history.add(at("n:1", 3, topic("t", message_count=9)))
    assert history.of("n:1", "u").rate_in is None
    assert history.of("n:1", "t").rate_in == 4.0
    history.forget("n:1")
    assert history.of("n:1", "t").rate_in is None


def test_sums_end_with_the_newest() -> None:
    assert summed([[1.0, 2.0, 3.0], [10.0]]) == [1.0, 2.0, 13.0]
    assert summed([]) == []
