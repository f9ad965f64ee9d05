"""Topics, channels and groups: made, deleted, observed; groups' lag, rate, age and owner."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator
from pathlib import Path
from typing import cast

import pytest

from penstock.broker.broker import Broker, BrokerOptions
from penstock.broker.channels.channel import Channel
from penstock.broker.group_ages import GroupAges
from penstock.broker.topic import Topic
from penstock.core.chance import SystemChance
from penstock.core.clock import SYSTEM_CLOCK
from penstock.core.errors import StorageError, TooManyFilesError
from penstock.core.units import HOUR, MINUTE, SECOND
from penstock.node import registry as registry_module
from penstock.node.commits import Commits
from penstock.node.log_groups import OWNED_NS, GroupOwner, LogGroups, Pace
from penstock.node.registry import Observer, Registry
from penstock.nsq.protocol.bodies import Bodies
from penstock.storage.durability import Durability
from penstock.storage.files.disk import OsDisk
from penstock.storage.log import LogOptions
from penstock.storage.store import Store
from penstock.testing.clock import FakeClock


class Recorder(Observer):
    """Writes down what it hears."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def topic_created(self, topic: Topic) -> None:
        self.heard.append(f"created {topic.name}")

    def topic_deleted(self, name: str) -> None:
        self.heard.append(f"deleted {name}")

    def channel_created(self, topic: Topic, channel: Channel) -> None:
        self.heard.append(f"created {topic.name}:{channel.name}")

    def channel_deleted(self, topic: Topic, channel: Channel) -> None:
        self.heard.append(f"deleted {topic.name}:{channel.name}")

    def channel_paused(self, channel: Channel) -> None:
        self.heard.append(f"paused {channel.name}")


class List:
    """A list of topics that fails when it is told to."""

    def __init__(self) -> None:
        self.changes = 0
        self.writes = 0
        self.error: StorageError | None = None

    def changed(self) -> None:
        self.changes += 1

    def tick(self, now: int) -> None:
        raise AssertionError("no clockwork runs here")

    async def write(self) -> None:
        self.writes += 1
        if self.error is not None:
            raise self.error


class Bench:
    """A registry over a real store, with one observer."""

    def __init__(self, path: Path) -> None:
        store = Store(OsDisk(), str(path), LogOptions())
        self.broker = Broker(store, SYSTEM_CLOCK, SystemChance(), BrokerOptions())
        self.list = List()
        self.commits = Commits(SYSTEM_CLOCK, Durability.WRITE, 10_000)
        self.registry = Registry(self.broker, self.commits, self.list, SYSTEM_CLOCK)
        self.recorder = Recorder()
        self.registry.observe(self.recorder)


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    bench = Bench(tmp_path)
    yield bench
    bench.broker.close()


async def test_observers_hear_of_each_change_once(bench: Bench) -> None:
    registry = bench.registry
    topic = registry.topic("t")
    assert registry.topic("t") is topic is registry.topics["t"]
    channel = registry.channel(topic, "c")
    assert registry.channel(topic, "c") is channel
    registry.channel(topic, "d")
    registry.delete_channel(topic, channel)
    await registry.delete_topic(topic)
    assert bench.recorder.heard == [
        "created t", "created t:c", "created t:d", "deleted t:c", "deleted t:d", "deleted t",
    ]  # fmt: skip
    assert (bench.list.changes, bench.list.writes) == (4, 1)
    assert not registry.topics


