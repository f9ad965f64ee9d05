"""The progress of a topic on disk: written, restored, damaged; what is seen at fsync."""

from __future__ import annotations

from typing import Literal

import pytest

from penstock.broker.progress import TopicSettings
from penstock.broker.topic import Topic
from penstock.core.errors import DiskFullError, StorageError
from penstock.core.units import SECOND
from penstock.nsq.protocol.bodies import Bodies
from penstock.storage.durability import Durability
from penstock.storage.journal import COMPACT_BYTES_MIN
from penstock.storage.recovery.damage import Damage
from penstock.storage.retention import Retention
from tests.unit.broker.conftest import Reader, World, ignore, log_of

JOURNAL = "/data/topics/t@0/cursors.journal"
MARK_BYTES = 48
"""The size of a mark, which states that all records before it are synced."""


# --- keeping progress ----------------------------------------------------------------------------
def test_progress_survives_a_restart(world: World) -> None:
    reader = world.reader(6, 4)
    channel = reader.channel
    reader.take()
    reader.finish(0, 2)
    reader.requeue(3)
    world.restart()
    channel = world.channel()
    assert (channel.state.depth, channel.state.in_flight_count, channel.message_count) == (4, 0, 0)
    assert sorted(Reader(world, channel, 9).take()) == [(1, 2), (3, 2), (4, 1), (5, 1)]


def test_what_was_not_saved_comes_again_after_a_kill(world: World) -> None:
    reader = world.reader(3, 3)
    reader.take()
    reader.finish(0)
    world.broker.save()
    reader.finish(1)
    world.kill()
    assert Reader(world, world.channel(), 9).take() == [(1, 2), (2, 2)]


def test_messages_published_after_the_last_save_are_distributed_at_the_start(world: World) -> None:
    world.channel("a")
    world.channel("b")
    world.broker.save()
    world.fill(3)
    world.kill()
    assert world.topic.depth == 0
    assert [world.channel(name).state.depth for name in "ab"] == [3, 3]


def test_an_idle_channel_of_a_paused_topic_has_what_it_was_given(world: World) -> None:
    """Its own record is older than the topic's."""
    world.channel()
    world.broker.save()
    world.fill(3)
    world.topic.pause()
    world.fill(1)
    world.kill()
    assert (world.channel().state.depth, world.topic.depth) == (3, 1)


def test_changed_tells_whether_there_is_something_to_save(world: World) -> None:
    topic, channel = world.topic, world.channel()
    topic.journal.save()
    assert not topic.changed
    world.fill(2)
    assert topic.changed
    topic.journal.save()
    assert not topic.changed
    reader = Reader(world, channel, 1)
    reader.take()
    assert topic.changed
    topic.journal.save()
    topic.commit_group("g", 1)
    assert topic.changed
    topic.journal.save()
    topic.delete_group("g")
    assert topic.changed


def test_an_ephemeral_channel_is_not_written_down(world: World) -> None:
    topic, channel = world.topic, world.channel("c#ephemeral")
    world.fill(2)
    topic.journal.save()
    reader = Reader(world, channel, 1)
    reader.finish(*reader.offsets())
    assert channel.state.changed
    assert not topic.changed


def test_a_save_writes_only_the_channels_that_changed(world: World) -> None:
    topic = world.topic
    busy, _idle = world.channel("busy"), world.channel("idle")
    world.fill(2)
    topic.journal.save()
    before = len(world.disk.content(JOURNAL))
    reader = Reader(world, busy, 1)
    reader.take()
    topic.journal.save()
    added = world.disk.content(JOURNAL)[before:]
    assert b"busy" in added
    assert b"idle" not in added


def test_a_save_that_failed_is_made_good_by_the_next(world: World) -> None:
    topic, channel = world.topic, world.channel()
    world.fill(4)
    world.publish(b"late", delay=SECOND)
    topic.commit_group("gone", None)
    topic.journal.save()
    reader = Reader(world, channel, 4)
    reader.take()
    reader.finish(0, 1)
    world.publish(b"later", delay=SECOND)
    topic.commit_group("g", 2)
    topic.delete_group("gone")
    world.disk.fail("append", within="journal")
    with pytest.raises(StorageError):
        topic.journal.save()
    assert topic.changed
    topic.journal.save()
    assert not topic.changed
    world.kill()
    channel = world.channel()
    assert world.topic.groups == {"g": 2}
    assert channel.state.deferred_count == 2
    assert Reader(world, channel, 9).take() == [(2, 2), (3, 2)]


def test_saves_that_fail_again_and_again(world: World) -> None:
    topic, channel = world.topic, world.channel()
    world.fill(2)
    reader = Reader(world, channel, 2)
    reader.finish(*reader.offsets())
    world.disk.fill()
    for _ in range(3):
        with pytest.raises(DiskFullError):
            topic.journal.save()
    world.disk.heal()
    topic.journal.save()
    world.kill()
    assert world.channel().state.depth == 0


