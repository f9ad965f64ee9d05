from __future__ import annotations

import logging

import pytest

from penstock.broker.broker import Broker
from penstock.core.chance import SystemChance
from penstock.core.errors import DiskFullError, LockedError, StorageError
from penstock.core.units import SECOND
from penstock.storage.retention import Retention
from penstock.storage.store import Store
from penstock.testing.disk import Operation
from tests.unit.broker.conftest import TIMEOUT, Reader, World, log_of

FAILED_SAVE = "TOPIC(t): failed to write down progress - "


def test_topics_are_made_once_and_found_again(world: World) -> None:
    broker = world.broker
    assert broker.topic("a") is broker.topic("a")
    broker.topic("b")
    broker.topic("c#ephemeral")
    assert set(broker.topics) == {"a", "b", "c#ephemeral"}
    world.restart()
    assert set(world.broker.topics) == {"a", "b"}


def test_ids_carry_the_node_and_differ_between_topics(world: World) -> None:
    first = world.broker.topic("a").log.id_base
    world.clock.advance(SECOND)
    second = world.broker.topic("b").log.id_base
    assert first >> 53 == second >> 53 == world.options.node_id
    assert second - first == 10**6
    world.clock.advance(SECOND)
    world.restart()
    assert world.broker.topic("a").log.id_base == first


def test_ids_of_an_ephemeral_topic_made_again_are_new(world: World) -> None:
    first = world.broker.topic("a#ephemeral").log.id_base
    world.broker.delete_topic("a#ephemeral")
    assert world.broker.topic("a#ephemeral").log.id_base > first
    assert world.disk.paths() == []


def test_a_data_path_in_use_is_refused(world: World) -> None:
    with pytest.raises(LockedError):
        Store(world.disk, "/data", world.log_options)
    world.broker.close()
    Store(world.disk, "/data", world.log_options).close()