async def test_a_topic_that_an_observer_cannot_take_is_not_there(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(topic: Topic) -> None:
        raise StorageError("no space left on device")

    later = Recorder()
    bench.registry.observe(later)
    monkeypatch.setattr(bench.recorder, "topic_created", full)
    with pytest.raises(StorageError, match="no space left"):
        bench.registry.topic("t")
    assert not bench.registry.topics
    assert bench.list.changes == 0
    monkeypatch.undo()
    bench.registry.topic("t")
    assert bench.recorder.heard == later.heard == ["deleted t", "created t"]


async def test_a_pause_ends_with_what_has_waited(bench: Bench) -> None:
    registry = bench.registry
    topic = registry.topic("t")
    channel = registry.channel(topic, "c")
    registry.pause_topic(topic, True)
    bench.commits.publish(topic, Bodies.single(b"x"), 0, lambda error: None)
    bench.commits.commit()
    assert (topic.depth, channel.state.depth) == (1, 0)
    registry.pause_topic(topic, False)
    assert (topic.depth, channel.state.depth) == (0, 1)
    for paused in (True, False):
        registry.pause_channel(channel, paused)
        assert channel.paused is paused
    assert bench.recorder.heard[2:] == ["paused c"]


async def test_a_topic_is_deleted_once_whoever_asks(bench: Bench) -> None:
    topic = bench.registry.topic("t")
    await bench.registry.delete_topic(topic)
    await bench.registry.delete_topic(topic)
    assert bench.recorder.heard == ["created t", "deleted t"]


async def test_a_topic_that_cannot_be_deleted_goes_on(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = bench.registry.topic("t")
    bench.registry.channel(topic, "c")

    def fails(disk: OsDisk, path: str, target: str) -> None:
        raise StorageError(f"{path}: read-only file system")

    with monkeypatch.context() as patch:
        patch.setattr(OsDisk, "rename", fails)
        with pytest.raises(StorageError, match="read-only"):
            await bench.registry.delete_topic(topic)
    assert bench.recorder.heard == ["created t", "created t:c"]
    assert bench.registry.topics["t"] is topic
    outcomes: list[StorageError | None] = []
    bench.commits.publish(topic, Bodies.single(b"x"), 0, outcomes.append)
    bench.commits.commit()
    assert (outcomes, topic.channels["c"].state.depth) == ([None], 1)
    await bench.registry.delete_topic(topic)
    assert bench.recorder.heard[2:] == ["deleted t:c", "deleted t"]


async def test_a_topic_is_gone_though_an_observer_cannot_write_that_down(bench: Bench) -> None:
    """Were it left in the list, a start would make it again."""

    class Full(Observer):
        def topic_deleted(self, name: str) -> None:
            raise StorageError(f"{name}: full")

    other = Recorder()
    bench.registry.observe(Full())
    bench.registry.observe(other)
    topic = bench.registry.topic("t")
    with pytest.raises(StorageError, match="t: full"):
        await bench.registry.delete_topic(topic)
    assert (bench.recorder.heard[-1], other.heard[-1]) == ("deleted t", "deleted t")
    assert bench.list.writes == 1
    assert "t" not in bench.registry.topics


async def test_a_list_that_cannot_be_written_is_an_error(bench: Bench) -> None:
    topic = bench.registry.topic("t")
    bench.list.error = StorageError("full")
    with pytest.raises(StorageError, match="full"):
        await bench.registry.delete_topic(topic)
    assert bench.recorder.heard[-1] == "deleted t"


async def test_an_ephemeral_topic_is_in_no_list(bench: Bench) -> None:
    await bench.registry.delete_topic(bench.registry.topic("t#ephemeral"))
    assert bench.list.writes == 0


async def test_an_ephemeral_topic_stays_for_one_who_comes_as_the_last_leaves(bench: Bench) -> None:
    topic = bench.registry.topic("t#ephemeral")
    bench.registry.delete_channel(topic, bench.registry.channel(topic, "old#ephemeral"))
    bench.registry.channel(topic, "new#ephemeral")
    for _ in range(5):
        await asyncio.sleep(0)
    assert bench.registry.topics == {"t#ephemeral": topic}
    assert not topic.exiting


async def test_an_ephemeral_topic_goes_with_its_last_channel(bench: Bench) -> None:
    for name in ("t", "t#ephemeral"):
        topic = bench.registry.topic(name)
        first, last = (bench.registry.channel(topic, each) for each in ("a", "b"))
        bench.registry.delete_channel(topic, first)
        bench.registry.delete_channel(topic, last)
    async with asyncio.timeout(60):
        while True:
            if "deleted t#ephemeral" in bench.recorder.heard:
                break
            await asyncio.sleep(0)
    assert list(bench.registry.topics) == ["t"]


async def test_an_ephemeral_channel_goes_with_its_last_consumer(bench: Bench) -> None:
    topic = bench.registry.topic("t")
    kept, passing = (bench.registry.channel(topic, name) for name in ("c", "c#ephemeral"))
    bench.registry.consumer_left(topic, kept)
    bench.registry.consumer_left(topic, passing)
    bench.registry.consumer_left(topic, passing)  # as when two leave at once
    assert list(topic.channels) == ["c"]
    assert bench.recorder.heard.count("deleted t:c#ephemeral") == 1


async def test_topics_leave_file_handles_for_connections(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry_module, "file_limit", lambda: 8)
    bench = Bench(tmp_path)
    bench.registry.topic("a")
    bench.registry.topic("b")
    with pytest.raises(TooManyFilesError, match="2 topics are the most"):
        bench.registry.topic("c")
    assert bench.recorder.heard == ["created a", "created b"]
    bench.broker.close()


# --- Groups that read the log: lag, rate, age and owner ------------------------------------------


class FakeLog:
    start_offset = 10
    next_offset = 100


class FakeTopic:
    """Where groups are."""

    def __init__(self, clock: FakeClock, groups: dict[str, int]) -> None:
        self.groups = groups
        self.group_ages = GroupAges(clock)
        for name in groups:
            self.group_ages.moved(name)
        self.log = FakeLog()


def groups(clock: FakeClock) -> LogGroups:
    return LogGroups(clock)


def topic_of(clock: FakeClock, **groups: int) -> Topic:
    return cast(Topic, FakeTopic(clock, groups))


@pytest.mark.parametrize(("offset", "lag"), [(100, 0), (40, 60), (10, 90), (3, 90), (200, 0)])
def test_lag_is_what_is_there_to_read(offset: int, lag: int) -> None:
    clock = FakeClock()
    (found,) = groups(clock).of(topic_of(clock, g=offset))
    assert (found.name, found.committed, found.lag, found.rate) == ("g", offset, lag, 0)


def test_the_lag_of_one() -> None:
    clock = FakeClock()
    found, topic = groups(clock), topic_of(clock, g=40)
    assert (found.lag(topic, "g"), found.lag(topic, "none")) == (60, None)


def test_rate() -> None:
    clock = FakeClock()
    found, topic = groups(clock), topic_of(clock, g=0, a=5)
    found.moved(topic, "g")
    clock.advance(10 * SECOND)
    topic.groups["g"] = 50
    found.moved(topic, "g")
    a, g = found.of(topic)
    assert (a.name, a.rate) == ("a", 0)
    assert (g.name, g.rate) == ("g", 5)
    found.deleted(topic, "g")
    found.deleted(topic, "a")
    assert [each.rate for each in found.of(topic)] == [0] * 2


def test_what_is_known_goes_with_its_topic() -> None:
    clock = FakeClock()
    found, topic = groups(clock), topic_of(clock, g=0)
    found.moved(topic, "g")
    assert len(found._known) == 1
    del topic
    gc.collect()
    assert len(found._known) == 0


def test_groups_that_a_dialect_shows_itself_are_left_out() -> None:
    found, topic = groups(FakeClock()), topic_of(FakeClock(), g=0, **{"rocketmq:g": 5})
    # While it does not run they hold the log all the same, and nobody else shows them.
    assert [each.name for each in found.of(topic)] == ["g", "rocketmq:g"]
    found.leave_out("rocketmq:")
    assert [each.name for each in found.of(topic)] == ["g"]


@pytest.mark.parametrize(
    ("retention", "stale_at"), [(0, 24 * HOUR), (HOUR, 48 * MINUTE), (72 * HOUR, 24 * HOUR)]
)
def test_a_group_that_leaves_messages_unread_becomes_stale(retention: int, stale_at: int) -> None:
    clock = FakeClock()
    topic = topic_of(clock, behind=40, ahead=100)
    found = LogGroups(clock, retention)
    clock.advance(stale_at - 1)
    assert [each.stale for each in found.of(topic)] == [False, False]
    clock.advance(1)
    ahead, behind = found.of(topic)
    assert (ahead.age, ahead.stale, ahead.expires_in) == (stale_at // SECOND, False, None)
    left = (retention - stale_at) // SECOND if retention else None
    assert (behind.age, behind.stale, behind.expires_in) == (stale_at // SECOND, True, left)
    clock.advance(retention)
    assert [each.expires_in for each in found.of(topic)] == [None, 0 if retention else None]


def test_the_owner_that_moved_a_group_last() -> None:
    clock = FakeClock()
    found, topic = groups(clock), topic_of(clock, g=0)
    assert found.other_owner(topic, "g", "one") is None
    found.moved(topic, "g", "one")
    clock.advance(OWNED_NS - 1)
    assert found.other_owner(topic, "g", "one") is found.other_owner(topic, "g", None) is None
    assert found.other_owner(topic, "g", "two") == GroupOwner("one", 60.0)
    found.moved(topic, "g")
    assert found.other_owner(topic, "g", "two") is not None
    assert [each.owner for each in found.of(topic)] == ["one"]
    clock.advance(1)
    assert found.other_owner(topic, "g", "two") is None


def test_pace_over_a_minute() -> None:
    pace, now, offset = Pace(0, 1000), 0, 1000
    for _ in range(300):
        now += SECOND
        offset += 20
        pace.moved(now, offset)
    assert pace.rate(now, offset) == pytest.approx(20, rel=0.1)
    assert len(pace._marks) < 20
    assert pace.rate(now + 30 * SECOND, offset) == pytest.approx(10, rel=0.2)
    assert pace.rate(now + 90 * SECOND, offset) == 0
    # After a long rest only the last minute counts.
    now += 600 * SECOND
    pace.moved(now, offset + 600)
    assert pace.rate(now, offset + 600) == 10


def test_pace_at_the_beginning_and_backwards() -> None:
    pace = Pace(0, 0)
    pace.moved(SECOND // 10, 50)
    assert pace.rate(SECOND // 10, 50) == 50  # as if it had taken a second
    pace.moved(SECOND, 90)
    assert pace.rate(2 * SECOND, 90) == 45
    pace.moved(3 * SECOND, 0)
    assert pace.rate(3 * SECOND, 0) == 0
