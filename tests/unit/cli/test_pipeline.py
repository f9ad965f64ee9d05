"""Flags of ``penstock pipeline run`` and waiting with a live display."""

from __future__ import annotations

import time

import pytest

from penstock.cli.pipeline import query_trigger, seconds, wait_while
from penstock.core.errors import PenstockError


def test_triggers() -> None:
    assert query_trigger(True, "1s") == {"availableNow": True}
    assert query_trigger(False, "1m30s") == {"processingTime": "90000 milliseconds"}
    with pytest.raises(PenstockError, match=r"--trigger: .*duration"):
        query_trigger(False, "soon")


def test_timeouts_are_whole_seconds() -> None:
    assert seconds("--timeout", "10s") == "10"
    assert seconds("--timeout", "10ms") == "1"


def test_a_blocking_step_lets_the_display_tick() -> None:
    ticks: list[int] = []
    wait_while(lambda: time.sleep(0.3), lambda: ticks.append(1))
    assert ticks


def test_the_error_of_a_step_is_raised_here() -> None:
    def fail() -> None:
        raise PenstockError("no Java")

    with pytest.raises(PenstockError, match="no Java"):
        wait_while(fail, lambda: None)
