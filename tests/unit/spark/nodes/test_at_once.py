"""Questions to many at the same time."""

from __future__ import annotations

import threading

import pytest

from penstock.spark.nodes.at_once import at_once


def test_all_are_asked_at_the_same_time() -> None:
    met = threading.Barrier(3, timeout=30)

    def ask(key: int) -> int:
        met.wait()
        return key * 2

    assert at_once(ask, [3, 1, 2, 1]) == {3: 6, 1: 2, 2: 4}


def test_one_is_asked_in_the_same_thread() -> None:
    assert at_once(lambda _: threading.current_thread(), ["a"]) == {"a": threading.current_thread()}
    assert at_once(str, []) == {}


def test_an_error_is_raised() -> None:
    def ask(key: int) -> float:
        return 1 / key

    with pytest.raises(ZeroDivisionError):
        at_once(ask, [1, 0])
