"""A channel: time-outs, touches, deferrals and bounds."""

from __future__ import annotations

import pytest

from penstock.broker.channels.channel import NotInFlightError
from penstock.core.units import MILLISECOND, SECOND
from penstock.nsq.protocol.bodies import Bodies
from penstock.testing.clock import FakeClock
from tests.unit.broker.conftest import TIMEOUT, TIMEOUT_MAX, Reader, World, ignore

GRAIN = 10 * MILLISECOND
NOT_IN_FLIGHT = "^ID not in flight$"
NOT_OWNED = "^client does not own message$"


def first_tries(*offsets: int) -> list[tuple[int, int]]:
    return [(offset, 1) for offset in offsets]


# --- time-outs and touches -----------------------------------------------------------------------


def test_a_timed_out_message_comes_again_with_one_attempt_more(world: World) -> None:
    reader = world.reader(3, 2)
    channel = reader.channel
    reader.take()
    reader.finish(0)
    reader.ready(1)
    world.wait(TIMEOUT - 1)
    assert channel.timeout_count == 0
    world.wait(1)
    assert channel.timeout_count == 1
    assert reader.take() == first_tries(2)
    reader.finish(2)
    assert reader.take() == [(1, 2)]
    world.wait(TIMEOUT)
    assert reader.take() == [(1, 3)]
    assert (channel.timeout_count, channel.requeue_count) == (2, 0)


def test_a_time_out_makes_room_for_its_owner_and_ends_its_hold(world: World) -> None:
    slow = world.reader(2, 1)
    channel = slow.channel
    slow.take()
    other = Reader(world, channel, 1)
    assert other.offsets() == [1]
    other.finish(1)
    slow.ready(0)
    world.wait(TIMEOUT)
    assert slow.consumer.in_flight == 0
    assert other.take() == [(0, 2)]
    assert slow.finish(0) == [0]
    assert channel.why_not(0) == "client does not own message"
    slow.ready(1)
    world.fill(1)
    assert slow.offsets() == [2]


def test_each_consumer_has_its_own_time_out(world: World) -> None:
    channel = world.channel()
    world.fill(2)
    slow = Reader(world, channel, 1, timeout=4 * SECOND)
    quick = Reader(world, channel, 1, timeout=SECOND)
    channel.dispatch(world.now)
    slow.ready(0)
    quick.ready(0)
    world.wait(SECOND)
    assert (slow.consumer.in_flight, quick.consumer.in_flight) == (1, 0)
    world.wait(3 * SECOND)
    assert (slow.consumer.in_flight, channel.timeout_count) == (0, 2)


def test_touch_starts_the_time_out_anew(world: World) -> None:
    reader = world.reader(2, 2)
    channel = reader.channel
    reader.take()
    world.wait(4 * SECOND)
    reader.touch(1)
    world.wait(SECOND)
    assert reader.take() == [(0, 2)]
    assert channel.timeout_count == 1
    world.wait(4 * SECOND)
    assert (1, 2) in reader.take()


def test_a_touch_may_name_its_time_out_which_has_no_bound(world: World) -> None:
    """RocketMQ's consumers set how long a message stays invisible to the others."""
    reader = world.reader(1, 1)
    reader.take()
    reader.channel.touch(reader.consumer, 0, world.now, 10 * TIMEOUT_MAX)
    world.wait(10 * TIMEOUT_MAX - 1)
    assert reader.take() == []
    world.wait(1)
    assert reader.take() == [(0, 2)]


