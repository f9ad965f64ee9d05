"""What a channel holds: going elsewhere, cancelling, dropping; its record in the journal."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.broker.channels.channel_state import ChannelState
from penstock.broker.progress import ChannelRecord
from penstock.core.errors import OffsetOutOfRangeError
from penstock.core.ranges import RangeSet
from penstock.core.units import HOUR, SECOND
from penstock.nsq.protocol.bodies import Bodies
from penstock.storage.retention import Retention
from tests.unit.broker.conftest import Reader, World, ignore


# --- what is needed ------------------------------------------------------------------------------
def test_needed_is_all_that_is_not_finished(world: World) -> None:
    channel = world.channel()
    world.fill(3)
    world.publish(b"late", delay=SECOND)  # 3
    world.fill(2)
    reader = Reader(world, channel, 3)
    reader.take()
    reader.finish(1)
    reader.requeue(2)
    offsets = [o for first, next_ in channel.state.needed() for o in range(first, next_)]
    assert sorted(offsets) == [0, 2, 3, 4, 5]
    assert channel.state.floor() == 0


def test_what_is_not_finished_below_an_offset(world: World) -> None:
    channel = world.channel()
    world.fill(3)
    world.publish(b"late", delay=SECOND)  # 3
    world.fill(4)
    reader = Reader(world, channel, 3)
    reader.take()
    reader.finish(1)
    reader.requeue(2)
    below = [channel.state.unfinished_below(offset) for offset in range(10)]
    assert below == [0, 1, 1, 2, 3, 4, 5, 6, 7, 7]
    assert below[-1] == channel.state.unfinished_count


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 9))), st.integers(0, 30))
def test_the_border_ends_the_run_at_the_cursor(skips: list[tuple[int, int]], cursor: int) -> None:
    state = ChannelState(cursor, 100)
    state.head = 40
    for first, count in skips:
        state.skips.add(max(first, cursor), first + count)
    skipped = {offset for first, next_ in state.skips for offset in range(first, next_)}
    run = [offset for offset in range(cursor, 41) if offset not in skipped]
    assert (state.border > cursor) == (cursor not in skipped and cursor < 40)
    assert state.cursor == cursor, "it is only asked"

    depth = state.depth
    state.pass_skips()
    assert state.cursor == run[0]
    ends = skipped | {40}
    assert state.border == next(offset for offset in range(state.cursor, 41) if offset in ends)
    assert state.depth == depth


# --- seeking -------------------------------------------------------------------------------------
def test_back_to_the_start_everything_comes_again(world: World) -> None:
    reader = world.reader(5, 3)
    channel = reader.channel
    assert reader.offsets() == [0, 1, 2]
    reader.finish(0)
    reader.requeue(1)
    world.topic.seek(channel, 0)
    assert channel.state.in_flight_count == channel.state.requeued.count == 0
    assert reader.finish(2) == [2], "what was in flight is forgotten"
    assert reader.take() == [(0, 1), (1, 1), (2, 1)]
    reader.finish(0, 1, 2)
    assert reader.take() == [(3, 1), (4, 1)]


def test_ahead_skips(world: World) -> None:
    channel = world.channel()
    world.fill(5)
    world.topic.seek(channel, 4)
    assert channel.state.depth == 1
    assert Reader(world, channel, 9).offsets() == [4]


def ranges(*pairs: tuple[int, int]) -> RangeSet:
    found = RangeSet()
    for first, next_ in pairs:
        found.add(first, next_)
    return found


def test_a_part_comes_again_and_another_is_done(world: World) -> None:
    """Whatever they were: finished, in flight, requeued, waiting; the others stay as they are."""
    reader = world.reader(10, 6)
    channel = reader.channel
    assert reader.offsets() == [0, 1, 2, 3, 4, 5]
    reader.finish(0, 1)
    reader.ready(0)
    reader.requeue(2)
    reader.requeue(3)
    world.topic.seek_part(channel, ranges((3, 5), (6, 7)), ranges((1, 3), (8, 9)))
    assert [*channel.state.flights[0].ranges()] == [(5, 6, 1)], "4 is no longer in flight"
    assert reader.finish(4) == [4], "done without it"
    reader.ready(10)
    assert reader.take() == [(1, 1), (2, 1), (7, 1), (8, 1), (9, 1)]
    reader.finish(5, 1, 2, 7, 8, 9)
    assert channel.state.floor() == channel.state.head == 10
    assert channel.state.unfinished_count == 0


def test_a_part_that_was_skipped_comes_again(world: World) -> None:
    channel = world.channel()
    world.fill(6)
    world.topic.seek_part(channel, ranges((1, 5)), ranges())
    assert channel.state.depth == 2
    world.topic.seek_part(channel, ranges(), ranges((3, 5)))
    assert channel.state.depth == 4
    reader = Reader(world, channel, 10)
    assert sorted(reader.offsets()) == [0, 3, 4, 5]
    reader.finish(0, 3, 4, 5)
    assert channel.state.unfinished_count == 0


def test_a_part_that_was_deferred(world: World) -> None:
    channel = world.channel()
    world.publish(b"late", delay=HOUR)
    world.publish(b"later", delay=HOUR)
    world.topic.seek_part(channel, ranges((0, 1)), ranges((1, 2)))
    assert channel.state.deferred_count == 0
    assert Reader(world, channel, 9).offsets() == [1]


def test_ahead_of_what_a_paused_topic_has_given(world: World) -> None:
    channel, other = world.channel(), world.channel("other")
    world.fill(1)
    world.topic.pause()
    world.fill(4)
    world.topic.seek(channel, 3)
    assert (channel.state.depth, other.state.depth) == (0, 1)
    world.topic.unpause()
    assert Reader(world, channel, 9).offsets() == [3, 4]
    assert Reader(world, other, 9).offsets() == [0, 1, 2, 3, 4]


def test_there_and_back_gives_nothing_that_the_topic_holds_back(world: World) -> None:
    channel = world.channel()
    world.fill(1)
    world.topic.pause()
    world.fill(1)
    world.topic.seek(channel, 2)
    world.topic.seek(channel, 0)
    assert Reader(world, channel, 9).offsets() == [0]


def test_deferred_messages_wait_again_for_what_is_left_of_their_time(world: World) -> None:
    channel = world.channel()
    world.publish(b"later", delay=10 * SECOND)
    world.clock.advance(4 * SECOND)
    world.topic.seek(channel, 0)
    reader = Reader(world, channel, 1)
    assert reader.offsets() == []
    assert (channel.state.deferred_count, channel.state.depth) == (1, 0)
    world.wait(6 * SECOND - 1)
    assert reader.offsets() == []
    world.wait(1)
    assert reader.offsets() == [0]


@pytest.mark.parametrize("offset", [-1, 6])
def test_outside_of_the_log(world: World, offset: int) -> None:
    channel = world.channel()
    world.fill(5)
    with pytest.raises(OffsetOutOfRangeError):
        world.topic.seek(channel, offset)
    assert channel.state.depth == 5


def test_a_seek_survives_kill_and_holds_retention() -> None:
    world = World(file_bytes=300, retention=Retention(time_ns=HOUR))
    reader = world.reader(30, 100)
    channel = reader.channel
    reader.finish(*reader.offsets())
    world.broker.trim()
    world.topic.seek(channel, 7)
    world.kill()
    world.clock.advance(2 * HOUR)
    world.broker.trim()
    assert world.topic.log.start_offset <= 7
    channel = world.topic.channels["c"]
    assert Reader(world, channel, 100).offsets() == list(range(7, 30))


# --- deferred messages ---------------------------------------------------------------------------
def test_cancelled_messages_never_come(world: World) -> None:
    channel = world.channel()
    world.publish(b"a", b"b", b"c", b"d", delay=SECOND)
    taken = channel.state.cancel_deferred([1, 2, 77])
    assert sorted((e.first, e.next) for e in taken) == [(1, 2), (2, 3)]
    assert channel.state.deferred_count == 2
    assert world.topic.journal.save_now()
    world.kill()
    channel = world.topic.channels["c"]
    reader = Reader(world, channel, 9)
    world.wait(SECOND)
    assert sorted(reader.offsets()) == [0, 3]
    reader.finish(0, 3)
    assert channel.state.floor() == 4


def test_released_messages_come_at_once(world: World) -> None:
    channel = world.channel()
    world.publish(b"a", b"b", delay=HOUR)
    assert len(channel.release_deferred([1])) == 1
    assert Reader(world, channel, 9).take() == [(1, 1)]
    assert channel.state.deferred_count == 1


def test_what_is_released_together_comes_in_the_order_of_its_time(world: World) -> None:
    channel = world.channel()
    for hours in (3, 1, 2, 1):
        world.publish(b"x", delay=hours * HOUR)
    channel.release_deferred(None)
    assert Reader(world, channel, 9).offsets() == [1, 3, 2, 0]


def test_all_of_them(world: World) -> None:
    channel = world.channel()
    world.publish(b"a", b"b", delay=HOUR)
    world.publish(b"c", delay=2 * HOUR)
    channel.release_deferred(None)
    assert (channel.state.depth, channel.state.deferred_count) == (3, 0)
    world.publish(b"d", delay=2 * HOUR)
    channel.state.cancel_deferred(None)
    assert world.topic.journal.save_now()
    world.kill()
    assert world.topic.channels["c"].state.deferred_count == 0
    assert world.topic.channels["c"].state.depth == 3


def test_a_deferral_of_centuries_survives(world: World) -> None:
    channel = world.channel()
    longest = (1 << 63) - 1  # ns, what Go's durations can say
    world.publish(b"a", delay=longest)
    world.topic.journal.save()
    world.kill()
    channel = world.topic.channels["c"]
    reader = Reader(world, channel, 1)
    world.wait(longest - SECOND)
    assert reader.offsets() == []
    world.wait(SECOND)
    assert reader.offsets() == [0]


# --- dropping ------------------------------------------------------------------------------------
def test_dropping_steps_over_skips(world: World) -> None:
    channel = world.channel()
    world.fill(2)
    world.publish(b"later", delay=HOUR)
    world.fill(3)
    assert channel.state.drop_oldest(3) == 3
    assert Reader(world, channel, 9).offsets() == [4, 5]
    assert (channel.state.deferred_count, channel.state.dropped_count) == (1, 3)


def test_no_more_is_dropped_than_there_is(world: World) -> None:
    channel = world.channel()
    world.fill(2)
    world.publish(b"later", delay=HOUR)
    assert channel.state.drop_oldest(9) == 3
    state = channel.state
    assert (state.depth, state.deferred_count, state.unfinished_count) == (0, 0, 0)


def test_a_full_channel_drops_on_both_sides_of_what_is_deferred() -> None:
    world = World(memory=1)
    channel = world.channel("c#ephemeral")
    for bodies, delay in (([b"0", b"1"], 0), ([b"2"], SECOND), ([b"3", b"4", b"5"], 0)):
        world.topic.stage(Bodies.from_list(bodies), delay, ignore)
    world.topic.commit()
    assert (channel.state.depth, channel.state.deferred_count) == (1, 1)
    reader = Reader(world, channel, 10)
    assert reader.offsets() == [0]
    world.wait(2 * SECOND)
    assert reader.offsets() == [2]


# --- A channel's progress in the journal: written, restored, and what is doubtful delivered ------


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
