"""Latencies of a channel, measured through the channel itself."""

from __future__ import annotations

import pytest

from penstock.broker.broker import Broker
from penstock.broker.channels.channel import Channel
from penstock.broker.channels.consumer import Delivery
from penstock.broker.channels.latency import _FEW, Latency, PublishTimes
from penstock.core.units import MILLISECOND, SECOND
from penstock.storage.batch import Batch
from penstock.storage.store import Store
from tests.unit.broker.conftest import TIMEOUT, Reader, World

WINDOW = 10 * SECOND


@pytest.fixture
def world() -> World:
    world = World()
    world.options.channel.latency_window_ns = WINDOW
    world.broker.close()
    world.broker = Broker(
        Store(world.disk, "/data", world.log_options), world.clock, world.draws, world.options
    )
    return world


def latency(channel: Channel) -> Latency:
    assert channel.latency is not None
    return channel.latency


def measured(channel: Channel) -> list[float]:
    """All that is in the window, smallest first."""
    summary = latency(channel).summary()
    return [summary.quantile((rank + 1) / summary.count) for rank in range(summary.count)]


def test_off_there_is_nothing() -> None:
    assert World().channel().latency is None


def test_from_publish_to_finish(world: World) -> None:
    channel = world.channel()
    reader = Reader(world, channel, 10)
    world.publish(b"1", b"2", b"3")
    world.clock.advance(SECOND)
    world.publish(b"4")
    assert reader.offsets() == [0, 1, 2, 3]
    world.clock.advance(500 * MILLISECOND)
    assert reader.finish(1, 3) == []
    world.clock.advance(SECOND)
    assert reader.finish(0, 2) == []
    assert measured(channel) == [0.5 * SECOND, 1.5 * SECOND, 2.5 * SECOND, 2.5 * SECOND]
    assert (latency(channel).count, latency(channel).total_ns) == (4, 7 * SECOND)


def test_what_is_not_in_flight_is_not_measured(world: World) -> None:
    channel = world.channel()
    reader = Reader(world, channel, 2)
    world.fill(3)
    assert reader.offsets() == [0, 1]
    assert reader.finish(0, 0, 1, 2, 77) == [0, 2, 77]
    assert latency(channel).summary().count == 2


def test_requeued_timed_out_and_touched_messages_count_from_their_publish(world: World) -> None:
    channel = world.channel()
    reader = Reader(world, channel, 10)
    world.fill(3)
    reader.take()
    reader.touch(2)
    reader.requeue(0)
    reader.requeue(1, SECOND)
    reader.take()
    world.wait(SECOND)
    reader.take()
    assert reader.finish(0, 1) == []
    world.wait(TIMEOUT)
    assert reader.take() == [(2, 2)]
    assert reader.finish(2) == []
    assert measured(channel) == [SECOND, SECOND, SECOND + TIMEOUT]


def test_a_deferral_is_part_of_it(world: World) -> None:
    channel = world.channel()
    reader = Reader(world, channel, 10)
    world.publish(b"later", delay=3 * SECOND)
    world.wait(3 * SECOND)
    assert reader.offsets() == [0]
    reader.finish(0)
    assert measured(channel) == [3 * SECOND]


def test_samples_leave_with_their_half_of_the_window(world: World) -> None:
    channel = world.channel()
    reader = Reader(world, channel, 10)

    def one(wait: int) -> None:
        world.publish(b"x")
        world.clock.advance(wait)
        reader.finish(*reader.offsets())

    one(SECOND)
    world.clock.advance(4 * SECOND)
    one(2 * SECOND)
    assert measured(channel) == [SECOND, 2 * SECOND]
    world.clock.advance(3 * SECOND)
    assert measured(channel) == [2 * SECOND]
    world.clock.advance(100 * SECOND)
    assert measured(channel) == []
    assert latency(channel).count == 2, "the totals stay"
    one(3 * SECOND)
    assert measured(channel) == [3 * SECOND]


def test_emptying_starts_anew(world: World) -> None:
    channel = world.channel()
    reader = Reader(world, channel, 2)
    world.fill(3)
    reader.take()
    reader.finish(0)
    channel.empty()
    assert measured(channel) == []
    assert reader.finish(1) == [1]
    world.fill(1)
    world.clock.advance(SECOND)
    reader.finish(*reader.offsets())
    assert measured(channel) == [SECOND]


def test_a_restart_starts_anew_and_goes_on(world: World) -> None:
    reader = world.reader(3, 2)
    reader.take()
    reader.finish(0)
    world.restart()
    channel = world.channel()
    assert measured(channel) == []
    reader = Reader(world, channel, 5)
    world.clock.advance(SECOND)
    assert sorted(reader.offsets()) == [1, 2]
    assert reader.finish(1, 2) == []
    assert measured(channel) == [SECOND, SECOND]


def test_a_wall_clock_that_goes_back_counts_as_no_time(world: World) -> None:
    channel = world.channel()
    reader = Reader(world, channel, 1)
    world.publish(b"x")
    reader.take()
    world.clock.set_wall(world.clock.wall_ns() - 5 * SECOND)
    reader.finish(0)
    assert measured(channel) == [0]


def batch(first: int, count: int, time: int) -> Batch:
    return Batch.build(first, 1000 + first, time, count, 1, [b"x" * count])


def learnt(times: PublishTimes, *batches: Batch) -> PublishTimes:
    times.learn([Delivery(each, each.first_offset, each.next_offset, 1) for each in batches])
    return times


def test_a_range_over_several_batches() -> None:
    times = learnt(PublishTimes(list), batch(0, 3, 70), batch(3, 2, 80), batch(5, 5, 90))
    assert list(times.of(0, 3)) == [(70, 3)]
    assert list(times.of(1, 2)) == [(70, 1)]
    assert list(times.of(2, 7)) == [(70, 1), (80, 2), (90, 2)]


def test_what_is_not_known_is_left_out() -> None:
    times = learnt(PublishTimes(list), batch(10, 3, 70), batch(20, 2, 80))
    assert list(times.of(0, 10)) == list(times.of(13, 20)) == list(times.of(22, 30)) == []
    assert list(times.of(0, 100)) == [(70, 3), (80, 2)]


def test_a_batch_delivered_again_is_known_once() -> None:
    first, second, third = batch(0, 3, 70), batch(3, 2, 80), batch(5, 5, 90)
    times = learnt(PublishTimes(list), second, third, third, first, second)
    assert len(times) == 3
    assert list(times.of(0, 10)) == [(70, 3), (80, 2), (90, 5)]


def test_what_is_not_in_flight_any_more_is_forgotten() -> None:
    in_flight: list[tuple[int, int]] = [(7, 8), (11, 14)]
    times = PublishTimes(lambda: in_flight)
    for number in range(_FEW):
        learnt(times, batch(2 * number, 2, number))
    assert len(times) == _FEW
    last = 2 * _FEW
    in_flight.append((last, last + 2))
    learnt(times, batch(last, 2, 5000))
    assert len(times) == 4
    assert list(times.of(7, 8)) == [(3, 1)]
    assert list(times.of(11, 14)) == [(5, 1), (6, 2)]
    assert list(times.of(last, last + 2)) == [(5000, 2)]