def test_touches_end_at_the_longest_time_out(world: World) -> None:
    reader = world.reader(1, 1)
    channel = reader.channel
    reader.take()
    for _ in range(TIMEOUT_MAX // SECOND - 1):
        world.wait(SECOND)
        reader.touch(0)
    assert channel.timeout_count == 0
    world.wait(SECOND)
    assert channel.timeout_count == 1
    assert reader.take() == [(0, 2)]


def test_touch_keeps_the_attempts_and_the_time_of_delivery_of_a_second_try(world: World) -> None:
    reader = world.reader(1, 1)
    channel = reader.channel
    reader.take()
    reader.requeue(0)
    world.wait(3 * SECOND)
    assert reader.take() == [(0, 2)]
    for _ in range(3):
        world.wait(4 * SECOND - 1)
        reader.touch(0)
    world.wait(2)
    assert channel.timeout_count == 0
    world.wait(1)
    assert reader.take() == [(0, 3)]


def test_touch_of_what_one_does_not_hold(world: World) -> None:
    channel = world.channel()
    world.fill(1)
    owner, other = Reader(world, channel, 1), Reader(world, channel, 0)
    owner.take()
    with pytest.raises(NotInFlightError, match=NOT_OWNED):
        other.touch(0)
    with pytest.raises(NotInFlightError, match=NOT_IN_FLIGHT):
        owner.touch(1)
    owner.finish(0)
    with pytest.raises(NotInFlightError, match=NOT_IN_FLIGHT):
        owner.touch(0)


def test_a_departed_consumers_messages_wait_for_their_time_out(world: World) -> None:
    """Unless it finishes them, which it still may."""
    gone = world.reader(4, 3)
    channel = gone.channel
    gone.take()
    gone.leave()
    assert gone.finish(2) == []
    heir = Reader(world, channel, 10)
    assert heir.offsets() == [3]
    heir.finish(3)
    assert (channel.state.in_flight_count, channel.state.floor()) == (2, 0)
    assert channel.why_not(0) == "client does not own message"
    world.wait(TIMEOUT - 1)
    assert heir.take() == []
    world.wait(1)
    assert heir.take() == [(0, 2), (1, 2)]
    assert channel.timeout_count == 2


def test_a_departed_consumer_is_given_nothing_more(world: World) -> None:
    channel = world.channel()
    gone = Reader(world, channel, 5)
    gone.leave()
    gone.writable(True)  # its connection drained late
    world.fill(1)
    assert gone.take() == []
    assert channel.consumers == []
    assert channel.state.depth == 1


# --- deferral ------------------------------------------------------------------------------------


def test_a_message_published_with_a_delay_waits(world: World) -> None:
    channel = world.channel()
    world.publish(b"a")
    world.publish(b"late", b"later", delay=2 * SECOND)
    world.publish(b"b")
    reader = Reader(world, channel, 10)
    assert (channel.state.depth, channel.state.deferred_count, channel.message_count) == (2, 2, 4)
    assert reader.offsets() == [0, 3]
    reader.finish(0, 3)
    assert channel.state.floor() == 1
    world.wait(2 * SECOND - 1)
    assert reader.take() == []
    world.wait(1)
    assert reader.take() == first_tries(1, 2)
    assert (channel.state.depth, channel.state.deferred_count) == (0, 0)


def test_delays_of_a_backlog_count_from_its_distribution(world: World) -> None:
    world.publish(b"late", delay=5 * SECOND)
    world.publish(b"now")
    world.wait(4 * SECOND)
    channel = world.channel()
    reader = Reader(world, channel, 10)
    assert reader.offsets() == [1]
    reader.finish(1)
    assert channel.state.deferred_count == 1
    world.wait(5 * SECOND - 1)
    assert reader.take() == []
    world.wait(1)
    assert reader.take() == first_tries(0)


def publish_delayed(world: World, *delays: int) -> None:
    """One message for each delay, all in one commit."""
    for delay in delays:
        world.topic.stage(Bodies.single(b"x"), delay, ignore)
    world.topic.commit()


def test_a_backlog_of_one_delay_comes_in_its_order(world: World) -> None:
    world.let_time_run()
    for _ in range(5):
        world.publish(b"late", delay=SECOND)
    reader = Reader(world, world.channel(), 10)
    assert reader.take() == []
    world.wait(SECOND)
    assert reader.take() == first_tries(0, 1, 2, 3, 4)


def test_delays_of_one_commit_keep_its_order_over_a_restart(world: World) -> None:
    world.let_time_run()
    world.channel()
    world.broker.save()
    publish_delayed(world, *(SECOND, 2 * SECOND) * 4)
    world.kill()  # that they were deferred was not written down, only that they were published
    channel = world.channel()
    reader = Reader(world, channel, 10)
    assert reader.take() == []
    world.wait(SECOND)
    assert reader.take() == first_tries(0, 2, 4, 6)
    world.broker.save()
    world.restart()
    reader = Reader(world, world.channel(), 10)
    world.wait(SECOND)
    assert [each for each in reader.take() if each[1] == 1] == first_tries(1, 3, 5, 7)


def test_a_delay_follows_the_wall_clock_when_that_is_set(world: World) -> None:
    world.channel()
    world.publish(b"late", delay=3600 * SECOND)
    world.clock.set_wall(world.clock.wall_ns() + 1800 * SECOND)
    world.restart()
    reader = Reader(world, world.channel(), 1)
    world.wait(3600 * SECOND - 1)
    assert reader.take() == []
    world.wait(1)
    assert reader.take() == first_tries(0)


DAY = 86_400 * SECOND


@pytest.mark.parametrize("is_saved", [True, False], ids=["saved", "only published"])
def test_no_delay_grows_when_the_clock_is_set_back_before_a_start(
    world: World, is_saved: bool
) -> None:
    channel = world.channel()
    world.broker.save()
    world.publish(b"late", delay=30 * SECOND)
    if is_saved:
        world.broker.save()
        assert channel.state.deferred_count == 1
    world.clock.set_wall(world.clock.wall_ns() - 5 * DAY)
    world.kill()
    reader = Reader(world, world.channel(), 1)
    assert reader.take() == []
    world.wait(30 * SECOND)
    assert reader.take() == first_tries(0)


def test_deadlines_of_two_clocks_are_not_mixed(world: World) -> None:
    channel = world.channel()
    world.clock.set_wall(world.clock.wall_ns() + 5 * DAY)
    world.publish(b"late", delay=30 * SECOND)
    world.broker.save()
    world.clock.set_wall(world.clock.wall_ns() - 5 * DAY)
    world.fill(1)
    world.broker.save()
    assert channel.state.deferred_count == 1
    world.kill()
    reader = Reader(world, world.channel(), 2)
    assert reader.offsets() == [1]
    reader.finish(1)
    world.wait(30 * SECOND)
    assert reader.offsets() == [0]


def test_a_delay_of_the_backlog_that_is_over_when_it_is_read_defers_nothing(world: World) -> None:
    world.publish(b"late", delay=SECOND)
    channel = world.channel()
    world.wait(SECOND)
    reader = Reader(world, channel, 10)
    assert reader.take() == first_tries(0)


def test_delays_run_on_while_the_broker_is_down(world: World) -> None:
    world.channel()
    world.publish(b"a", b"b", delay=30 * SECOND)
    wall = world.clock.wall_ns()
    world.broker.close()
    world.clock = FakeClock(777 * SECOND)  # monotonic time starts anew
    world.clock.set_wall(wall + 20 * SECOND)
    world.open()
    channel = world.channel()
    reader = Reader(world, channel, 10)
    assert (reader.take(), channel.state.deferred_count, channel.state.depth) == ([], 2, 0)
    world.wait(10 * SECOND - 1)
    assert reader.take() == []
    world.wait(1)
    assert reader.take() == first_tries(0, 1)


def test_a_delay_that_ended_while_the_broker_was_down(world: World) -> None:
    reader = world.reader(1, 1)
    reader.take()
    reader.requeue(0, 30 * SECOND)
    world.broker.close()
    world.clock.advance(60 * SECOND)
    world.open()
    reader = Reader(world, world.channel(), 1)
    world.wait(0)
    assert reader.take() == [(0, 2)]


# --- bounds --------------------------------------------------------------------------------------


def test_an_ephemeral_channel_drops_the_newest_it_has_no_room_for() -> None:
    world = World(memory=3)
    channel = world.channel("c#ephemeral")
    world.fill(5)
    assert (channel.state.depth, channel.state.backend_depth, channel.message_count) == (3, 0, 5)
    reader = Reader(world, channel, 2)
    assert reader.offsets() == [0, 1]
    world.fill(3)  # offsets 5 to 7: two fit
    reader.ready(10)
    assert reader.offsets() == [2, 5, 6]


def test_an_ephemeral_channel_counts_the_room_of_its_consumers() -> None:
    world = World(memory=3)
    channel = world.channel("c#ephemeral")
    reader = Reader(world, channel, 4)
    world.publish(*[b"x"] * 9)
    assert channel.state.depth == 7
    assert reader.offsets() == [0, 1, 2, 3]
    assert channel.state.depth == 3


def test_deferred_messages_take_no_room_of_a_bounded_channel() -> None:
    world = World(memory=2)
    channel = world.channel("c#ephemeral")
    world.fill(1)
    world.publish(*[b"x"] * 4, delay=SECOND)  # 1 to 4
    world.fill(2)  # 5 fits, 6 does not
    assert (channel.state.depth, channel.state.deferred_count) == (2, 4)
    reader = Reader(world, channel, 10)
    assert reader.offsets() == [0, 5]
    world.wait(SECOND)
    assert reader.offsets() == [1, 2, 3, 4]


def test_a_full_channel_drops_around_what_is_deferred() -> None:
    world = World(memory=1)
    topic = world.topic
    channel = world.channel("c#ephemeral")
    topic.pause()
    world.fill(3)
    topic.unpause()
    assert channel.state.depth == 1
    world.publish(b"x", delay=SECOND)
    world.fill(2)
    assert (channel.state.depth, channel.state.deferred_count) == (1, 1)
    reader = Reader(world, channel, 10)
    assert reader.offsets() == [0]


def test_a_durable_channel_drops_nothing() -> None:
    world = World(memory=3)
    channel = world.channel()
    world.fill(9)
    assert channel.state.depth == 9
    assert Reader(world, channel, 20).offsets() == list(range(9))
