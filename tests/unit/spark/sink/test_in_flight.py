"""Calls in threads, a bounded number at a time."""

from __future__ import annotations

import threading

import pytest

from penstock.spark.sink.in_flight import InFlight


def test_no_more_than_the_limit_at_once() -> None:
    may_end = threading.Event()
    running = threading.Semaphore(0)

    def call() -> int:
        running.release()
        may_end.wait(30)
        return 1

    with InFlight(2) as calls:
        calls.submit(call)
        calls.submit(call)
        assert running.acquire(timeout=30)
        assert running.acquire(timeout=30)
        # The third waits for one of the others, and so does not begin before they end.
        threading.Timer(0.05, may_end.set).start()
        calls.submit(call)
        assert may_end.is_set()
        calls.finish()
    assert calls.done == 3


def test_a_failure_is_raised_by_what_comes_after_it() -> None:
    def fail() -> int:
        raise ValueError("no")

    with InFlight(1) as calls:
        calls.submit(fail)
        with pytest.raises(ValueError, match="no"):
            calls.submit(lambda: 1)
    with InFlight(3) as calls:
        calls.submit(lambda: 4)
        calls.submit(fail)
        with pytest.raises(ValueError, match="no"):
            calls.finish()
    assert calls.done == 4
