"""Topics with bounds: how full they are, what they refuse, what they drop."""

from __future__ import annotations

import logging

import pytest

from penstock.broker.progress import TopicSettings
from penstock.broker.publish import limiter
from penstock.broker.publish.bounds import Bounds, Overflow
from penstock.broker.publish.fill import Fill, fill_of, fill_waiting
from penstock.broker.publish.limiter import DROPS_LOGGED_EVERY_NS
from penstock.broker.topic import Topic
from penstock.core.errors import StorageError
from penstock.core.units import HOUR
from penstock.nsq.protocol.bodies import Bodies
from tests.unit.broker.conftest import Reader, World


def test_no_bounds_are_false() -> None:
    assert not Bounds()
    assert not Bounds(overflow=Overflow.DROP_OLDEST)
    assert Bounds(max_depth=1)
    assert Bounds(max_bytes=1)


@pytest.mark.parametrize(
    ("bounds", "text"),
    [
        (Bounds(10), "topic is full (max-depth 10)"),
        (Bounds(0, 99), "topic is full (max-bytes 99)"),
        (Bounds(10, 99), "topic is full (max-depth 10, max-bytes 99)"),
    ],
)
def test_refusals_name_the_bound(bounds: Bounds, text: str) -> None:
    assert str(bounds.refusal()) == text


# --- How much topics and channels hold -----------------------------------------------------------


def test_the_fullest_channel_counts_until_it_has_finished(world: World) -> None:
    channel = world.channel()
    world.fill(4)
    assert fill_of(world.topic).messages == 4
    assert fill_waiting(world.topic).messages == 0
    assert fill_of(world.topic).nbytes == world.topic.log.nbytes
    reader = Reader(world, channel, 3)
    assert len(reader.take()) == 3
    assert fill_of(world.topic).messages == 4, "in flight is not finished"
    reader.finish(0, 1)
    assert fill_of(world.topic).messages == 2
    assert 0 < fill_of(world.topic).nbytes < world.topic.log.nbytes


@pytest.mark.parametrize(
    ("fill", "bounds", "surplus"),
    [
        (Fill(10, 1000), Bounds(10), 0),
        (Fill(12, 1000), Bounds(10), 2),
        (Fill(10, 1000), Bounds(0, 1000), 0),
        (Fill(10, 1000), Bounds(0, 901), 1),
        (Fill(10, 1000), Bounds(9, 500), 5),
        (Fill(10, 1000), Bounds(3, 900), 7),
        (Fill(0, 0), Bounds(1, 1), 0),
    ],
)
def test_surplus(fill: Fill, bounds: Bounds, surplus: int) -> None:
    assert fill.surplus(bounds) == surplus


# --- Topics with bounds, through their limiter ---------------------------------------------------


def offer(topic: Topic, *sizes: int, delay: int = 0) -> list[str | None]:
    """Publishes of so many messages in one commit; None or the error of each."""
    outcomes: list[StorageError | None] = []
    for size in sizes:
        topic.stage(Bodies.from_list([b"x" * 10] * size), delay, outcomes.append)
    told, error = topic.commit()
    assert error is None
    for done in told:
        done(None)
    return [None if outcome is None else str(outcome) for outcome in outcomes]


FULL = "topic is full (max-depth 5)"


def test_a_full_topic_refuses_what_does_not_fit_and_takes_what_does(world: World) -> None:
    topic = world.topic
    topic.configure(TopicSettings(5))
    assert offer(topic, 3, 4, 1) == [None, FULL, None]
    assert (topic.depth, topic.message_count, topic.message_bytes) == (4, 4, 40)
    assert offer(topic, 1, 1) == [None, FULL]


def test_the_fullest_channel_counts_with_what_it_has_in_flight_and_deferred(world: World) -> None:
    topic = world.topic
    topic.configure(TopicSettings(5))
    slow, quick = world.channel("slow"), world.channel("quick")
    assert offer(topic, 2) == [None]
    assert offer(topic, 1, delay=HOUR) == [None]
    reader = Reader(world, quick, 9)
    reader.finish(*reader.offsets())
    flying = Reader(world, slow, 1)
    assert flying.offsets() == [0]
    assert offer(topic, 3) == [FULL]
    assert offer(topic, 2) == [None]
    assert offer(topic, 1) == [FULL]
    flying.finish(0)
    assert offer(topic, 1) == [None], "there is room again at once"
    assert offer(topic, 1) == [FULL]
    reader.finish(*reader.offsets())
    topic.delete_channel("slow")
    assert offer(topic, 4, 1) == [None, FULL]


def test_bytes_are_those_of_the_log(world: World) -> None:
    topic = world.topic
    topic.configure(TopicSettings(max_bytes=1000))
    assert offer(topic, 10) == [None]
    assert topic.log.nbytes == 64 + 10 * 44
    assert offer(topic, 10, 60) == [None, "topic is full (max-bytes 1000)"]
    assert offer(topic, 10) == ["topic is full (max-bytes 1000)"]
    reader = Reader(world, world.channel(), 5)
    reader.finish(*reader.offsets())
    assert offer(topic, 10) == [None]


