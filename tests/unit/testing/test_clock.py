"""A clock that tests set."""

from __future__ import annotations

import pytest

from penstock.core.clock import Clock
from penstock.testing.clock import FakeClock


def test_both_clocks_advance_together() -> None:
    clock: Clock = FakeClock(100)
    assert (clock.monotonic_ns(), clock.wall_ns()) == (100, 100)


def test_advance_and_jump() -> None:
    clock = FakeClock(100)
    clock.advance(5)
    clock.set_wall(7)
    assert (clock.monotonic_ns(), clock.wall_ns()) == (105, 7)
    with pytest.raises(ValueError):
        clock.advance(-1)
