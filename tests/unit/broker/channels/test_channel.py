"""A channel: delivery, finishing, requeuing, damage, emptying; the nearest consumers first."""

from __future__ import annotations

import logging
from itertools import chain

import pytest

from penstock.broker.channels.channel import READ_RETRY_NS, SERVE_BYTES_MAX, NotInFlightError
from penstock.broker.channels.consumer import Locality
from penstock.broker.progress import ChannelRecord
from penstock.core.units import MILLISECOND, SECOND
from tests.unit.broker.conftest import TIMEOUT, Reader, World

GRAIN = 10 * MILLISECOND
NOT_IN_FLIGHT = "^ID not in flight$"
NOT_OWNED = "^client does not own message$"


def first_tries(*offsets: int) -> list[tuple[int, int]]:
    return [(offset, 1) for offset in offsets]


# --- delivery ------------------------------------------------------------------------------------
def test_messages_come_in_order_with_their_bodies(world: World) -> None:
    channel = world.channel()
    world.publish(b"a", b"bb", b"")
    world.publish(b"c")
    reader = Reader(world, channel, 10)
    assert reader.take() == first_tries(0, 1, 2, 3)
    assert reader.bodies == {0: b"a", 1: b"bb", 2: b"", 3: b"c"}
    assert reader.take() == []


def test_ready_is_a_level_not_a_budget(world: World) -> None:
    reader = world.reader(6, 2)
    channel = reader.channel
    assert reader.offsets() == [0, 1]
    assert (channel.state.depth, channel.state.in_flight_count) == (4, 2)
    reader.finish(0)
    assert reader.offsets() == [2]
    reader.ready(4)
    assert reader.offsets() == [3, 4]
    reader.ready(0)
    reader.finish(1, 2, 3, 4)
    assert reader.offsets() == []
    reader.ready(1)
    assert reader.offsets() == [5]


def test_counts(world: World) -> None:
    reader = world.reader(5, 3)
    channel = reader.channel
    reader.take()
    reader.finish(0)
    reader.requeue(1)
    assert (channel.message_count, channel.delivered_count) == (5, 3)
    assert (channel.requeue_count, channel.timeout_count, channel.state.lost_count) == (1, 0, 0)
    consumer = reader.consumer
    assert (consumer.message_count, consumer.finish_count, consumer.requeue_count) == (3, 1, 1)
    assert (consumer.in_flight, channel.state.in_flight_count, channel.state.depth) == (1, 1, 3)


def test_a_paused_channel_delivers_nothing_but_takes_finishes(world: World) -> None:
    reader = world.reader(3, 1)
    channel = reader.channel
    assert reader.offsets() == [0]
    channel.pause()
    assert reader.finish(0) == []
    assert reader.offsets() == []
    assert channel.state.depth == 2
    channel.unpause()
    assert reader.offsets() == [1]


def test_backend_depth_is_what_the_memory_queue_does_not_hold() -> None:
    world = World(memory=3)
    channel = world.channel()
    world.fill(2)
    assert (channel.state.depth, channel.state.backend_depth) == (2, 0)
    world.fill(3)
    assert (channel.state.depth, channel.state.backend_depth) == (5, 2)


@pytest.mark.parametrize(("messages", "shares"), [(9, [3, 3, 3]), (10, [4, 3, 3]), (2, [1, 1, 0])])
def test_what_waits_is_shared_out(world: World, messages: int, shares: list[int]) -> None:
    channel = world.channel()
    world.publish(*[b"x"] * messages)
    readers = [Reader(world, channel, 100) for _ in range(3)]
    channel.dispatch(world.now)
    got = [reader.offsets() for reader in readers]
    assert sorted(map(len, got), reverse=True) == shares
    assert sorted(chain(*got)) == list(range(messages))


def test_what_one_has_no_room_for_goes_to_the_others(world: World) -> None:
    channel = world.channel()
    world.publish(*[b"x"] * 10)
    small, none, large = (Reader(world, channel, ready) for ready in (1, 0, 100))
    channel.dispatch(world.now)
    assert [len(reader.offsets()) for reader in (small, none, large)] == [1, 0, 9]


def test_single_messages_go_round(world: World) -> None:
    channel = world.channel()
    readers = [Reader(world, channel, 100) for _ in range(3)]
    for _ in range(6):
        world.fill(1)
        channel.dispatch(world.now)
    assert [len(reader.offsets()) for reader in readers] == [2, 2, 2]


def test_who_cannot_be_written_to_is_left_out(world: World) -> None:
    channel = world.channel()
    world.fill(4)
    stuck, other = Reader(world, channel, 10), Reader(world, channel, 2)
    stuck.consumer.writable = False  # its connection need not tell the channel
    channel.dispatch(world.now)
    assert (stuck.offsets(), other.offsets()) == ([], [0, 1])
    stuck.writable(True)
    assert stuck.offsets() == [2, 3]


