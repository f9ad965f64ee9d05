"""A channel's progress in the journal: written, restored, and what is doubtful delivered."""

from __future__ import annotations

from penstock.broker.progress import ChannelRecord
from penstock.core.units import HOUR, SECOND
from tests.unit.broker.conftest import Reader, World

# --- records -------------------------------------------------------------------------------------


def test_record_and_restore(world: World) -> None:
    channel = world.channel()
    world.fill(6)
    world.publish(b"late", delay=SECOND)  # 6
    world.fill(1)
    reader = Reader(world, channel, 4)
    reader.take()
    reader.finish(0, 2)
    reader.requeue(3)
    record = channel.progress.record(everything=True)
    assert not channel.state.changed
    assert (record.name, record.cursor, record.head) == ("c", 4, 8)
    assert sorted(record.unfinished) == [(1, 2, 1), (3, 4, 1)]
    assert record.skips == [(6, 7)]
    assert record.deferred == [(world.clock.wall_ns() + SECOND, 6, 7, 0)]
    other = world.topic.channel("other")
    other.restore(record, record.deferred)
    heir = Reader(world, other, 10)
    assert sorted(heir.take()) == [(1, 2), (3, 2), (4, 1), (5, 1), (7, 1)]
    world.wait(SECOND)
    assert heir.take() == [(6, 1)]


def test_restore_keeps_within_the_log(world: World) -> None:
    """After a power cut a record may know more than the log, after a trim less."""
    world.fill(5)
    channel = world.topic.channel("c")
    wall = world.clock.wall_ns()
    record = ChannelRecord("c", 8, 9, [(0, 1, 1), (4, 7, 2), (7, 8, 1)], [(6, 9)], True, [], [])
    channel.restore(record, [(wall, 3, 12, 1), (wall, 5, 6, 0)])
    assert (channel.state.cursor, channel.state.head, len(channel.state.skips)) == (5, 5, 0)
    assert [(e.first, e.next) for e in channel.state.requeued] == [(0, 1), (4, 5)]
    assert [(e.first, e.next) for e in channel.state.deferred] == [(3, 5)]
    reader = Reader(world, channel, 10)
    assert reader.take() == [(0, 2), (4, 3)]


def test_what_a_record_adds_is_only_what_is_new(world: World) -> None:
    channel = world.channel()
    world.publish(b"a", delay=SECOND)
    assert len(channel.progress.record(everything=False).deferred) == 1
    world.publish(b"b", delay=2 * SECOND)
    world.wait(SECOND)
    record = channel.progress.record(everything=False)
    assert (record.reset, record.undeferred) == (False, [0])
    assert [entry[1:] for entry in record.deferred] == [(1, 2, 0)]
    assert len(channel.progress.record(everything=True).deferred) == 1


# --- doubtful messages ---------------------------------------------------------------------------


def test_messages_whose_progress_is_lost_come_when_they_are_due(world: World) -> None:
    channel = world.channel()
    world.fill(1)
    world.publish(b"soon", delay=2 * SECOND)
    world.publish(b"later", delay=10 * SECOND)
    world.fill(1)
    world.clock.advance(2 * SECOND)
    channel.empty()
    channel.restore(channel.progress.record(everything=True), [], [(-5, 99)])
    assert (channel.state.depth, channel.state.deferred_count) == (3, 1)
    reader = Reader(world, channel, 9)
    assert reader.offsets() == [0, 1, 3]
    reader.finish(0, 1, 3)
    world.wait(8 * SECOND - 1)
    assert reader.offsets() == []
    world.wait(1)
    assert reader.offsets() == [2]


def test_a_clock_that_was_set_back_makes_their_wait_no_longer(world: World) -> None:
    channel = world.channel()
    world.publish(b"later", delay=10 * SECOND)
    channel.empty()
    world.clock.set_wall(-HOUR)
    channel.restore(channel.progress.record(everything=True), [], [(0, 1)])
    reader = Reader(world, channel, 9)
    assert reader.offsets() == []
    world.wait(10 * SECOND)
    assert reader.offsets() == [0]


def test_what_cannot_be_read_is_owed_at_once(world: World) -> None:
    channel = world.channel()
    world.fill(1)
    world.publish(b"later", delay=10 * SECOND)
    world.kill()
    channel = world.topic.channels["c"]
    channel.empty()
    world.disk.fail("read", within=".log")
    channel.progress.owe(0, 2)
    assert Reader(world, channel, 9).offsets() == [0, 1]
