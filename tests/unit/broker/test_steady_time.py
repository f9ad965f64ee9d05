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


def told(world: World, story: str) -> None:
    """Do and check what a story says of a topic whose messages are kept for 72 hours.

    ``fill``: 20 messages; ``other``: one in another topic; ``wait`` and ``clock``: so many hours
    go by, or the clock is set by them; ``kill``: what the shell does often, then a kill after which
    the clock is set, ``crash``: a kill alone; ``kept``: nothing may be deleted; ``gone``: a moment
    later something is.
    """
    for step in story.split(", "):
        word, _, number = step.partition(" ")
        hours = int(number or 0) * HOUR
        match word:
            case "fill":
                world.fill(20)
            case "other":
                world.fill(1, world.broker.topic("other"))
            case "wait":
                world.clock.advance(hours)
            case "clock":
                set_by(world.clock, hours)
            case "save":
                world.broker.save()
            case "tick":
                world.broker.tick(world.now)
            case "restart":
                world.restart()
            case "crash":
                world.kill()
            case "kill":
                killed(world, set_by_ns=hours)
            case "kept":
                world.topic.retention = KEPT
                assert world.topic.trim(KEPT) == 0
            case "gone":
                world.topic.retention = KEPT
                world.clock.advance(1)
                assert world.topic.trim(KEPT) > 0
            case _:
                raise ValueError(step)


STORIES = """
set back keeps nothing longer: fill, clock -100, wait 72, kept, gone
lapsed while it was down: fill, wait 100, restart, kept, fill, wait 72, kept, gone
a short stop counts as time: fill, wait 71, restart, wait 1, kept, gone
lapsed before others came: fill, wait 73, other, restart, gone
set ahead before a kill: fill, clock 100, fill, kill, kept, wait 72, kept, gone
written before messages: fill, clock 100, fill, crash, kept
written before progress: fill, save, clock 100, tick, other, crash, kept
no message since it was set: fill, save, clock 100, other, kill, kept
set back before a kill: fill, clock -100, fill, kill, wait 72, kept, gone
set back, right again while it is down: other, clock -100, fill, kill 100, kept
set back while it is down, right again: other, kill -100, fill, kill 100, kept
set in several lives: \
fill, clock 100, fill, kill, kept, clock 100, fill, kill, kept, \
clock -150, fill, kill, kept, clock 100, fill, kill, kept, wait 72, gone
ahead, right while it is down, ahead: \
fill, clock 100, fill, kill -100, kept, fill, kill 100, kept
right while it is down: fill, clock 100, fill, kill -100, wait 72, kept, gone
wrong in every second life: \
fill, kill 60, kept, fill, kill -60, kept, fill, kill 60, kept, \
fill, kill -60, kept, fill, kill 60, kept
set back often, right while it is down: fill, \
clock -60, fill, kill 60, kept, clock -60, fill, kill 60, kept, clock -60, fill, kill 60, kept
no message since a long stop: fill, wait 100, kill, other, kill, kept
a long stop counts for longer retention: fill, wait 60, kill, fill, kill, wait 12, kept, gone
"""


@pytest.mark.parametrize(
    "story", STORIES.strip().splitlines(), ids=lambda line: line.partition(":")[0]
)
def test_nothing_is_deleted_before_its_time_nor_kept_after_it(story: str) -> None:
    world = World(file_bytes=300)
    world.topic.retention = KEPT
    told(world, story.partition(": ")[2])


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


def test_consumed_messages_stay_for_replay_as_long_as_was_promised() -> None:
    world = World(file_bytes=300, retention=KEPT)
    channel = world.channel()
    world.fill(20)
    channel.empty()
    set_by(world.clock, 100 * HOUR)
    world.broker.trim()
    assert world.topic.log.start_offset == 0


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
