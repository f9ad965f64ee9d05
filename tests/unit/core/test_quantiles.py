"""Quantiles against the exact ones."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.quantiles import EXACT, RANK_ERROR, Quantiles, Summary, no_numbers

ASKED = (0.0, 0.001, 0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999, 0.9999, 1.0)

Weighted = Sequence[tuple[float, int]]


def collected(numbers: Weighted) -> Quantiles:
    quantiles = Quantiles()
    for value, weight in numbers:
        quantiles.add(value, weight)
    return quantiles


def rank_error(numbers: Weighted, q: float, answer: float) -> float:
    """By how much of all weight the answer misses the rank that was asked for."""
    below = sum(weight for value, weight in numbers if value < answer)
    upto = sum(weight for value, weight in numbers if value <= answer)
    total = sum(weight for _, weight in numbers)
    assert upto > below, "an answer is one of the numbers"
    rank = max(1, math.ceil(q * total))
    return max(0, rank - upto, below + 1 - rank) / total


def test_nothing() -> None:
    assert Quantiles().summary() is no_numbers()
    assert (no_numbers().count, len(no_numbers()), no_numbers().quantile(0.5)) == (0, 0, 0.0)
    assert Summary.merged([]) is no_numbers()
    assert Summary.merged([no_numbers(), no_numbers()]) is no_numbers()


def test_few_numbers_have_their_nearest_rank() -> None:
    summary = collected([(value, 1) for value in (50, 10, 40, 20, 30)]).summary()
    assert summary.count == 5
    asked = (0.01, 0.2, 0.21, 0.5, 0.8, 0.81, 0.99, 1)
    assert [summary.quantile(q) for q in asked] == [10, 10, 20, 30, 40, 50, 50, 50]
    assert collected([(7, 1)]).summary().quantile(0.5) == 7


def test_a_weight_stands_for_so_many_equal_numbers() -> None:
    summary = collected([(1, 1), (2, 97), (2, 1), (3, 1)]).summary()
    assert summary.count == 100
    assert [summary.quantile(q) for q in (0.01, 0.011, 0.99, 0.991)] == [1, 2, 2, 3]


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(1, 1000)), min_size=1, max_size=60))
def test_few_numbers_are_exact(numbers: list[tuple[int, int]]) -> None:
    summary = collected(numbers).summary()
    assert summary.count == sum(weight for _, weight in numbers)
    for q in ASKED:
        assert rank_error(numbers, q, summary.quantile(q)) == 0


@given(st.lists(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 9)), max_size=20)))
def test_merging_exact_parts_is_exact(parts: list[list[tuple[int, int]]]) -> None:
    summary = Summary.merged([collected(part).summary() for part in parts])
    numbers = [number for part in parts for number in part]
    assert summary.count == sum(weight for _, weight in numbers)
    if numbers:
        for q in ASKED:
            assert rank_error(numbers, q, summary.quantile(q)) == 0


def orders(count: int, seed: int) -> dict[str, list[float]]:
    """Streams that have broken one estimator or another."""
    random = np.random.default_rng(seed)
    ascending = list(range(count))
    return {
        "ascending": ascending,
        "descending": ascending[::-1],
        "from the middle out": [n if n % 2 else -n for n in ascending],
        "to the middle": [n if n % 2 else count * 2 - n for n in ascending],
        "even": random.random(count).tolist(),
        "long tail": random.lognormal(0, 4, count).tolist(),
        "few different": random.integers(0, 40, count).tolist(),
        "two lumps": np.where(random.random(count) < 0.98, 1.0, random.random(count)).tolist(),
    }


class Exact:
    """The ranks of many numbers."""

    def __init__(self, numbers: Weighted) -> None:
        values = np.array([value for value, _ in numbers], float)
        order = np.argsort(values)
        self.values = values[order]
        self.upto = np.cumsum(np.array([weight for _, weight in numbers])[order])

    def error(self, q: float, answer: float) -> float:
        first, next_ = (np.searchsorted(self.values, answer, side) for side in ("left", "right"))
        assert next_ > first
        total = int(self.upto[-1])
        below = int(self.upto[first - 1]) if first else 0
        rank = max(1, math.ceil(q * total))
        return max(0, rank - int(self.upto[next_ - 1]), below + 1 - rank) / total


@pytest.mark.parametrize("name", orders(1, 0))
def test_many_numbers_keep_the_promise(name: str) -> None:
    numbers = [(value, 1) for value in orders(30_000, 1)[name]]
    quantiles = collected(numbers)
    summary = quantiles.summary()
    assert summary.count == len(numbers)
    assert len(summary) < 2 * EXACT, "memory is bounded"
    exact = Exact(numbers)
    for q in ASKED:
        assert exact.error(q, summary.quantile(q)) <= RANK_ERROR
    assert exact.error(0.99, summary.quantile(0.99)) <= 0.001
    assert exact.error(0.999, summary.quantile(0.999)) <= 0.0005


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 6), st.integers(0, 6))
def test_weights_and_merged_parts_keep_the_promise(seed: int, parts: int, zeros: int) -> None:
    random = np.random.default_rng(seed)
    numbers: list[tuple[float, int]] = []
    summaries = []
    for _ in range(parts):
        count = int(random.integers(1, 6000))
        values = random.normal(random.integers(0, 5), 1, count).tolist()
        weights = random.integers(1, 10**zeros, count, endpoint=True).tolist()
        part = list(zip(values, weights, strict=True))
        numbers += part
        summaries.append(collected(part).summary())
    merged = Summary.merged(summaries)
    exact = Exact(numbers)
    assert merged.count == int(exact.upto[-1])
    for q in ASKED:
        assert exact.error(q, merged.quantile(q)) <= RANK_ERROR
