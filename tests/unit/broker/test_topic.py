"""A topic: publishes, channels, pause and empty, ephemeral ones, queues, groups, retention."""

from __future__ import annotations

import pytest

from penstock.broker.progress import ChannelSettings, TopicSettings
from penstock.broker.topic import Topic
from penstock.core.errors import DiskFullError, ReadOnlyError, StorageError
from penstock.core.units import SECOND
from penstock.storage.recovery.damage import Damage
from penstock.storage.retention import Retention
from tests.unit.broker.conftest import BODY_AT, Reader, World, log_of, stage

# --- publishing ----------------------------------------------------------------------------------


def test_a_commit_writes_all_that_was_staged_at_once(world: World) -> None:
    topic = world.topic
    told: list[list[StorageError | None]] = [[], [], []]
    for outcome in told:
        stage(topic, b"x", done=outcome.append)
    assert log_of(topic).next_offset == 0
    done, error = topic.commit()
    assert (error, told) == (None, [[], [], []])  # telling is the caller's
    for number, tell in enumerate(done):
        tell(StorageError(str(number)))
    assert [str(errors[0]) for errors in told] == ["0", "1", "2"]
    batches, _ = log_of(topic).batches_at(0)
    assert [batch.count for batch in batches] == [3]
    assert topic.commit() == ([], None)


def test_counters(world: World) -> None:
    world.publish(b"abc", b"", b"de")
    world.publish(b"f")
    assert (world.topic.message_count, world.topic.message_bytes) == (4, 6)
    world.restart()
    assert (world.topic.message_count, world.topic.depth) == (0, 4)


def test_a_failed_commit_changes_nothing_and_everybody_is_told(world: World) -> None:
    topic = world.topic
    channel = world.channel()
    world.disk.fill()
    stage(topic, b"a")
    stage(topic, b"b")
    done, error = topic.commit()
    assert len(done) == 2
    assert isinstance(error, DiskFullError)
    assert (topic.message_count, topic.depth, channel.state.depth) == (0, 0, 0)
    world.disk.heal()
    world.publish(b"c")
    assert (topic.message_count, channel.state.depth) == (1, 1)
    reader = Reader(world, channel, 9)
    assert reader.take() == [(0, 1)]
    assert reader.bodies == {0: b"c"}


def test_a_topic_that_exits_takes_nothing(world: World) -> None:
    topic = world.topic
    topic.exiting = True
    stage(topic, b"a")
    _, error = topic.commit()
    assert str(error) == "exiting"
    assert topic.message_count == 0


def test_after_a_failed_sync_nothing_is_taken(world: World) -> None:
    world.publish(b"a")
    world.disk.fail("sync", within=".log")
    with pytest.raises(StorageError):
        log_of(world.topic).sync()
    assert isinstance(world.try_publish(b"b"), ReadOnlyError)


# --- channels ------------------------------------------------------------------------------------


def test_the_first_channel_gets_the_backlog_later_ones_what_comes_after(world: World) -> None:
    topic = world.topic
    world.fill(3)
    assert (topic.depth, topic.head) == (3, 0)
    first = world.channel("first")
    assert (topic.depth, first.state.depth, first.message_count) == (0, 3, 3)
    world.fill(2)
    second = world.channel("second")
    assert (first.state.depth, second.state.depth) == (5, 0)
    world.fill(1)
    assert Reader(world, first, 99).offsets() == [0, 1, 2, 3, 4, 5]
    assert Reader(world, second, 99).offsets() == [5]
    assert (first.message_count, second.message_count) == (6, 1)


def test_a_channel_is_made_once(world: World) -> None:
    assert world.topic.channel("c") is world.topic.channel("c")


def test_channels_made_together_share_the_backlog(world: World) -> None:
    topic = world.topic
    world.fill(2)
    channels = [topic.channel(name) for name in ("a", "b")]
    topic.distribute()
    assert [channel.state.depth for channel in channels] == [2, 2]


def test_a_gated_topic_waits_for_its_channels(world: World) -> None:
    topic = world.topic
    topic.gated = True
    early = world.channel("early")
    world.fill(2)
    assert (early.state.depth, topic.depth) == (0, 2)
    late = world.channel("late")
    topic.gated = False
    topic.distribute()
    assert (early.state.depth, late.state.depth, topic.depth) == (2, 2, 0)