def test_looking_is_rare(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = world.topic
    topic.configure(TopicSettings(1000))
    looks = []
    monkeypatch.setattr(limiter, "fill_of", lambda topic: looks.append(1) or fill_of(topic))
    for _ in range(100):
        assert offer(topic, 1) == [None]
    assert len(looks) == 1
    offer(topic, *[1000] * 50)
    assert len(looks) == 2, "once for all that one commit refuses"


def test_the_oldest_are_dropped_but_not_what_is_in_flight(world: World) -> None:
    topic = world.topic
    topic.configure(TopicSettings(5, None, "drop-oldest"))
    channel = world.channel()
    offer(topic, 3)
    reader = Reader(world, channel, 1)
    assert reader.offsets() == [0]
    assert offer(topic, 4) == [None]
    state = channel.state
    assert (state.depth, state.in_flight_count, state.dropped_count) == (4, 1, 2)
    reader.ready(9)
    assert reader.offsets() == [3, 4, 5, 6]
    assert topic.dropped_count == 2
    assert offer(topic, 3) == [None]
    assert channel.state.unfinished_count == 5, "nothing but what is in flight is left"


def test_requeued_ones_are_the_oldest_and_deferred_ones_go_last(world: World) -> None:
    topic = world.topic
    channel = world.channel()
    reader = Reader(world, channel, 1)
    offer(topic, 2)
    offer(topic, 2, delay=HOUR)
    assert reader.offsets() == [0]
    reader.ready(0)
    reader.requeue(0)
    topic.configure(TopicSettings(4, None, "drop-oldest"))
    offer(topic, 2)
    state = channel.state
    assert (state.requeued.count, state.depth, state.deferred_count) == (0, 2, 2)
    topic.configure(TopicSettings(1, None, "drop-oldest"))
    offer(topic, 1, delay=HOUR)
    assert (channel.state.depth, channel.state.deferred_count) == (0, 1)


def test_a_topic_without_channels_drops_its_own_oldest(world: World) -> None:
    topic = world.topic
    topic.configure(TopicSettings(3, None, "drop-oldest"))
    offer(topic, 2, 2, 1)
    assert (topic.depth, topic.head) == (3, 2)
    assert Reader(world, world.channel(), 9).offsets() == [2, 3, 4]


def test_a_paused_topic_drops_too(world: World) -> None:
    topic = world.topic
    channel = world.channel()
    offer(topic, 2)
    topic.pause()
    topic.configure(TopicSettings(3, None, "drop-oldest"))
    offer(topic, 4)
    assert (channel.state.depth, topic.depth) == (0, 3)
    topic.unpause()
    assert Reader(world, channel, 9).offsets() == [3, 4, 5]


def test_what_was_dropped_frees_the_log(world: World) -> None:
    world = World(file_bytes=500)
    topic = world.topic
    world.channel()
    topic.configure(TopicSettings(3, None, "drop-oldest"))
    for _ in range(100):
        offer(topic, 1)
    world.broker.trim()
    assert topic.log.nbytes < 2000


def test_drops_are_logged_once_in_a_while(world: World, caplog: pytest.LogCaptureFixture) -> None:
    topic = world.topic
    topic.configure(TopicSettings(1, None, "drop-oldest"))
    with caplog.at_level(logging.WARNING):
        offer(topic, 3)
        offer(topic, 3)
        offer(topic, 3)
        world.clock.advance(DROPS_LOGGED_EVERY_NS)
        offer(topic, 3)
    assert [record.getMessage() for record in caplog.records] == [
        "TOPIC(t): full: dropped 2 messages, the oldest first",
        "TOPIC(t): full: dropped 9 messages, the oldest first",
    ]


def test_settings_survive_restarts_and_can_be_taken_back(world: World) -> None:
    world.topic.configure(TopicSettings(5, 0, "drop-oldest"))
    world.kill()
    assert world.topic.config.own == TopicSettings(5, 0, "drop-oldest")
    assert world.topic.config.bounds.max_depth == 5
    world.topic.configure(TopicSettings())
    world.kill()
    assert not world.topic.config.bounds
    assert offer(world.topic, 50) == [None]


def test_an_ephemeral_topic_may_have_bounds(world: World) -> None:
    topic = world.broker.topic("t#ephemeral")
    topic.configure(TopicSettings(2, None, "refuse"))
    world.channel(topic=topic)
    assert offer(topic, 1, 2, 1) == [None, "topic is full (max-depth 2)", None]


def test_a_channel_that_is_set_back_makes_its_topic_full(world: World) -> None:
    topic, channel = world.topic, world.channel()
    topic.configure(TopicSettings(5))
    reader = Reader(world, channel, 9)
    for count in (3, 2, 1):
        assert offer(topic, count) == [None]
        if count > 1:
            reader.finish(*reader.offsets())
    topic.seek(channel, 0)
    assert offer(topic, 1) == [FULL]
