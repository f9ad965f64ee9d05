"""Time that advances evenly while the system's time is set."""

from __future__ import annotations

import pytest

from penstock.broker import steady_time
from penstock.broker.steady_time import STEP_NS, SteadyTime
from penstock.broker.topic import Topic
from penstock.core.units import HOUR, SECOND
from penstock.storage.retention import Retention
from penstock.testing.clock import FakeClock

from .conftest import World

KEPT = Retention(time_ns=72 * HOUR)


def set_by(clock: FakeClock, ns: int) -> None:
    clock.set_wall(clock.wall_ns() + ns)


@pytest.mark.parametrize("by", [100 * HOUR, -HOUR])
def test_messages_keep_their_times_when_the_systems_time_is_set(by: int) -> None:
    clock = FakeClock()
    time, start = SteadyTime(clock), clock.wall_ns()
    time.stamped(10, clock.wall_ns())
    set_by(clock, by)
    clock.advance(5 * SECOND)
    time.stamped(20, clock.wall_ns())
    assert (time.ahead_at(0), time.ahead_at(19), time.ahead_at(20), time.ahead_at(99)) == (
        0, 0, by, by
    )  # fmt: skip
    assert (time.now_ns, time.ahead_ns) == (start + 5 * SECOND, by)
    set_by(clock, -by)
    time.stamped(30, clock.wall_ns())
    assert (time.ahead_at(29), time.ahead_at(30), time.ahead_ns) == (by, 0, 0)


def test_clocks_that_drift_are_not_set() -> None:
    clock = FakeClock()
    time = SteadyTime(clock)
    set_by(clock, STEP_NS)
    time.stamped(1, clock.wall_ns())
    assert time.ahead_at(1) == 0
    set_by(clock, 1)
    time.stamped(2, clock.wall_ns())
    assert time.ahead_at(2) == STEP_NS + 1


def test_only_the_newest_steps_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steady_time, "STEPS_MAX", 3)
    clock = FakeClock()
    time = SteadyTime(clock)
    for offset in range(1, 8):
        set_by(clock, HOUR)
        time.stamped(offset, clock.wall_ns())
    assert [time.ahead_at(offset) // HOUR for offset in range(8)] == [0, 0, 0, 0, 0, 5, 6, 7]


@pytest.fixture
def world() -> World:
    """A topic with unread messages in several files, kept for 72 hours."""
    world = World(file_bytes=300)
    world.topic.retention = KEPT
    world.fill(20)
    return world


def restarted(world: World) -> Topic:
    world.restart()
    world.topic.retention = KEPT
    return world.topic


def test_a_clock_set_ahead_deletes_nothing(world: World) -> None:
    set_by(world.clock, 100 * HOUR)
    assert world.topic.trim(KEPT) == 0
    world.fill(20)
    assert world.topic.trim(KEPT) == 0
    world.clock.advance(71 * HOUR)
    world.fill(20)
    assert world.topic.trim(KEPT) == 0
    world.clock.advance(HOUR + 1)
    assert world.topic.trim(KEPT) > 0
    assert 30 < world.topic.log.start_offset <= 40  # new stamps are no reason to keep what is old


def test_a_clock_set_back_keeps_nothing_longer(world: World) -> None:
    set_by(world.clock, -100 * HOUR)
    world.clock.advance(72 * HOUR + 1)
    assert world.topic.trim(KEPT) > 0


def test_consumed_messages_stay_for_replay_as_long_as_was_promised() -> None:
    world = World(file_bytes=300, retention=KEPT)
    channel = world.channel()
    world.fill(20)
    channel.empty()
    set_by(world.clock, 100 * HOUR)
    world.broker.trim()
    assert world.topic.log.start_offset == 0


def test_what_would_have_lapsed_while_the_broker_was_down_can_still_be_read(world: World) -> None:
    world.clock.advance(100 * HOUR)  # or the clock is set ahead while it is down
    topic = restarted(world)
    assert topic.trim(KEPT) == 0
    world.fill(20)
    world.clock.advance(72 * HOUR)
    assert topic.trim(KEPT) == 0
    world.clock.advance(1)
    assert topic.trim(KEPT) > 0


def test_a_short_stop_counts_as_time(world: World) -> None:
    world.clock.advance(71 * HOUR)
    topic = restarted(world)
    world.clock.advance(HOUR)
    assert topic.trim(KEPT) == 0
    world.clock.advance(1)
    assert topic.trim(KEPT) > 0


def test_what_lapsed_before_others_came_is_deleted_after_a_start(world: World) -> None:
    world.clock.advance(72 * HOUR + 1)
    world.fill(1, world.broker.topic("other"))
    assert restarted(world).trim(KEPT) > 0
