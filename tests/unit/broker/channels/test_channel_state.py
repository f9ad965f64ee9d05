"""What a channel holds: going elsewhere, deferrals that are cancelled or released, dropping."""

from __future__ import annotations

import pytest

from penstock.core.errors import OffsetOutOfRangeError
from penstock.core.units import HOUR, SECOND
from penstock.storage.retention import Retention
from tests.unit.broker.conftest import Reader, World

# --- seeking -------------------------------------------------------------------------------------


def test_back_to_the_start_everything_comes_again(world: World) -> None:
    channel = world.channel()
    world.fill(5)
    reader = Reader(world, channel, 3)
    assert reader.offsets() == [0, 1, 2]
    reader.finish(0)
    reader.requeue(1)
    world.topic.seek(channel, 0)
    assert channel.in_flight_count == channel.requeued.count == 0
    assert reader.finish(2) == [2], "what was in flight is forgotten"
    assert reader.take() == [(0, 1), (1, 1), (2, 1)]
    reader.finish(0, 1, 2)
    assert reader.take() == [(3, 1), (4, 1)]


def test_ahead_skips(world: World) -> None:
    channel = world.channel()
    world.fill(5)
    world.topic.seek(channel, 4)
    assert channel.depth == 1
    assert Reader(world, channel, 9).offsets() == [4]


def test_ahead_of_what_a_paused_topic_has_given(world: World) -> None:
    channel, other = world.channel(), world.channel("other")
    world.fill(1)
    world.topic.pause()
    world.fill(4)
    world.topic.seek(channel, 3)
    assert (channel.depth, other.depth) == (0, 1)
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
    assert (channel.deferred_count, channel.depth) == (1, 0)
    world.wait(6 * SECOND - 1)
    assert reader.offsets() == []
    world.wait(1)
    assert reader.offsets() == [0]


# --- lost progress -------------------------------------------------------------------------------


def test_messages_whose_progress_is_lost_come_when_they_are_due(world: World) -> None:
    channel = world.channel()
    world.fill(1)
    world.publish(b"soon", delay=2 * SECOND)
    world.publish(b"later", delay=10 * SECOND)
    world.fill(1)
    world.clock.advance(2 * SECOND)
    channel.empty()
    channel.owe(-5, 99)
    assert (channel.depth, channel.deferred_count) == (3, 1)
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
    channel.owe(0, 1)
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
    channel.owe(0, 2)
    assert Reader(world, channel, 9).offsets() == [0, 1]


@pytest.mark.parametrize("offset", [-1, 6])
def test_outside_of_the_log(world: World, offset: int) -> None:
    channel = world.channel()
    world.fill(5)
    with pytest.raises(OffsetOutOfRangeError):
        world.topic.seek(channel, offset)
    assert channel.depth == 5


def test_a_seek_survives_kill_and_holds_retention() -> None:
    world = World(file_bytes=300, retention=Retention(time_ns=HOUR))
    channel = world.channel()
    world.fill(30)
    reader = Reader(world, channel, 100)
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
    taken = channel.cancel_deferred([1, 2, 77])
    assert sorted((e.first, e.next) for e in taken) == [(1, 2), (2, 3)]
    assert channel.deferred_count == 2
    assert world.topic.journal.save_now()
    world.kill()
    channel = world.topic.channels["c"]
    reader = Reader(world, channel, 9)
    world.wait(SECOND)
    assert sorted(reader.offsets()) == [0, 3]
    reader.finish(0, 3)
    assert channel.floor() == 4


def test_released_messages_come_at_once(world: World) -> None:
    channel = world.channel()
    world.publish(b"a", b"b", delay=HOUR)
    assert len(channel.release_deferred([1])) == 1
    assert Reader(world, channel, 9).take() == [(1, 1)]
    assert channel.deferred_count == 1


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
    assert (channel.depth, channel.deferred_count) == (3, 0)
    world.publish(b"d", delay=2 * HOUR)
    channel.cancel_deferred(None)
    assert world.topic.journal.save_now()
    world.kill()
    assert world.topic.channels["c"].deferred_count == 0
    assert world.topic.channels["c"].depth == 3


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
    assert channel.drop_oldest(3) == 3
    assert Reader(world, channel, 9).offsets() == [4, 5]
    assert (channel.deferred_count, channel.dropped_count) == (1, 3)


def test_no_more_is_dropped_than_there_is(world: World) -> None:
    channel = world.channel()
    world.fill(2)
    world.publish(b"later", delay=HOUR)
    assert channel.drop_oldest(9) == 3
    assert (channel.depth, channel.deferred_count, channel.unfinished_count) == (0, 0, 0)