def test_what_a_gated_topic_defers_comes_in_its_order(world: World) -> None:
    world.let_time_run()
    world.topic.gated = True
    for _ in range(3):
        world.publish(b"late", delay=SECOND)
    reader = Reader(world, world.channel(), 9)
    world.topic.gated = False
    world.topic.distribute()
    assert (reader.take(), world.topic.channels["c"].state.deferred_count) == ([], 3)
    world.wait(SECOND)
    assert reader.offsets() == [0, 1, 2]


def test_the_backlog_waits_again_when_the_last_channel_is_gone(world: World) -> None:
    topic = world.topic
    world.channel("a")
    world.fill(2)
    topic.delete_channel("a")
    world.fill(3)
    assert topic.depth == 3
    assert Reader(world, world.channel("b"), 9).offsets() == [2, 3, 4]


def test_a_deleted_channel_forgets_what_it_held(world: World) -> None:
    topic = world.topic
    reader = world.reader(3, 2)
    channel = reader.channel
    reader.take()
    assert topic.delete_channel("c") is channel
    assert topic.channels == {}
    assert (channel.state.depth, channel.state.in_flight_count) == (0, 0)
    assert reader.finish(0) == [0]
    assert topic.floor() == 3
    with pytest.raises(KeyError):
        topic.delete_channel("c")


def test_making_and_deleting_a_channel_survives_a_kill(world: World) -> None:
    world.channel("a")
    world.channel("b")
    world.channel("c#ephemeral")
    world.topic.delete_channel("a")
    world.kill()
    assert set(world.topic.channels) == {"b"}


def test_a_channel_made_again_starts_anew(world: World) -> None:
    world.channel()
    world.publish(b"late", delay=SECOND)
    world.fill(2)
    world.topic.delete_channel("c")
    world.channel()
    world.fill(1)
    world.restart()
    channel = world.channel()
    assert channel.state.deferred_count == 0
    assert Reader(world, channel, 9).offsets() == [3]


# --- pause and empty -----------------------------------------------------------------------------


def test_a_paused_topic_keeps_what_is_published(world: World) -> None:
    topic = world.topic
    channel = world.channel()
    world.fill(1)
    topic.pause()
    world.fill(2)
    assert (topic.depth, channel.state.depth) == (2, 1)
    assert Reader(world, channel, 9).offsets() == [0]
    topic.unpause()
    assert (topic.depth, channel.state.depth) == (0, 2)


def test_a_channel_made_while_the_topic_is_paused_gets_what_is_published_then(world: World) -> None:
    topic = world.topic
    topic.pause()
    world.fill(2)
    channel = world.channel()
    assert channel.state.depth == 0
    topic.unpause()
    assert Reader(world, channel, 9).offsets() == [0, 1]


def test_a_pause_survives_a_kill(world: World) -> None:
    world.channel()
    world.topic.pause()
    world.fill(2)
    world.kill()
    assert world.topic.paused
    assert (world.topic.depth, world.channel().state.depth) == (2, 0)
    world.topic.unpause()
    world.kill()
    assert not world.topic.paused
    assert (world.topic.depth, world.channel().state.depth) == (0, 2)


def test_empty_drops_what_no_channel_was_given(world: World) -> None:
    topic = world.topic
    channel = world.channel()
    world.fill(2)
    topic.pause()
    world.fill(3)
    topic.empty()
    topic.empty()
    assert (topic.depth, channel.state.depth) == (0, 2)
    topic.unpause()
    world.fill(1)
    assert Reader(world, channel, 9).offsets() == [0, 1, 5]
    assert channel.message_count == 3


def test_empty_without_a_channel(world: World) -> None:
    world.fill(3)
    world.topic.empty()
    assert (world.topic.depth, world.topic.floor()) == (0, 3)
    world.kill()
    world.fill(1)
    assert Reader(world, world.channel(), 9).offsets() == [3]


def test_empty_leaves_the_channels_what_they_have(world: World) -> None:
    channel = world.channel()
    world.fill(2)
    world.topic.empty()
    assert channel.state.depth == 2


def test_emptied_messages_stay_dropped_after_a_kill(world: World) -> None:
    world.channel()
    world.topic.pause()
    world.fill(3)
    world.topic.empty()
    world.topic.unpause()
    world.fill(1)
    world.kill()
    assert Reader(world, world.channel(), 9).offsets() == [3]


def test_backend_depth() -> None:
    world = World(memory=2)
    world.fill(1)
    assert world.topic.backend_depth == 0
    world.fill(4)
    assert (world.topic.depth, world.topic.backend_depth) == (5, 3)


# --- ephemeral topics ----------------------------------------------------------------------------


