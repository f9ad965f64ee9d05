"""Sharing what may be in flight."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.nsq.client.ready import shares


def test_examples() -> None:
    assert shares(10, 0) == []
    assert shares(10, 1) == [10]
    assert shares(10, 4) == [3, 3, 2, 2]
    assert shares(1, 3) == [1, 0, 0]
    assert shares(1, 3, 2) == [0, 0, 1]
    assert shares(2, 3, 2) == [1, 0, 1]
    assert shares(0, 2) == [0, 0]


@given(st.integers(0, 5000), st.integers(1, 50), st.integers(0, 100))
def test_all_is_given_and_evenly(max_in_flight: int, connections: int, first: int) -> None:
    counts = shares(max_in_flight, connections, first)
    assert sum(counts) == max_in_flight
    assert max(counts) - min(counts) <= 1