def test_one_round_gives_about_a_megabyte(world: World) -> None:
    channel = world.channel()
    size = 200_000
    for _ in range(3):
        world.publish(*[bytes(size)] * 5)
    reader = Reader(world, channel, 100)
    reader.stop_after = 1
    got = reader.offsets()
    assert SERVE_BYTES_MAX - size < len(got) * size <= SERVE_BYTES_MAX + 2 * size
    assert got == list(range(len(got)))
    reader.stop_after = None
    reader.writable(True)
    channel.dispatch(world.now)
    assert len(reader.rounds) > 1
    assert reader.offsets() == list(range(len(got), 15))


def test_a_round_of_redelivered_messages_is_bounded_too(world: World) -> None:
    channel = world.channel()
    size = 100_000
    world.publish(*[bytes(size)] * 40)
    reader = Reader(world, channel, 40)
    assert len(reader.take()) == 40
    world.clock.advance(TIMEOUT)
    channel.tick(world.now)
    reader.stop_after = 1
    got = reader.offsets()
    assert 0 < len(got) * size <= SERVE_BYTES_MAX + 16 * size
    assert channel.state.depth == 40 - len(got)


def test_a_message_larger_than_a_round_is_delivered(world: World) -> None:
    channel = world.channel()
    world.publish(bytes(2 * SERVE_BYTES_MAX))
    world.publish(b"next")
    reader = Reader(world, channel, 10)
    assert reader.offsets() == [0, 1]


@pytest.mark.parametrize(
    ("draws", "sample", "ready", "kept"),
    [
        pytest.param((10, 99, 50, 49, 0, 75), 50, 100, [0, 3, 4], id="what the dice say"),
        pytest.param((90, 90, 5, 90, 5, 5), 20, 2, [2, 4], id="others take no room"),
    ],
)
def test_sampling(draws: tuple[int, ...], sample: int, ready: int, kept: list[int]) -> None:
    world = World(draws=draws)
    channel = world.channel()
    world.publish(*[b"x"] * 6)
    reader = Reader(world, channel, ready, sample=sample)
    assert reader.offsets() == kept
    assert channel.state.in_flight_count == len(kept)
    assert reader.finish(*kept) == []
    later = reader.offsets()
    assert reader.finish(*later) == []
    assert world.draws.left == []
    assert later == ([5] if ready == 2 else [])
    assert (channel.state.depth, channel.state.floor()) == (0, 6)


