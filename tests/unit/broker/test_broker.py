"""The broker: its topics, what it saves, trims and wakes; settings in force, and groups' ages."""

from __future__ import annotations

import logging

import msgspec
import pytest

from penstock.broker.broker import Broker
from penstock.broker.channels.channel import ChannelOptions
from penstock.broker.group_ages import GRACE_NS, GroupAges
from penstock.broker.group_figures import ConsumerGroup, GroupMember, ProducerGroup
from penstock.broker.progress import ChannelSettings, TopicSettings
from penstock.broker.publish.bounds import Bounds, Overflow
from penstock.broker.topic_config import TopicConfig
from penstock.core.chance import SystemChance
from penstock.core.errors import DiskFullError, DiskHangsError, LockedError, StorageError
from penstock.core.units import HOUR, SECOND
from penstock.storage.retention import Retention
from penstock.storage.store import Store
from penstock.testing.clock import FakeClock
from penstock.testing.disk import FaultyFile, Operation
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
    reader = world.reader(2, 1)
    channel = reader.channel
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


def test_what_a_disk_that_hangs_did_not_take_is_done_later_and_no_problem(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The disk itself says how long it hangs."""

    def hang(self: FaultyFile, *_: object) -> None:
        raise DiskHangsError(f"{self.path}: the disk has not answered for 0.3 s")

    world = World(file_bytes=300)
    world.channel()
    world.fill(20)
    world.channel().empty()
    with monkeypatch.context() as patch:
        for operation in ("append", "sync"):
            patch.setattr(FaultyFile, operation, hang)
        world.broker.save()
        world.broker.trim()
    assert (world.broker.health, caplog.messages) == (None, [])
    assert log_of(world.topic).start_offset == 0, "nothing goes before the journal says so"
    assert world.topic.changed
    world.broker.trim()
    assert log_of(world.topic).start_offset > 10
    world.broker.save()
    assert not world.topic.changed


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


# --- Settings in force: a topic's own and its channels' own, over the defaults -------------------


def config() -> TopicConfig:
    return TopicConfig("t", Bounds(max_depth=9, max_bytes=70), ChannelOptions(max_attempts=5))


def test_what_is_not_set_is_as_the_defaults() -> None:
    settings = config()
    assert settings.bounds == Bounds(9, 70)
    settings.own = TopicSettings(max_bytes=0, overflow="drop-oldest")
    assert settings.bounds == Bounds(9, 0, Overflow("drop-oldest"))


def test_a_channel_has_its_own_number_of_attempts_and_dead_letters() -> None:
    settings = config()
    assert settings.attempts("c") == (5, "t.dead")
    settings.channels["c"] = ChannelSettings("c", 0, "lost.%s")
    assert settings.attempts("c") == (0, "lost.t")
    assert settings.of_channel("c").max_attempts == 0
    assert settings.of_channel("other") == ChannelSettings("other")


def test_a_topic_does_not_take_its_own_dead_letters() -> None:
    settings = config()
    settings.channels["c"] = ChannelSettings("c", 3, "t")
    assert settings.attempts("c") == (0, "t")


def test_only_what_was_set_and_lasts_is_written_down() -> None:
    settings = config()
    assert settings.records() == []
    own, durable = TopicSettings(max_depth=1), ChannelSettings("c", 2)
    settings.own = own
    settings.channels = {"c": durable, "e": ChannelSettings("e#ephemeral", 2)}
    assert settings.records() == [own, durable]


# --- How long groups have not moved --------------------------------------------------------------


def test_an_age_is_the_time_since_the_last_move() -> None:
    clock = FakeClock()
    ages = GroupAges(clock)
    ages.moved("g")
    clock.advance(5 * SECOND)
    assert ages.age_ns("g") == 5 * SECOND
    ages.moved("g")
    assert ages.age_ns("g") == 0


@pytest.mark.parametrize("step", [-(10**6) * HOUR, 10**6 * HOUR])
def test_setting_the_clock_makes_no_group_older(step: int) -> None:
    clock = FakeClock()
    ages = GroupAges(clock)
    ages.moved("g")
    clock.advance(HOUR)
    clock.set_wall(clock.wall_ns() + step)
    assert ages.age_ns("g") == HOUR
    assert ages.expired(2 * HOUR) == []


def test_groups_expire_at_the_limit() -> None:
    clock = FakeClock()
    ages = GroupAges(clock)
    ages.moved("g")
    ages.moved("gone")
    clock.advance(HOUR - 1)
    ages.moved("h")
    assert ages.expired(HOUR) == []
    clock.advance(1)
    ages.forget("gone")
    assert ages.expired(HOUR) == ["g"]


@pytest.mark.parametrize(("limit", "grace"), [(HOUR, GRACE_NS), (SECOND, SECOND)])
def test_after_a_start_readers_have_time_to_come_back(limit: int, grace: int) -> None:
    clock = FakeClock()
    ages = GroupAges(clock)
    ages.restore("g", 5 * HOUR)
    assert ages.age_ns("g") == 5 * HOUR
    clock.advance(grace - 1)
    assert ages.expired(limit) == []
    clock.advance(1)
    assert ages.expired(limit) == ["g"]


# --- What is told of groups can be shown as it is ------------------------------------------------


def test_as_json() -> None:
    member = GroupMember("id", "127.0.0.1:5", "JAVA", 409)
    group = ConsumerGroup("G", "CLUSTERING", [member], {0: 5}, 2, 1.5)
    data = msgspec.json.encode([group, ProducerGroup("PG", [member])])
    shown = {"client_id": "id", "address": "127.0.0.1:5", "language": "JAVA", "version": 409}
    assert msgspec.json.decode(data) == [
        {"name": "G", "model": "CLUSTERING", "members": [shown], "committed": {"0": 5}, "lag": 2,
         "rate": 1.5},
        {"name": "PG", "members": [shown]},
    ]  # fmt: skip