def test_an_ephemeral_topic_without_channels_drops_the_newest() -> None:
    world = World(memory=3)
    topic = world.broker.topic("e#ephemeral")
    world.fill(5, topic=topic)
    assert (topic.depth, topic.backend_depth, topic.message_count) == (3, 0, 5)
    channel = world.channel(topic=topic)
    reader = Reader(world, channel, 9)
    assert len(reader.take()) == 3
    assert list(reader.bodies.values()) == [b"m0", b"m1", b"m2"]


def test_a_publish_that_does_not_fit_whole_is_dropped_whole() -> None:
    world = World(memory=3)
    topic = world.broker.topic("e#ephemeral")
    stage(topic, b"a", b"b")
    stage(topic, b"c", b"d")
    stage(topic, b"e")
    assert topic.commit()[1] is None
    reader = Reader(world, world.channel(topic=topic), 9)
    reader.take()
    assert list(reader.bodies.values()) == [b"a", b"b", b"e"]


def test_channels_of_an_ephemeral_topic_are_bounded() -> None:
    world = World(memory=3)
    topic = world.broker.topic("e#ephemeral")
    slow, quick = world.channel("slow", topic), world.channel("quick", topic)
    reader = Reader(world, quick, 9)
    for _ in range(5):
        world.fill(1, topic=topic)
        quick.dispatch(world.now)
    assert (slow.state.depth, quick.state.depth) == (3, 0)
    assert reader.offsets() == [0, 1, 2, 3, 4]
    assert Reader(world, slow, 9).offsets() == [0, 1, 2]


def drop_oldest(topic: Topic) -> Topic:
    topic.configure(TopicSettings(overflow="drop-oldest"))
    return topic


def test_an_ephemeral_topic_that_is_to_drop_the_oldest_keeps_the_newest() -> None:
    world = World(memory=3)
    topic = drop_oldest(world.broker.topic("e#ephemeral"))
    world.fill(2, topic=topic)
    world.publish(*[b"x%d" % number for number in range(3)], topic=topic)
    world.publish(b"y", topic=topic)
    assert (topic.depth, topic.dropped_count, topic.message_count) == (3, 3, 6)
    reader = Reader(world, world.channel(topic=topic), 9)
    reader.take()
    assert list(reader.bodies.values()) == [b"x1", b"x2", b"y"]


def test_a_publish_of_more_than_it_holds_leaves_its_newest() -> None:
    world = World(memory=10)
    topic = drop_oldest(world.broker.topic("e#ephemeral"))
    world.publish(*[b"%d" % number for number in range(25)], topic=topic)
    reader = Reader(world, world.channel(topic=topic), 99)
    reader.take()
    assert list(reader.bodies.values()) == [b"%d" % number for number in range(15, 25)]


@pytest.mark.parametrize(("topic", "channel"), [("e#ephemeral", "c"), ("t", "c#ephemeral")])
@pytest.mark.parametrize("is_later", [False, True])
def test_an_ephemeral_channel_drops_the_oldest_of_such_a_topic(
    topic: str, channel: str, is_later: bool
) -> None:
    world = World(memory=3)
    of = world.broker.topic(topic)
    if is_later:
        made = world.channel(channel, of)
        drop_oldest(of)
    else:
        made = world.channel(channel, drop_oldest(of))
    reader = Reader(world, made, 1)
    world.fill(1, topic=of)
    made.dispatch(world.now)
    world.fill(5, topic=of)
    assert (made.state.depth, made.state.dropped_count) == (3, 2)
    reader.ready(9)
    assert reader.offsets() == [0, 3, 4, 5], "what is in flight is not dropped"


def test_an_ephemeral_topics_memory_lets_go_of_what_is_finished() -> None:
    world = World(memory=100)
    topic = world.broker.topic("e#ephemeral")
    channel = world.channel(topic=topic)
    reader = Reader(world, channel, 1000)
    world.fill(1, topic=topic)
    reader.take()  # never finished
    for _ in range(100):
        world.publish(*[bytes(100)] * 50, topic=topic)
        reader.finish(*reader.offsets())
    assert topic.log.nbytes < 3000 * 150
    assert channel.state.floor() == 0
    reader.requeue(0)
    assert reader.take() == [(0, 2)]
    assert reader.bodies[0] == b"m0"


def test_an_ephemeral_topic_writes_nothing(world: World) -> None:
    before = world.disk.paths()
    topic = world.broker.topic("e#ephemeral")
    world.channel("durable-in-name", topic)
    world.fill(2, topic=topic)
    topic.commit_group("g", None)
    topic.pause()
    world.broker.save()
    assert world.disk.paths() == before
    world.restart()
    assert world.broker.topics == {}


