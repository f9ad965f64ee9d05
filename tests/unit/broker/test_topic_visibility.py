"""A topic at the level ``fsync``: a message becomes visible when its sync has ended."""

from __future__ import annotations

import pytest

from penstock.broker.progress import TopicSettings
from penstock.broker.topic import Topic
from penstock.core.errors import StorageError
from penstock.core.units import SECOND
from penstock.nsq.protocol.bodies import Bodies
from penstock.storage.durability import Durability
from tests.unit.broker.conftest import Reader, World, ignore, log_of


@pytest.fixture
def world() -> World:
    world = World()
    world.log_options.durability = Durability.FSYNC
    return world


def begin_sync(topic: Topic) -> None:
    job = log_of(topic).begin_sync()
    assert job is not None
    job.run()


def sync(topic: Topic) -> None:
    begin_sync(topic)
    topic.end_sync(None)


def test_channels_get_a_message_when_its_sync_has_ended(world: World) -> None:
    topic, channel = world.topic, world.channel()
    reader = Reader(world, channel, 9)
    world.publish(b"a")
    begin_sync(topic)
    world.publish(b"b")
    assert (topic.depth, channel.state.depth, reader.take()) == (0, 0, [])
    topic.end_sync(None)
    assert reader.take() == [(0, 1)]
    sync(topic)
    assert reader.take() == [(1, 1)]


def test_a_failed_sync_shows_nothing(world: World) -> None:
    topic, channel = world.topic, world.channel()
    world.publish(b"a")
    begin_sync(topic)
    topic.end_sync(StorageError("broken"))
    assert (topic.depth, channel.state.depth) == (0, 0)
    topic.empty()
    assert topic.head == 0


def test_deferred_messages_are_deferred_from_their_arrival(world: World) -> None:
    topic, channel = world.topic, world.channel()
    reader = Reader(world, channel, 9)
    world.publish(b"late", delay=5 * SECOND)
    world.publish(b"now")
    assert channel.state.deferred_count == 0
    sync(topic)
    assert channel.state.deferred_count == 1
    assert reader.take() == [(1, 1)]
    reader.finish(1)
    world.wait(5 * SECOND)
    assert reader.take() == [(0, 1)]


class Told:
    """Records that are told their place in the queue."""

    dialect, note, stride, nbytes = 1, b"", 8, 8

    def __init__(self, count: int) -> None:
        self.count = count
        self.queue_offset = -1

    def encode(self, first_id: int, timestamp_ns: int) -> tuple[bytes, None]:
        return bytes(self.stride * self.count), None


def test_places_in_queues_count_what_waits_for_its_sync(world: World) -> None:
    topic = world.topic
    world.broker.split(topic, 3, 1)
    places = []
    for queue, count in [(0, 2), (1, 1), (0, 1), (1, 3), (2, 1)]:
        records = Told(count)
        topic.stage(records, 0, ignore, queue)
        assert topic.commit()[1] is None
        places.append(records.queue_offset)
    assert places == [0, 0, 2, 1, 0]
    assert [topic.queues.bounds(queue) for queue in range(3)] == [(0, 0)] * 3
    sync(topic)
    assert [topic.queues.bounds(queue)[1] for queue in range(3)] == [3, 4, 1]


@pytest.mark.parametrize("overflow", ["refuse", "drop-oldest"])
def test_bounds_count_what_waits_for_its_sync(world: World, overflow: str) -> None:
    topic, channel = world.topic, world.channel()
    topic.configure(TopicSettings(5, overflow=overflow))
    outcomes: list[StorageError | None] = []
    for _ in range(3):
        topic.stage(Bodies.from_list([b"x", b"y"]), 0, outcomes.append)
        for done in topic.commit()[0]:
            done(None)
    sync(topic)
    refused = sum(error is not None for error in outcomes)
    assert (refused, channel.state.depth) == ((1, 4) if overflow == "refuse" else (0, 5))


def test_a_split_while_messages_wait_for_their_sync(world: World) -> None:
    topic = world.topic
    world.publish(b"a")
    sync(topic)
    world.publish(b"b")
    world.broker.split(topic, 2, 1)
    topic.stage(Bodies.single(b"c"), 0, ignore, 1)
    assert topic.commit()[1] is None
    sync(topic)
    assert [list(topic.queues.locate(queue, 0, 9)) for queue in range(2)] == [[0, 1], [2]]


def test_a_clean_stop_loses_nothing_that_waits_for_its_sync(world: World) -> None:
    world.channel()
    world.publish(b"a")
    world.restart()
    assert Reader(world, world.channel(), 9).take() == [(0, 1)]
