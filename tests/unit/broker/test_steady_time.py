"""Time that advances evenly while the system's time is set."""

from __future__ import annotations

import pytest

from penstock.broker import steady_time
from penstock.broker.progress import ClockRecord, Progress
from penstock.broker.steady_time import STEP_NS, SteadyTime
from penstock.broker.topic import Topic
from penstock.core.errors import StorageError
from penstock.core.units import HOUR, SECOND
from penstock.storage.journal_frames import read_frames
from penstock.storage.retention import Retention
from penstock.testing.clock import FakeClock
from tests.unit.broker.conftest import World

JOURNAL = "/data/topics/t@0/cursors.journal"
KEPT = Retention(time_ns=72 * HOUR)


def set_by(clock: FakeClock, ns: int) -> None:
    clock.set_wall(clock.wall_ns() + ns)


@pytest.mark.parametrize("by", [100 * HOUR, -HOUR])
def test_messages_keep_their_times_when_the_systems_time_is_set(by: int) -> None:
    clock = FakeClock()
    time, start = SteadyTime(clock), clock.wall_ns()
    time.note_stamp(10, clock.wall_ns())
    set_by(clock, by)
    clock.advance(5 * SECOND)
    time.note_stamp(20, clock.wall_ns())
    assert (time.ahead_at(0), time.ahead_at(19), time.ahead_at(20), time.ahead_at(99)) == (
        0, 0, by, by
    )  # fmt: skip
    assert (time.now_ns, time.ahead_ns) == (start + 5 * SECOND, by)
    set_by(clock, -by)
    time.note_stamp(30, clock.wall_ns())
    assert (time.ahead_at(29), time.ahead_at(30), time.ahead_ns) == (by, 0, 0)


def test_clocks_that_drift_are_not_set() -> None:
    clock = FakeClock()
    time = SteadyTime(clock)
    set_by(clock, STEP_NS)
    time.note_stamp(1, clock.wall_ns())
    assert time.ahead_at(1) == 0
    set_by(clock, 1)
    time.note_stamp(2, clock.wall_ns())
    assert time.ahead_at(2) == STEP_NS + 1


def test_the_least_lead_is_of_now_or_of_any_message() -> None:
    """Messages of RocketMQ's delay levels are looked for from there on."""
    clock = FakeClock()
    time = SteadyTime(clock)
    set_by(clock, HOUR)
    time.note_stamp(10, clock.wall_ns())
    assert time.least_ahead_ns == 0  # of those before
    set_by(clock, -3 * HOUR)
    assert time.least_ahead_ns == -2 * HOUR  # of now, before any message has that time
    time.note_stamp(20, clock.wall_ns())
    set_by(clock, 2 * HOUR)
    assert (time.ahead_ns, time.least_ahead_ns) == (0, -2 * HOUR)


def test_only_the_newest_steps_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steady_time, "STEPS_MAX", 3)
    clock = FakeClock()
    time = SteadyTime(clock)
    for offset in range(1, 8):
        set_by(clock, HOUR)
        time.note_stamp(offset, clock.wall_ns())
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


# --- over restarts ---------------------------------------------------------------------------


