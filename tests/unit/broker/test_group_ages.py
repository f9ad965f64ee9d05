"""How long groups have not moved."""

from __future__ import annotations

import pytest

from penstock.broker.group_ages import GRACE_NS, GroupAges
from penstock.core.units import HOUR, SECOND
from penstock.testing.clock import FakeClock


def test_an_age_is_the_time_since_the_last_move() -> None:
    clock = FakeClock()
    ages = GroupAges(clock)
    ages.moved("g")
    clock.advance(5 * SECOND)
    assert ages.age_ns("g") == 5 * SECOND
    ages.moved("g")
    assert ages.age_ns("g") == 0


@pytest.mark.parametrize("step", [-(10**6) * HOUR, 10**6 * HOUR])
def test_setting_the_clock_makes_no_group_older(step: int) -> None:
    clock = FakeClock()
    ages = GroupAges(clock)
    ages.moved("g")
    clock.advance(HOUR)
    clock.set_wall(clock.wall_ns() + step)
    assert ages.age_ns("g") == HOUR
    assert ages.expired(2 * HOUR) == []


def test_groups_expire_at_the_limit() -> None:
    clock = FakeClock()
    ages = GroupAges(clock)
    ages.moved("g")
    ages.moved("gone")
    clock.advance(HOUR - 1)
    ages.moved("h")
    assert ages.expired(HOUR) == []
    clock.advance(1)
    ages.forget("gone")
    assert ages.expired(HOUR) == ["g"]


@pytest.mark.parametrize(("limit", "grace"), [(HOUR, GRACE_NS), (SECOND, SECOND)])
def test_after_a_start_readers_have_time_to_come_back(limit: int, grace: int) -> None:
    clock = FakeClock()
    ages = GroupAges(clock)
    ages.restore("g", 5 * HOUR)
    assert ages.age_ns("g") == 5 * HOUR
    clock.advance(grace - 1)
    assert ages.expired(limit) == []
    clock.advance(1)
    assert ages.expired(limit) == ["g"]