def test_a_torn_tail_is_reported(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.fill(2)
    (path,) = world.disk.paths(".log")
    size = len(world.disk.content(path))
    world.disk.crash("written")
    world.disk.cut(path, size - 3)
    world.open()
    assert "t@0/00000000000000000000.log: a torn tail of 97 bytes from byte " in caplog.text
    assert log_of(world.topic).next_offset == 1


def test_a_deleted_topic_is_gone_with_its_files(world: World) -> None:
    topic = world.topic
    world.channel()
    world.fill(2)
    assert world.broker.delete_topic("t") is topic
    assert world.broker.topics == {}
    assert world.disk.paths() == ["/data/ids.json"]
    with pytest.raises(KeyError):
        world.broker.delete_topic("t")
    world.restart()
    assert world.broker.topics == {}


def test_a_topic_made_again_does_not_repeat_ids(world: World) -> None:
    world.fill(3)
    used = log_of(world.topic).next_id
    world.broker.delete_topic("t")
    world.clock.advance(SECOND)
    world.fill(1)
    assert world.topic.depth == 1
    assert world.topic.log.id_base >= used


@pytest.mark.parametrize("set_back_ns", [0, SECOND, 10**6 * SECOND])
def test_a_topic_made_again_at_the_same_time_or_before_has_another_id_base(
    world: World, set_back_ns: int
) -> None:
    world.fill(3)
    used = log_of(world.topic).next_id
    world.broker.delete_topic("t")
    world.disk.crash(SystemChance())
    world.clock.set_wall(world.clock.wall_ns() - set_back_ns)
    world.open()
    assert world.topic.log.id_base > used


def test_a_deletion_that_a_crash_undoes_leaves_the_id_base(world: World) -> None:
    world.fill(3)
    base = world.topic.log.id_base
    world.disk.fail("rename")
    with pytest.raises(StorageError):
        world.broker.delete_topic("t")
    world.kill()
    assert world.topic.log.id_base == base


@pytest.mark.parametrize("operation", ["list", "rename", "sync_directory"])
def test_a_topic_that_cannot_be_deleted_goes_on(world: World, operation: Operation) -> None:
    channel = world.channel()
    world.fill(3)
    world.disk.fail(operation, within="/topics")
    with pytest.raises(StorageError):
        world.broker.delete_topic("t")
    world.fill(2)
    assert (world.topic.log.next_offset, channel.state.depth) == (5, 5)
    world.restart()
    assert (world.topic.log.next_offset, world.channel().state.depth) == (5, 5)
    world.broker.delete_topic("t")
    assert world.disk.paths() == ["/data/ids.json"]


def test_a_topic_whose_deletion_cannot_be_noted_is_deleted(world: World) -> None:
    world.fill(3)
    world.disk.fail("replace", within="ids.json")
    world.broker.delete_topic("t")
    assert world.broker.topics == {}
    assert world.topic.log.next_offset == 0


def test_tick_wakes_only_the_channels_whose_time_has_come(world: World) -> None:
    early, late = world.channel("early"), world.channel("late")
    world.fill(1)
    soon = Reader(world, early, 1, timeout=SECOND)
    later = Reader(world, late, 1, timeout=2 * SECOND)
    soon.take()
    later.take()
    assert world.broker.tick(world.now) == []
    assert world.broker.alarms.next_at() == world.now + SECOND
    world.clock.advance(SECOND)
    assert world.broker.tick(world.now) == [early]
    assert (early.timeout_count, late.timeout_count) == (1, 0)
    assert world.broker.tick(world.now) == []
    world.clock.advance(SECOND)
    assert world.broker.tick(world.now) == [late]
    assert world.broker.alarms.next_at() is None


def test_a_channel_sleeps_again_until_its_next_deadline(world: World) -> None:
    channel = world.channel()
    world.fill(2)
    reader = Reader(world, channel, 1)
    reader.take()
    world.clock.advance(SECOND)
    reader.ready(2)
    reader.take()
    reader.requeue(1, 20 * SECOND)
    reader.ready(0)
    world.clock.advance(TIMEOUT - SECOND)
    assert world.broker.tick(world.now) == [channel]
    assert world.broker.alarms.next_at() == world.now + 20 * SECOND - (TIMEOUT - SECOND)


def test_save_writes_only_topics_that_changed(world: World) -> None:
    world.broker.topic("idle")
    world.channel()
    world.broker.save()
    files = {path: world.disk.content(path) for path in world.disk.paths(".journal")}
    world.broker.save()
    assert {path: world.disk.content(path) for path in files} == files
    world.fill(1)
    world.broker.save()
    changed = [path for path, content in files.items() if world.disk.content(path) != content]
    assert changed == ["/data/topics/t@0/cursors.journal"]


def test_a_failing_save_is_logged_once_and_kept_until_it_is_over(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.channel()
    world.broker.save()
    world.fill(1)
    world.disk.fill()
    for _ in range(3):
        world.broker.save()
    assert caplog.text.count(FAILED_SAVE) == 1
    assert isinstance(world.broker.health, DiskFullError)
    world.disk.heal()
    world.broker.save()
    assert world.broker.health is None
    world.fill(1)
    world.disk.fill()
    world.broker.save()
    assert caplog.text.count(FAILED_SAVE) == 2


def test_a_topic_that_fails_does_not_keep_others_from_being_saved(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    other = world.broker.topic("z")
    world.channel()
    world.channel(topic=other)
    world.broker.save()
    world.fill(1)
    world.fill(1, topic=other)
    world.disk.fail("append", within="/t@0/cursors")
    with caplog.at_level(logging.CRITICAL):
        world.broker.save()
    assert (world.topic.changed, other.changed) == (True, False)
    assert world.broker.health is not None


def test_the_problems_of_a_deleted_topic_are_over(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.channel()
    world.fill(1)
    world.disk.fill()
    with caplog.at_level(logging.CRITICAL):
        world.broker.save()
    assert world.broker.health is not None
    world.broker.delete_topic("t")
    assert world.broker.health is None


def test_trim_lets_go_of_what_is_consumed() -> None:
    world = World(file_bytes=300)
    channel = world.channel()
    world.fill(20)
    world.broker.trim()
    assert log_of(world.topic).start_offset == 0
    reader = Reader(world, channel, 20)
    reader.finish(*reader.offsets())
    world.broker.trim()
    assert log_of(world.topic).start_offset > 10
    world.restart()
    assert (world.channel().state.depth, log_of(world.topic).next_offset) == (0, 20)


def test_trim_keeps_to_the_retention_of_the_options() -> None:
    world = World(file_bytes=300, retention=Retention(time_ns=10 * SECOND))
    world.channel()
    world.fill(20)
    world.channel().empty()
    world.broker.trim()
    assert log_of(world.topic).start_offset == 0
    world.clock.advance(10 * SECOND + 1)
    world.broker.trim()
    assert log_of(world.topic).start_offset > 10


def test_a_failing_trim_is_a_problem_until_it_works(caplog: pytest.LogCaptureFixture) -> None:
    world = World(file_bytes=300)
    world.channel()
    world.fill(20)
    world.channel().empty()
    world.disk.fail("remove", times=2)
    for _ in range(2):
        world.broker.trim()
    assert caplog.text.count("TOPIC(t): failed to trim the log - ") == 1
    assert world.broker.health is not None
    world.broker.trim()
    assert world.broker.health is None
    world.restart()
    assert world.channel().state.depth == 0


def test_close_and_open_keep_everything(world: World) -> None:
    world.publish(b"a", b"bb")
    channel = world.channel()
    reader = Reader(world, channel, 2)
    reader.take()
    reader.finish(0)
    world.fill(2)
    world.publish(b"late", delay=SECOND)
    world.topic.commit_group("g", 1)
    world.topic.pause()
    world.fill(1)
    world.restart()
    topic = world.topic
    channel = topic.channels["c"]
    assert (topic.paused, topic.depth, topic.groups) == (True, 1, {"g": 1})
    assert (channel.state.depth, channel.state.deferred_count) == (3, 1)
    reader = Reader(world, channel, 9)
    assert reader.take() == [(1, 2), (2, 1), (3, 1)]
    reader.finish(1, 2, 3)
    world.wait(SECOND)
    topic.unpause()
    assert reader.take() == [(4, 1), (5, 1)]
    assert reader.bodies == {1: b"bb", 2: b"m0", 3: b"m1", 4: b"late", 5: b"m0"}


def test_close_goes_on_after_a_problem_and_raises_it(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    other = world.broker.topic("z")
    world.channel()
    world.channel(topic=other)
    world.broker.save()
    world.fill(1)
    world.fill(1, topic=other)
    world.disk.fail("append", within="/t@0/cursors")
    with pytest.raises(StorageError):
        world.broker.close()
    assert "TOPIC(t): failed to close - " in caplog.text
    world.open()
    assert [world.broker.topic(name).channels["c"].state.depth for name in "tz"] == [1, 1]


def test_a_queue_that_cannot_be_opened_stops_the_start(world: World) -> None:
    world.fill(1)
    world.broker.close()
    world.disk.fail("read", within="cursors")
    with pytest.raises(StorageError):
        world.open()


def test_topics_of_a_new_broker_are_those_of_its_store(world: World) -> None:
    world.broker.close()
    store = Store(world.disk, "/data", world.log_options)
    store.open_queue("made-elsewhere", 0, 1 << 53)
    broker = Broker(store, world.clock, world.draws, world.options)
    assert set(broker.topics) == {"made-elsewhere"}
    assert broker.topic("made-elsewhere").log.id_base == 1 << 53