def test_a_round_that_samples_all_away_is_not_the_end() -> None:
    world = World(draws=(99,) * 20)
    channel = world.channel()
    for _ in range(20):
        world.publish(bytes(SERVE_BYTES_MAX // 5))
    reader = Reader(world, channel, 5, sample=1)
    assert reader.take() == []
    assert (channel.state.depth, channel.state.floor()) == (0, 20)


def test_messages_that_were_all_sampled_away_do_not_come_back() -> None:
    world = World(draws=(99, 99, 99))
    channel = world.channel()
    world.topic.journal.save()
    world.publish(*[b"x"] * 3)
    assert Reader(world, channel, 5, sample=1).take() == []
    world.restart()
    assert world.channel().state.depth == 0


def test_sampling_does_not_touch_redelivered_messages() -> None:
    world = World(draws=(1,))
    channel = world.channel()
    world.publish(b"x")
    reader = Reader(world, channel, 2, sample=20)
    assert reader.offsets() == [0]
    reader.requeue(0)
    assert reader.take() == [(0, 2)]


# --- finishing -----------------------------------------------------------------------------------
def test_finish_in_order_and_out_of_order(world: World) -> None:
    channel = world.channel()
    world.publish(*[b"x"] * 8)
    reader = Reader(world, channel, 8)
    reader.take()
    assert reader.finish(0, 1, 2) == []
    assert channel.state.floor() == 3
    assert reader.finish(7, 5) == []
    assert channel.state.floor() == 3
    assert reader.finish(4, 3) == []
    assert channel.state.floor() == 6
    assert reader.finish(6) == []
    assert (channel.state.floor(), channel.state.in_flight_count) == (8, 0)
    assert reader.consumer.finish_count == 8


def test_finish_of_what_is_not_in_flight_is_returned(world: World) -> None:
    reader = world.reader(4, 3)
    reader.take()
    assert sorted(reader.finish(1, 2, 3, 99)) == [3, 99]
    assert reader.finish(1) == [1]
    assert reader.finish(0, 0) == [0]
    assert reader.consumer.finish_count == 3


def test_finish_of_another_consumers_message_is_refused(world: World) -> None:
    channel = world.channel()
    world.fill(2)
    owner, other = Reader(world, channel, 2), Reader(world, channel, 0)
    owner.take()
    assert other.finish(0, 1) == [0, 1]
    assert channel.why_not(0) == "client does not own message"
    assert channel.why_not(2) == "ID not in flight"
    assert owner.finish(0, 1) == []
    assert channel.why_not(0) == "ID not in flight"


def test_finish_makes_room_and_changes_the_channel(world: World) -> None:
    reader = world.reader(2, 1)
    channel = reader.channel
    reader.take()
    world.broker.save()
    assert not channel.state.changed
    reader.finish(77)
    assert not channel.state.changed
    reader.finish(0)
    assert channel.state.changed
    assert reader.offsets() == [1]


# --- requeuing -----------------------------------------------------------------------------------
def test_requeued_messages_go_to_the_tail(world: World) -> None:
    reader = world.reader(3, 1)
    reader.take()
    reader.requeue(0)
    world.fill(2)  # came later than the requeue
    order = []
    while message := reader.take():
        order += message
        reader.finish(message[0][0])
    assert order == [(1, 1), (2, 1), (0, 2), (3, 1), (4, 1)]


@pytest.mark.parametrize(
    ("memory", "messages", "order"),
    [
        (2, 6, [(0, 1), (1, 1), (2, 1), (0, 2), (3, 1), (4, 1), (0, 3), (5, 1)]),
        (0, 3, [(0, 1), (1, 1), (2, 1), (0, 2), (0, 3)]),
    ],
    ids=["a memory queue of two", "none, so all that waits"],
)
def test_at_most_a_memory_queue_of_messages_goes_before_a_requeued_one(
    memory: int, messages: int, order: list[tuple[int, int]]
) -> None:
    reader = World(memory=memory).reader(messages, 1)
    found = []
    while message := reader.take():
        found += message
        offset, attempts = message[0]
        if offset == 0 and attempts < 3:
            reader.requeue(0)
        else:
            reader.finish(offset)
    assert found == order


def test_requeue_with_a_delay_waits(world: World) -> None:
    reader = world.reader(2, 1)
    channel = reader.channel
    reader.take()
    reader.requeue(0, 3 * SECOND)
    assert (channel.state.deferred_count, channel.requeue_count) == (1, 1)
    assert reader.offsets() == [1]
    reader.finish(1)
    world.wait(3 * SECOND - 1)
    assert reader.take() == []
    world.wait(1)
    assert reader.take() == [(0, 2)]
    assert channel.state.deferred_count == 0
    assert channel.timeout_count == 0


def test_requeue_of_what_one_does_not_hold(world: World) -> None:
    channel = world.channel()
    world.fill(2)
    owner, other = Reader(world, channel, 1), Reader(world, channel, 0)
    owner.take()
    with pytest.raises(NotInFlightError, match=NOT_OWNED):
        other.requeue(0)
    with pytest.raises(NotInFlightError, match=NOT_IN_FLIGHT):
        owner.requeue(1)
    owner.requeue(0)
    with pytest.raises(NotInFlightError, match=NOT_IN_FLIGHT):
        owner.requeue(0)
    assert channel.requeue_count == owner.consumer.requeue_count == 1
    assert other.consumer.requeue_count == 0


def test_attempts_wrap_as_the_16_bits_on_the_wire_do(world: World) -> None:
    channel = world.channel()
    world.fill(1)
    record = ChannelRecord("c", 1, 1, [(0, 1, 65534)], [], True, [], [])
    channel.restore(record, [])
    reader = Reader(world, channel, 1)
    assert reader.take() == [(0, 65535)]
    reader.requeue(0)
    assert reader.take() == [(0, 0)]


# --- damage --------------------------------------------------------------------------------------
def stored(world: World, count: int) -> str:
    """Publish and restart, so that reading means the file; its path."""
    world.fill(count)
    world.restart()
    return next(path for path in world.disk.paths(".log"))


def spoil(world: World, path: str, body: bytes) -> None:
    place = world.disk.content(path).index(body)
    world.disk.overwrite(path, b"##", place)


@pytest.mark.parametrize(
    ("bad", "skips", "left"),
    [
        pytest.param([2, 3], [], [0, 1, 4, 5], id="a gap"),
        pytest.param([5], [], [0, 1, 2, 3, 4], id="the end"),
        pytest.param([2], [(3, 5)], [0, 1, 5], id="up to what was skipped"),
    ],
)
def test_damage_is_stepped_over_and_counted(
    world: World,
    caplog: pytest.LogCaptureFixture,
    bad: list[int],
    skips: list[tuple[int, int]],
    left: list[int],
) -> None:
    world.channel()
    path = stored(world, 6)
    for offset in bad:
        spoil(world, path, b"m%d" % offset)
    channel = world.channel()
    for first, next_ in skips:
        channel.state.skips.add(first, next_)
    reader = Reader(world, channel, 10)
    with caplog.at_level(logging.CRITICAL):
        assert reader.offsets() == left
    assert (channel.state.lost_count, channel.state.depth) == (len(bad), 0)
    reader.finish(*left)
    assert channel.state.floor() == 6
    world.fill(1)
    assert reader.offsets() == [6]


def test_a_requeued_message_that_was_damaged_is_counted_too(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    reader = world.reader(3, 3)
    reader.take()
    world.restart()
    spoil(world, world.disk.paths(".log")[0], b"m1")
    channel = world.channel()
    reader = Reader(world, channel, 10)
    with caplog.at_level(logging.CRITICAL):
        assert reader.take() == [(0, 2), (2, 2)]
    state = channel.state
    assert (state.lost_count, state.depth, state.requeued.count) == (1, 0, 0)


def test_a_failed_read_loses_nothing_and_is_tried_again(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.channel()
    stored(world, 3)
    channel = world.channel()
    reader = Reader(world, channel, 10)
    world.disk.fail("read")
    assert reader.take() == []
    assert "CHANNEL(c): failed to read from the log - " in caplog.text
    assert (channel.state.depth, channel.state.lost_count) == (3, 0)
    world.wait(READ_RETRY_NS - 1)
    assert reader.rounds == []
    world.wait(1)
    assert [offset for messages in reader.rounds for offset, _ in messages] == [0, 1, 2]


def test_a_failed_read_of_requeued_messages_loses_nothing(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    reader = world.reader(3, 3)
    reader.take()
    world.restart()
    channel = world.channel()
    reader = Reader(world, channel, 10)
    world.disk.fail("read")
    with caplog.at_level(logging.CRITICAL):
        assert reader.take() == []
    assert channel.state.depth == 3
    world.wait(READ_RETRY_NS)
    assert reader.take() == [(0, 2), (1, 2), (2, 2)]


def test_a_failed_read_in_the_middle_delivers_nothing_twice(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World(memory=0, file_bytes=300)
    reader = world.reader(6, 6)
    reader.take()
    world.restart()
    channel = world.channel()
    reader = Reader(world, channel, 10)
    world.disk.fail("read", nth=2, times=-1)
    with caplog.at_level(logging.CRITICAL):
        before = reader.take()
    assert 0 < len(before) < 6
    assert channel.state.depth == 6 - len(before)
    world.disk.heal()
    world.wait(READ_RETRY_NS)
    assert before + reader.take() == [(offset, 2) for offset in range(6)]


# --- emptying ------------------------------------------------------------------------------------
def test_empty_forgets_all(world: World) -> None:
    channel = world.channel()
    world.fill(6)
    world.publish(b"late", delay=SECOND)
    reader, gone = Reader(world, channel, 2), Reader(world, channel, 0)
    reader.take()
    gone.ready(1)
    gone.take()
    gone.leave()
    reader.requeue(0)
    channel.empty()
    state = channel.state
    assert (state.depth, state.in_flight_count, state.deferred_count) == (0, 0, 0)
    assert channel.state.floor() == 7
    assert reader.finish(1) == [1]
    assert channel.why_not(1) == "ID not in flight"
    world.wait(10 * TIMEOUT)
    assert reader.take() == []
    assert channel.timeout_count == 0
    world.fill(1)
    assert reader.take() == first_tries(7)


# --- near ones first -----------------------------------------------------------------------------
def test_the_nearest_with_room_come_first(world: World) -> None:
    channel = world.channel()
    readers = {}
    for locality in (Locality.ANYWHERE, Locality.REGION, Locality.ZONE):
        reader = readers[locality] = Reader(world, channel, 0)
        channel.remove_consumer(reader.consumer)
        reader.consumer.locality = locality
        channel.add_consumer(reader.consumer)
        reader.ready(2)
    world.fill(5)
    assert readers[Locality.ZONE].offsets() == [0, 1]
    assert readers[Locality.REGION].offsets() == [2, 3]
    assert readers[Locality.ANYWHERE].offsets() == [4]
    assert channel.delivered_counts == [2, 2, 1]
    assert channel.delivered_count == 5
    readers[Locality.ZONE].leave()
    readers[Locality.REGION].finish(2, 3)
    world.fill(1)
    assert readers[Locality.REGION].offsets() == [5]