def test_a_deletion_that_could_not_be_written_is_written_later(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.channel("a")
    world.channel("b")
    world.disk.fill()
    world.topic.delete_channel("a")
    assert "TOPIC(t): failed to write down progress - " in caplog.text
    world.disk.heal()
    assert world.topic.changed
    world.broker.save()
    world.kill()
    assert set(world.topic.channels) == {"b"}


def test_a_journal_whose_sync_failed_is_written_anew(world: World) -> None:
    topic = world.topic
    world.channel()
    world.fill(2)
    topic.journal.save()
    world.disk.fail("sync", within="journal")
    with pytest.raises(StorageError):
        topic.journal.sync()
    assert topic.changed
    topic.journal.save()
    assert world.disk.synced(JOURNAL) == len(world.disk.content(JOURNAL)) > 0
    world.publish(b"after")
    topic.journal.save()
    topic.journal.sync()
    assert world.disk.synced(JOURNAL) == len(world.disk.content(JOURNAL)) - MARK_BYTES


def test_the_journal_is_compacted(world: World) -> None:
    topic = world.topic
    channels = [world.channel(f"channel-{number:03}" + "x" * 40) for number in range(100)]
    topic.commit_group("g", None)
    world.publish(b"late", delay=SECOND)
    sizes: list[int] = []
    while len(sizes) < 2 or sizes[-1] >= sizes[-2]:
        world.fill(1)
        for channel in channels:
            channel.state.changed = True
        topic.journal.save()
        sizes.append(len(world.disk.content(JOURNAL)))
        assert sizes[-1] < 2 * COMPACT_BYTES_MIN
    assert sizes[-2] > COMPACT_BYTES_MIN
    world.kill()
    assert len(world.topic.channels) == 100
    assert {channel.state.deferred_count for channel in world.topic.channels.values()} == {1}
    assert {channel.state.depth for channel in world.topic.channels.values()} == {len(sizes)}
    assert world.topic.groups == {"g": 0}


def test_offsets_a_channel_has_seen_are_not_given_out_again(world: World) -> None:
    """A power cut took messages that the journal, synced since, knows."""
    channel = world.channel()
    world.fill(1)
    log_of(world.topic).sync()
    world.fill(2)
    reader = Reader(world, channel, 9)
    reader.finish(*reader.offsets())
    world.topic.journal.save()
    world.topic.journal.sync()
    (path,) = world.disk.paths(".log")
    kept = world.disk.synced(path)
    world.disk.crash("written")
    world.disk.cut(path, kept)
    world.open()
    reader = world.reader(1, 9)
    assert reader.take() == [(3, 1)]
    assert reader.bodies == {3: b"m0"}


# --- the end -------------------------------------------------------------------------------------
def test_close_saves_and_syncs(world: World) -> None:
    topic, channel = world.topic, world.channel()
    world.fill(2)
    reader = Reader(world, channel, 1)
    reader.finish(*reader.offsets())
    topic.close()
    assert topic.exiting
    (path,) = world.disk.paths(".log")
    assert world.disk.synced(path) == len(world.disk.content(path)) > 0
    assert world.disk.synced(JOURNAL) == len(world.disk.content(JOURNAL)) - MARK_BYTES > 0


def test_close_closes_the_files_even_when_it_cannot_save(world: World) -> None:
    world.channel()
    world.fill(1)
    topic = world.topic
    world.disk.fill()
    with pytest.raises(DiskFullError):
        topic.close()
    with pytest.raises(StorageError, match="Bad file descriptor"):
        log_of(topic).segments[-1].file.append(b"")


def test_delete_removes_the_files_and_what_the_channels_held(world: World) -> None:
    topic, channel = world.topic, world.channel()
    world.fill(3)
    reader = Reader(world, channel, 2)
    reader.take()
    topic.delete()
    assert topic.exiting
    assert world.disk.paths() == []
    assert (channel.state.depth, channel.state.in_flight_count) == (0, 0)
    assert world.disk.list("/data/topics") == []


def test_with_one_segment_there_is_nothing_to_trim(world: World) -> None:
    world.fill(3)
    assert not world.topic.log.trimmable
    assert world.topic.trim(Retention()) == 0
    ephemeral = world.broker.topic("e#ephemeral")
    assert not ephemeral.log.trimmable
    world.publish(b"x", topic=ephemeral)
    ephemeral.empty()
    assert ephemeral.log.trimmable
    assert ephemeral.trim(Retention()) == 1


# --- damage --------------------------------------------------------------------------------------
def spoil(world: World) -> None:
    world.topic.damage.report(Damage("cursors.journal", "damaged", 1, 2))


def test_a_channel_that_only_a_list_knows_begins_at_the_start(world: World) -> None:
    world.channel("known")
    world.fill(3)
    channel = world.topic.listed_channel("lost")
    assert (channel.state.cursor, channel.state.depth) == (0, 3)
    assert "channel lost is not in the journal" in str(world.topic.damage.pending[0])
    world.kill()
    assert world.topic.channels["lost"].state.depth == 3


@pytest.mark.parametrize("name", ["known", "deleted", "gone#ephemeral"])
def test_one_that_the_journal_knows_of_begins_where_it_does_always(world: World, name: str) -> None:
    world.channel("known")
    world.channel("deleted")
    world.fill(3)
    world.topic.delete_channel("deleted")
    world.restart()
    channel = world.topic.listed_channel(name)
    assert channel.state.depth == (3 if name == "known" else 0)
    assert world.topic.damage.pending == []


@pytest.mark.parametrize("action", ["append", "sync"])
def test_one_that_was_deleted_while_the_disk_failed_is_not_lost(
    world: World, action: Literal["append", "sync"]
) -> None:
    """The list, which could not be written either, still has it."""
    world.channel("deleted")
    world.channel("known")
    world.fill(3)
    world.topic.journal.save()
    world.disk.fail(action, within=JOURNAL)
    world.topic.delete_channel("deleted")
    world.broker.save()
    world.kill()
    assert world.topic.listed_channel("deleted").state.depth == 0
    assert world.topic.damage.pending == []


def test_a_topic_that_has_given_nothing_out_has_lost_no_channel(world: World) -> None:
    world.fill(3)
    channel = world.topic.listed_channel("first")
    world.topic.distribute()
    assert channel.state.depth == 3
    assert world.topic.damage.pending == []


def test_a_full_topic_drops_nothing_while_there_is_damage() -> None:
    world = World()
    world.channel()
    world.topic.configure(TopicSettings(max_depth=5, overflow="drop-oldest"))
    spoil(world)
    world.fill(20)
    assert (world.topic.channels["c"].state.depth, world.topic.dropped_count) == (20, 0)
    assert world.topic.accept_damage()
    world.fill(1)
    assert world.topic.channels["c"].state.depth == 5


def test_emptying_leaves_a_channel_what_it_has_beyond_a_lost_record_of_its_topic(
    world: World,
) -> None:
    reader = world.reader(6, 1)
    reader.finish(*reader.offsets())
    world.topic.paused, world.topic.head = True, 3  # as an older record says
    world.topic.journal.save()
    world.kill()
    topic, channel = world.topic, world.topic.channels["c"]
    assert (topic.head, channel.state.head) == (3, 6)
    topic.skip_to(5)
    assert (topic.head, channel.state.depth) == (5, 5)
    topic.empty()
    assert topic.depth == 0
    assert Reader(world, channel, 9).offsets() == [1, 2, 3, 4, 5]


def test_what_a_damaged_record_had_deferred_is_delivered_again(world: World) -> None:
    reader = world.reader(3, 9)
    reader.take()
    before = len(world.disk.content(JOURNAL))
    reader.requeue(1, 1000 * SECOND)
    reader.finish(0, 2)
    world.broker.save()
    after = len(world.disk.content(JOURNAL))
    world.fill(1)
    reader.finish(*reader.offsets())
    world.broker.save()
    world.disk.crash("written")
    world.disk.overwrite(JOURNAL, bytes(after - before), before)
    world.open()
    assert 1 in Reader(world, world.topic.channels["c"], 9).offsets()


def test_the_broker_is_not_healthy_until_damage_is_accepted(world: World) -> None:
    spoil(world)
    assert str(world.broker.health) == (
        "topic t is damaged: cursors.journal at bytes 1 to 3: damaged; nothing of it is deleted "
        "until POST /topic/damage/accept?topic=t"
    )
    world.topic.damage.report(Damage("cursors.journal", "damaged", 9, 2))
    assert "damaged (and 1 more); nothing" in str(world.broker.health)
    world.kill()
    assert world.broker.health is not None
    world.disk.fill()
    assert not world.topic.accept_damage()
    world.disk.heal()
    assert world.topic.accept_damage()
    assert world.broker.health is None
    assert world.topic.accept_damage()


def test_emptying_accepts_damage(world: World) -> None:
    spoil(world)
    world.topic.empty()
    assert world.broker.health is None


def test_what_is_synced_later_is_written_down(world: World) -> None:
    """Otherwise damage to the synced end would look like a torn tail."""
    world.fill(2)
    world.topic.journal.save()
    assert not world.topic.changed
    log_of(world.topic).sync()
    assert world.topic.changed
    world.topic.journal.save()
    (path,) = world.disk.paths(".log")
    world.disk.crash("written")
    world.disk.overwrite(path, bytes(len(world.disk.content(path))))
    world.open()
    assert world.topic.damage.lost_messages == 2
    assert [(each.first, each.next) for each in world.topic.damage.pending] == [(0, 2)]
    assert world.topic.log.next_offset == 2


def test_what_was_not_synced_is_counted_and_no_damage(world: World) -> None:
    world.fill(2)
    world.topic.journal.save()
    (path,) = world.disk.paths(".log")
    world.disk.crash("written")
    world.disk.cut(path, 0)
    world.open()
    assert (world.topic.damage.lost_messages, world.topic.damage.pending) == (2, [])
    assert world.topic.log.next_offset == 2


# --- A topic at the level ``fsync``: a message becomes visible when its sync has ended -----------


@pytest.fixture
def fsync_world() -> World:
    fsync_world = World()
    fsync_world.log_options.durability = Durability.FSYNC
    return fsync_world


def begin_sync(topic: Topic) -> None:
    job = log_of(topic).begin_sync()
    assert job is not None
    job.run()


def sync(topic: Topic) -> None:
    begin_sync(topic)
    topic.end_sync(None)


def test_channels_get_a_message_when_its_sync_has_ended(fsync_world: World) -> None:
    topic, channel = fsync_world.topic, fsync_world.channel()
    reader = Reader(fsync_world, channel, 9)
    fsync_world.publish(b"a")
    begin_sync(topic)
    fsync_world.publish(b"b")
    assert (topic.depth, channel.state.depth, reader.take()) == (0, 0, [])
    topic.end_sync(None)
    assert reader.take() == [(0, 1)]
    sync(topic)
    assert reader.take() == [(1, 1)]


def test_a_failed_sync_shows_nothing(fsync_world: World) -> None:
    topic, channel = fsync_world.topic, fsync_world.channel()
    fsync_world.publish(b"a")
    begin_sync(topic)
    topic.end_sync(StorageError("broken"))
    assert (topic.depth, channel.state.depth) == (0, 0)
    topic.empty()
    assert topic.head == 0


def test_deferred_messages_are_deferred_from_their_arrival(fsync_world: World) -> None:
    topic, channel = fsync_world.topic, fsync_world.channel()
    reader = Reader(fsync_world, channel, 9)
    fsync_world.publish(b"late", delay=5 * SECOND)
    fsync_world.publish(b"now")
    assert channel.state.deferred_count == 0
    sync(topic)
    assert channel.state.deferred_count == 1
    assert reader.take() == [(1, 1)]
    reader.finish(1)
    fsync_world.wait(5 * SECOND)
    assert reader.take() == [(0, 1)]


class Told:
    """Records that are told their place in the queue."""

    dialect, note, stride, nbytes = 1, b"", 8, 8

    def __init__(self, count: int) -> None:
        self.count = count
        self.queue_offset = -1

    def encode(self, first_id: int, timestamp_ns: int) -> tuple[bytes, None]:
        return bytes(self.stride * self.count), None


def test_places_in_queues_count_what_waits_for_its_sync(fsync_world: World) -> None:
    topic = fsync_world.topic
    fsync_world.broker.split(topic, 3, 1)
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
def test_bounds_count_what_waits_for_its_sync(fsync_world: World, overflow: str) -> None:
    topic, channel = fsync_world.topic, fsync_world.channel()
    topic.configure(TopicSettings(5, overflow=overflow))
    outcomes: list[StorageError | None] = []
    for _ in range(3):
        topic.stage(Bodies.from_list([b"x", b"y"]), 0, outcomes.append)
        for done in topic.commit()[0]:
            done(None)
    sync(topic)
    refused = sum(error is not None for error in outcomes)
    assert (refused, channel.state.depth) == ((1, 4) if overflow == "refuse" else (0, 5))


def test_a_split_while_messages_wait_for_their_sync(fsync_world: World) -> None:
    topic = fsync_world.topic
    fsync_world.publish(b"a")
    sync(topic)
    fsync_world.publish(b"b")
    fsync_world.broker.split(topic, 2, 1)
    topic.stage(Bodies.single(b"c"), 0, ignore, 1)
    assert topic.commit()[1] is None
    sync(topic)
    assert [list(topic.queues.locate(queue, 0, 9)) for queue in range(2)] == [[0, 1], [2]]


def test_a_clean_stop_loses_nothing_that_waits_for_its_sync(fsync_world: World) -> None:
    fsync_world.channel()
    fsync_world.publish(b"a")
    fsync_world.restart()
    assert Reader(fsync_world, fsync_world.channel(), 9).take() == [(0, 1)]