# --- queues --------------------------------------------------------------------------------------


def test_publishes_to_several_queues_share_a_batch_with_those_of_their_queue(world: World) -> None:
    topic = world.topic
    world.broker.split(topic, 3, 3)
    for number in range(6):
        stage(topic, b"%d" % number)
    assert topic.commit()[1] is None
    batches, _ = log_of(topic).batches_at(0)
    assert [(batch.queue, batch.count) for batch in batches] == [(0, 2), (1, 2), (2, 2)]
    bodies = [bytes(batch.slice(o, o + 1))[BODY_AT:] for batch in batches
              for o in range(batch.first_offset, batch.next_offset)]  # fmt: skip
    assert bodies == [b"0", b"3", b"1", b"4", b"2", b"5"]


def test_a_topic_that_is_split_again_keeps_its_queues(world: World) -> None:
    topic = world.topic
    world.broker.split(topic, 3, 3)
    queues = topic.queues
    for spread in (3, 2, 0):
        world.broker.split(topic, 3, spread)
        world.fill(2)
    assert topic.queues is queues, "two would write to the same files"
    assert [topic.queues.bounds(queue)[1] for queue in range(3)] == [4, 2, 0]


def test_a_topic_of_several_queues_is_deleted_without_an_error(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.broker.split(world.topic, 3, 3)
    world.fill(9)
    world.broker.delete_topic("t")
    assert (caplog.messages, [each for each in world.disk.paths() if "/t@0" in each]) == ([], [])


# --- attempts ------------------------------------------------------------------------------------


def test_a_topic_does_not_take_its_own_dead_letters(world: World) -> None:
    """Its messages are delivered until somebody finishes them, and not moved in a circle."""
    reader = Reader(world, world.channel(), 1)
    world.topic.configure_channel(ChannelSettings("c", 1, "t"))
    world.fill(1)
    for attempts in (1, 2, 3):
        assert reader.take() == [(0, attempts)]
        reader.requeue(0)
    assert reader.channel.take_spent(world.now) is None
    world.topic.configure_channel(ChannelSettings("c", 1, "elsewhere"))
    assert reader.take() == []
    assert reader.channel.take_spent(world.now) is not None


def test_settings_of_an_ephemeral_channel_are_not_written_down(world: World) -> None:
    world.channel("c#ephemeral")
    settings = ChannelSettings("c#ephemeral", 1, "dead")
    world.topic.configure_channel(settings)
    assert world.topic.config.channels == {"c#ephemeral": settings}
    world.kill()
    assert (world.topic.channels, world.topic.config.channels) == ({}, {})


# --- groups --------------------------------------------------------------------------------------


def test_groups_commit_and_are_forgotten(world: World) -> None:
    topic = world.topic
    world.fill(5)
    topic.commit_group("g", None)
    assert topic.groups == {"g": 0}
    topic.commit_group("g", 3)
    topic.commit_group("g", None)  # exists: stays where it is
    assert topic.groups == {"g": 3}
    topic.commit_group("g", 99)
    assert topic.groups == {"g": 5}
    world.restart()
    assert world.topic.groups == {"g": 5}
    world.topic.delete_group("g")
    with pytest.raises(KeyError):
        world.topic.delete_group("g")
    world.restart()
    assert world.topic.groups == {}


def test_the_age_of_a_group_counts_the_time_in_which_the_broker_runs(world: World) -> None:
    world.fill(5)
    world.topic.commit_group("behind", 3)
    world.topic.commit_group("ahead", 5)
    world.clock.advance(10 * SECOND)
    world.broker.close()
    world.clock.advance(10 * SECOND)
    world.clock.set_wall(0)
    world.open()
    ages = world.topic.group_ages
    assert [ages.age_ns(name) for name in ("behind", "ahead")] == [10 * SECOND] * 2
    world.broker.save()
    world.clock.advance(SECOND)
    world.topic.age_groups(keep=False)
    assert not world.topic.changed
    assert [ages.age_ns(name) for name in ("behind", "ahead")] == [11 * SECOND, 0]
    world.topic.commit_group("behind", 3)
    assert ages.age_ns("behind") == 0
    world.broker.save()
    world.topic.age_groups(keep=True)
    assert world.topic.changed


def test_a_new_group_starts_where_the_log_starts() -> None:
    world = World(file_bytes=300)
    world.channel()
    world.fill(9)
    world.topic.channels["c"].empty()
    world.topic.trim(Retention())
    start = log_of(world.topic).start_offset
    assert start > 0
    world.topic.commit_group("g", None)
    assert world.topic.groups == {"g": start}


def test_a_group_holds_back_retention() -> None:
    world = World(file_bytes=300)
    topic, channel = world.topic, world.channel()
    topic.commit_group("g", None)
    world.fill(20)
    channel.empty()
    assert topic.floor() == 0
    assert topic.trim(Retention()) == 0
    topic.commit_group("g", 10)
    assert topic.floor() == 10
    assert topic.trim(Retention()) > 0
    assert 0 < log_of(topic).start_offset <= 10
    topic.delete_group("g")
    assert topic.floor() == 20
    assert topic.trim(Retention()) > 0
    assert log_of(topic).start_offset > 10


# --- floor and trim ------------------------------------------------------------------------------


def test_floor_is_what_the_slowest_needs(world: World) -> None:
    topic = world.topic
    world.fill(2)
    assert topic.floor() == 0  # waits for a first channel
    quick, slow = world.channel("quick"), world.channel("slow")
    world.fill(4)
    reader, other = Reader(world, quick, 9), Reader(world, slow, 9)
    reader.finish(*reader.offsets())
    assert (quick.state.floor(), slow.state.floor(), topic.floor()) == (6, 2, 2)
    other.take()
    other.finish(2, 3, 4)
    assert topic.floor() == 5
    other.requeue(5, SECOND)
    assert topic.floor() == 5
    topic.delete_channel("slow")
    assert topic.floor() == 6


def test_trim_says_before_it_deletes_where_the_log_will_start() -> None:
    """Otherwise a kill in the middle would leave a log that seems to have lost its first files."""
    world = World(file_bytes=200)
    world.fill(6)
    world.restart()
    topic = world.topic
    topic.skip_to(6)
    assert topic.trim(Retention()) > 0
    start = topic.log.start_offset
    assert start > 0
    world.kill()
    assert world.topic.log.start_offset == start
    assert (world.topic.damage.pending, world.topic.damage.lost_messages) == ([], 0)


def test_trim_goes_on_when_the_journal_cannot_be_written() -> None:
    world = World(file_bytes=200)
    world.fill(6)
    topic = world.topic
    topic.skip_to(6)
    world.disk.fill()
    assert topic.trim(Retention()) > 0


def test_nothing_is_deleted_while_there_is_damage() -> None:
    """A channel may have passed messages only because damage took what it had deferred."""
    world = World(file_bytes=200)
    world.fill(6)
    topic = world.topic
    topic.skip_to(6)
    topic.damage.report(Damage("cursors.journal", "damaged", 1, 2))
    assert topic.trim(Retention()) == 0
    assert topic.accept_damage()
    assert topic.trim(Retention()) > 0


def test_trim_goes_on_when_the_index_of_queues_cannot_be_written(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World(file_bytes=200)
    topic = world.topic
    world.broker.split(topic, 2, 2)
    world.fill(6)
    topic.skip_to(6)
    world.disk.fail("sync", within="/queues/")
    assert topic.trim(Retention()) > 0
    assert "TOPIC(t): cannot write the index of queues" in caplog.text


def test_trim_keeps_what_retention_says() -> None:
    world = World(file_bytes=300)
    topic, channel = world.topic, world.channel()
    world.fill(20)
    channel.empty()
    assert topic.trim(Retention(time_ns=SECOND)) == 0
    assert topic.trim(Retention(nbytes=10**6)) == 0
    world.clock.advance(SECOND + 1)
    segments = len(log_of(topic).segments)
    assert topic.trim(Retention(time_ns=SECOND)) == segments - 1
    assert len(log_of(topic).segments) == 1


def test_with_a_retention_of_its_own_unread_messages_go_as_well() -> None:
    world = World(file_bytes=300)
    topic = world.topic
    topic.retention = Retention(time_ns=SECOND)
    world.fill(20)
    world.clock.advance(SECOND + 1)
    topic.commit_group("g", 2)
    assert (topic.floor(), topic.trim(Retention())) == (2, 0)
    topic.delete_group("g")
    assert topic.floor() == 20
    assert topic.trim(Retention()) > 0
    start = topic.log.start_offset
    assert topic.head == start > 0  # and a first channel misses nothing but what is gone
    channel = world.channel()
    assert (channel.state.cursor, channel.state.head) == (start, 20)
    world.fill(20)
    world.clock.advance(SECOND + 1)
    assert topic.trim(Retention()) == 0  # a channel waits for it
    channel.empty()
    assert topic.trim(Retention()) > 0