def test_the_settings_are_known_after_a_restart() -> None:
    clock = FakeClock()
    time = SteadyTime(clock)
    for offset, by in ((10, 3 * HOUR), (20, -HOUR)):
        set_by(clock, by)
        time.note_stamp(offset, clock.wall_ns())
    record = time.record(start=0)
    clock.advance(HOUR)
    time = SteadyTime(clock)
    time.restore(record, 30, newest_ns=clock.wall_ns())
    assert [time.ahead_at(offset) // HOUR for offset in (9, 10, 19, 20, 99)] == [-2, 1, 1, 0, 0]
    assert not time.note_stamp(30, clock.wall_ns())
    assert time.record(start=0).peak_ns == record.peak_ns == clock.wall_ns()


def test_settings_before_the_logs_start_are_forgotten() -> None:
    clock = FakeClock()
    time = SteadyTime(clock)
    for offset in (10, 20, 30):
        set_by(clock, HOUR)
        time.note_stamp(offset, clock.wall_ns())
    assert time.record(start=20).steps == [(20, 2 * HOUR), (30, 3 * HOUR)]


def test_a_setting_before_any_message_replaces_the_one_before() -> None:
    clock = FakeClock()
    time = SteadyTime(clock)
    for by in (HOUR, HOUR, -3 * HOUR):
        set_by(clock, by)
        time.note_stamp(10, clock.wall_ns())
    assert time.record(start=0).steps == [(0, 0), (10, -HOUR)]


def test_a_setting_behind_a_log_that_a_power_cut_made_shorter_begins_at_its_end() -> None:
    clock = FakeClock()
    time = SteadyTime(clock)
    record = ClockRecord([(0, 0), (100, HOUR)], HOUR, clock.wall_ns(), clock.wall_ns() - HOUR)
    time.restore(record, 90, newest_ns=0)
    assert (time.ahead_at(89), time.ahead_at(90)) == (-HOUR, 0)


def killed(world: World, *, set_by_ns: int = 0) -> Topic:
    """Do what the shell does often, kill the broker, and set the clock before the next start."""
    world.broker.tick(world.now)
    world.broker.save()
    set_by(world.clock, set_by_ns)
    world.kill()
    world.topic.retention = KEPT
    return world.topic


def written(world: World) -> ClockRecord | None:
    """The settings of the clock in the topic's journal."""
    frames = read_frames(world.disk.content(JOURNAL), world.topic.log.id_base)
    return Progress.replay(frames.records).clock


def test_a_clock_set_ahead_before_a_kill_deletes_nothing_afterwards(world: World) -> None:
    set_by(world.clock, 100 * HOUR)
    world.fill(20)
    topic = killed(world)
    assert topic.trim(KEPT) == 0
    world.clock.advance(72 * HOUR)
    assert topic.trim(KEPT) == 0
    world.clock.advance(1)
    assert topic.trim(KEPT) > 0


def test_a_setting_is_written_before_messages_with_its_stamps(world: World) -> None:
    set_by(world.clock, 100 * HOUR)
    world.fill(20)
    world.kill()
    world.topic.retention = KEPT
    assert world.topic.trim(KEPT) == 0


def test_a_setting_is_written_before_progress_is(world: World) -> None:
    world.broker.save()
    set_by(world.clock, 100 * HOUR)
    world.broker.tick(world.now)
    world.fill(1, world.broker.topic("other"))
    world.kill()
    world.topic.retention = KEPT
    assert world.topic.trim(KEPT) == 0


def test_a_topic_without_messages_since_the_clock_was_set_keeps_its_own(world: World) -> None:
    world.broker.save()
    set_by(world.clock, 100 * HOUR)
    world.fill(1, world.broker.topic("other"))
    assert killed(world).trim(KEPT) == 0


def test_a_clock_set_back_before_a_kill_keeps_nothing_longer(world: World) -> None:
    set_by(world.clock, -100 * HOUR)
    world.fill(20)
    topic = killed(world)
    world.clock.advance(72 * HOUR)
    assert topic.trim(KEPT) == 0
    world.clock.advance(1)
    assert topic.trim(KEPT) > 0


@pytest.fixture
def pair() -> World:
    """An empty topic, and another with a message of the right time."""
    world = World(file_bytes=300)
    world.topic.retention = KEPT
    world.fill(1, world.broker.topic("other"))
    return world


def test_messages_of_a_clock_set_back_can_be_read_when_it_is_right_again(pair: World) -> None:
    set_by(pair.clock, -100 * HOUR)
    pair.fill(20)
    assert killed(pair, set_by_ns=100 * HOUR).trim(KEPT) == 0


def test_so_can_those_of_a_life_that_began_with_a_clock_set_back(pair: World) -> None:
    killed(pair, set_by_ns=-100 * HOUR)
    pair.fill(20)
    assert killed(pair, set_by_ns=100 * HOUR).trim(KEPT) == 0


def test_a_clock_set_several_times_over_several_lives_deletes_nothing(world: World) -> None:
    for hours in (100, 100, -150, 100):
        set_by(world.clock, hours * HOUR)
        world.fill(20)
        assert killed(world).trim(KEPT) == 0
    world.clock.advance(72 * HOUR + 1)
    assert world.topic.trim(KEPT) > 0


def test_a_clock_set_ahead_is_set_right_while_the_broker_is_down_and_ahead_again(
    world: World,
) -> None:
    set_by(world.clock, 100 * HOUR)
    world.fill(20)
    assert killed(world, set_by_ns=-100 * HOUR).trim(KEPT) == 0
    world.fill(20)
    assert killed(world, set_by_ns=100 * HOUR).trim(KEPT) == 0


def test_a_clock_set_right_while_the_broker_is_down_keeps_nothing_longer(world: World) -> None:
    set_by(world.clock, 100 * HOUR)
    world.fill(20)
    topic = killed(world, set_by_ns=-100 * HOUR)
    world.clock.advance(72 * HOUR)
    assert topic.trim(KEPT) == 0
    world.clock.advance(1)
    assert topic.trim(KEPT) > 0


def test_a_clock_that_is_wrong_in_every_second_life_deletes_nothing(world: World) -> None:
    for hours in (60, -60, 60, -60, 60):
        assert killed(world, set_by_ns=hours * HOUR).trim(KEPT) == 0
        world.fill(20)


def test_a_clock_set_back_often_and_right_while_the_broker_is_down_deletes_nothing(
    world: World,
) -> None:
    for _ in range(3):
        set_by(world.clock, -60 * HOUR)
        world.fill(20)
        assert killed(world, set_by_ns=60 * HOUR).trim(KEPT) == 0


@pytest.mark.parametrize("is_down", [False, True])
def test_a_compacted_journal_holds_settings_and_stops(world: World, is_down: bool) -> None:
    if is_down:
        killed(world, set_by_ns=100 * HOUR)
    else:
        set_by(world.clock, 100 * HOUR)
    world.fill(20)
    world.broker.save()
    world.disk.fail("sync", within="journal")
    with pytest.raises(StorageError):
        world.topic.journal.sync()
    world.disk.heal()
    assert killed(world).trim(KEPT) == 0


def test_settings_that_could_not_be_written_are_written_later(world: World) -> None:
    set_by(world.clock, 100 * HOUR)
    world.disk.fail("append", within="journal")
    world.broker.tick(world.now)
    assert written(world) is None
    world.disk.heal()
    world.fill(20)
    assert killed(world).trim(KEPT) == 0


def test_a_second_start_deletes_nothing_that_a_long_stop_let_lapse(world: World) -> None:
    for _ in range(3):
        world.clock.advance(60 * HOUR)
        topic = killed(world)
        topic.retention = Retention(time_ns=50 * HOUR)
        assert topic.trim(KEPT) == 0
        world.fill(20)
    world.clock.advance(72 * HOUR + 1)
    world.topic.trim(KEPT)
    assert world.topic.log.start_offset > 60  # no stop makes messages younger that came after it


def test_neither_does_it_of_a_topic_without_messages_since(world: World) -> None:
    world.clock.advance(100 * HOUR)
    killed(world)
    world.fill(1, world.broker.topic("other"))
    assert killed(world).trim(KEPT) == 0


def test_a_long_stop_counts_as_time_if_retention_is_longer(world: World) -> None:
    world.clock.advance(60 * HOUR)
    killed(world)
    world.fill(20)
    topic = killed(world)
    world.clock.advance(12 * HOUR)
    assert topic.trim(KEPT) == 0
    world.clock.advance(1)
    assert topic.trim(KEPT) > 0


def test_long_stops_before_the_logs_start_are_forgotten() -> None:
    time = SteadyTime(FakeClock())
    time.resumed(10, 5 * HOUR)
    time.resumed(20, 6 * HOUR)
    time.resumed(30, HOUR)
    assert time.record(start=10).stops == [(20, 6 * HOUR)]


def test_a_clock_that_is_never_set_is_not_written_down(world: World) -> None:
    for _ in range(3):
        world.clock.advance(HOUR)
        world.fill(20)
        killed(world)
        world.restart()
    assert written(world) is None


def test_a_setting_is_written_once(world: World) -> None:
    world.broker.save()
    set_by(world.clock, HOUR)
    world.broker.tick(world.now)
    setting = written(world)
    assert setting is not None
    assert not world.topic.changed
    world.clock.advance(SECOND)
    world.topic.commit_group("g", 5)
    world.broker.save()
    assert written(world) == setting
