"""The followers of a node, and publishes that wait for copies."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import pytest

from penstock.broker.broker import Broker, BrokerOptions
from penstock.broker.topic import Topic
from penstock.core.chance import SystemChance
from penstock.core.errors import ExitingError, LateCopyError, NotCopiedError, StorageError
from penstock.core.units import SECOND
from penstock.node.commits import Commits
from penstock.node.followers import FOLLOWERS_MAX, FOLLOWS_NS, Followers
from penstock.node.lease import Lease
from penstock.node.replicas import Missing, ReplicaOptions, Replicas
from penstock.nsq.protocol.bodies import Bodies
from penstock.storage.batch import Batch
from penstock.storage.durability import Durability
from penstock.storage.log import Log, LogOptions
from penstock.storage.store import Store
from penstock.testing.clock import FakeClock
from penstock.testing.disk import FaultyDisk
from tests.unit.storage.logs import new_disk, new_log


class Scene:
    """A node whose OKs wait for copies, and what its producers were told."""

    def __init__(
        self,
        acked: int = 1,
        missing: Missing = Missing.REFUSE,
        durability: Durability = Durability.WRITE,
        *,
        needs_lease: bool = False,
    ) -> None:
        self.clock = FakeClock()
        self.lease = Lease(self.clock)
        self.disk = FaultyDisk("/data")
        options = LogOptions(durability=durability, awaits_copies=True)
        store = Store(self.disk, "/data", options)
        self.broker = Broker(store, self.clock, SystemChance(1), BrokerOptions())
        wanted = ReplicaOptions(acked, 5 * SECOND, missing)
        lease = self.lease if needs_lease else None
        self.replicas = Replicas(self.clock, wanted, lease=lease)
        self.commits = Commits(self.clock, durability, 10_000, self.replicas)
        self.topic = self.broker.topic("t")
        self.told: list[tuple[str, StorageError | None]] = []

    @property
    def log(self) -> Log:
        assert isinstance(self.topic.log, Log)
        return self.topic.log

    def publish(
        self, name: str, topic: Topic | None = None, then: Callable[[], None] | None = None
    ) -> None:
        def done(error: StorageError | None) -> None:
            self.told.append((name, error))
            if then is not None:
                then()

        self.commits.publish(topic or self.topic, Bodies.single(name.encode()), 0, done)
        self.commits.commit()

    def heard(self, address: str, end: int) -> None:
        self.replicas.heard(address, {("t", self.log.id_base): end})

    def grant(self, *members: str) -> None:
        """Give the node a lease of a minute that names these members."""
        self.lease.grant(self.clock.monotonic_ns() + 60 * SECOND, members)
        self.replicas.granted()

    def errors(self) -> list[tuple[str, type[StorageError]]]:
        return [(name, type(error)) for name, error in self.told if error is not None]


async def test_a_publish_is_told_and_seen_when_the_copy_has_it() -> None:
    scene = Scene()
    scene.heard("b", 0)
    scene.publish("1")
    scene.publish("2")
    assert (scene.told, scene.log.next_offset, scene.log.append_offset) == ([], 0, 2)
    scene.heard("b", 1)
    assert (scene.told, scene.log.next_offset) == ([("1", None)], 1)
    scene.heard("b", 2)
    assert (scene.told, scene.log.next_offset) == ([("1", None), ("2", None)], 2)
    assert scene.replicas.figures()["messages_waiting"] == 0


async def test_one_that_is_committed_at_once_waits_for_its_copy_too() -> None:
    scene = Scene()
    scene.heard("b", 0)
    scene.commits.publish(scene.topic, Bodies.single(b"1"), 0, lambda _: None)
    await asyncio.sleep(0)  # the end of a pass that few have shared
    assert scene.commits.is_idle
    told: list[StorageError | None] = []
    scene.commits.publish(scene.topic, Bodies.single(b"2"), 0, told.append)
    assert (told, scene.log.append_offset, scene.log.next_offset) == ([], 2, 0)
    scene.heard("b", 2)
    assert (told, scene.log.next_offset) == ([None], 2)


async def test_as_many_copies_as_are_wanted_have_it() -> None:
    scene = Scene(acked=2)
    for address in ("b", "c", "d"):
        scene.heard(address, 0)
    scene.publish("1")
    scene.heard("b", 1)
    scene.heard("b", 1)
    assert not scene.told
    scene.heard("d", 1)
    assert scene.told == [("1", None)]


async def test_a_copy_of_another_log_of_that_name_does_not_count() -> None:
    scene = Scene()
    scene.heard("b", 0)
    scene.publish("1")
    scene.replicas.heard("b", {("t", scene.log.id_base + 1): 9})
    assert not scene.told


async def test_publishes_of_a_pass_are_shown_together() -> None:
    scene = Scene()
    scene.heard("b", 0)

    def done(error: StorageError | None) -> None:
        scene.told.append(("", error))

    for _ in range(2):
        scene.commits.publish(scene.topic, Bodies.from_list([b"1", b"2"]), 0, done)
    scene.commits.commit()
    scene.heard("b", 2)  # the answer had room for no more
    assert (scene.told, scene.log.next_offset) == ([], 0)
    scene.heard("b", 4)
    assert (len(scene.told), scene.log.next_offset) == (2, 4)


async def test_followers_hear_once_a_pass_that_there_is_news() -> None:
    scene, news = Scene(), []
    scene.replicas.on_news = lambda: news.append(scene.log.append_offset)
    scene.heard("b", 0)
    scene.publish("1")
    scene.publish("2")
    assert not news
    while not news:
        await _turn()
    assert news == [2]


async def test_without_copies_publishes_are_refused(caplog: pytest.LogCaptureFixture) -> None:
    scene = Scene()
    scene.replicas.tick(scene.clock.monotonic_ns())
    scene.publish("1")
    assert scene.errors() == [("1", NotCopiedError)]
    assert str(scene.told[0][1]) == "0 of 1 copies follow"
    assert scene.log.append_offset == 0
    assert caplog.messages == ["0 of 1 copies follow: publishes are refused"]


async def test_an_ephemeral_topic_is_in_memory_and_waits_for_no_copy() -> None:
    scene = Scene()
    scene.publish("1", scene.broker.topic("t#ephemeral"))
    assert scene.told == [("1", None)]


async def test_followers_are_bounded() -> None:
    scene = Scene(acked=FOLLOWERS_MAX)
    for number in range(2 * FOLLOWERS_MAX):
        scene.heard(f"b{number}", 0)
    assert scene.replicas.in_force == FOLLOWERS_MAX
    scene.replicas.gone(f"b{FOLLOWERS_MAX}")  # there was no place for it
    assert scene.replicas.in_force == FOLLOWERS_MAX
    scene.replicas.gone("b0")
    assert scene.replicas.in_force == 0


@pytest.mark.parametrize("is_closed", [True, False])
async def test_a_follower_that_is_silent_or_gone_does_not_count(is_closed: bool) -> None:
    scene = Scene()
    scene.heard("b", 0)
    assert scene.replicas.in_force == 1
    if is_closed:
        scene.replicas.gone("b")
    else:
        scene.clock.advance(FOLLOWS_NS + 1)
        scene.replicas.tick(scene.clock.monotonic_ns())
    assert scene.replicas.in_force == 0
    assert scene.replicas.refusal is not None


async def test_one_that_waits_too_long_is_given_up_and_seen_once_it_is_copied() -> None:
    scene = Scene()
    scene.heard("b", 0)
    scene.publish("1")
    for _ in range(6):
        scene.clock.advance(SECOND)
        scene.heard("b", 0)
        scene.replicas.tick(scene.clock.monotonic_ns())
    assert [str(error) for _, error in scene.told] == ["not copied within 5 s"]
    assert scene.log.next_offset == 0
    scene.heard("b", 1)
    assert (len(scene.told), scene.log.next_offset) == (1, 1)


async def test_a_node_may_go_on_and_shows_what_has_waited(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    scene = Scene(missing=Missing.GO_ON)
    scene.publish("1")
    scene.heard("b", 1)
    scene.publish("2")
    assert scene.told == [("1", None)]
    scene.replicas.gone("b")
    assert scene.told == [("1", None), ("2", None)]
    assert scene.log.next_offset == 2
    assert caplog.messages == [
        "copies that follow: 1; an OK waits for 1",
        "0 of 1 copies follow: publishes are acknowledged without them",
    ]


async def test_who_is_given_up_may_publish_again_at_once() -> None:
    scene = Scene()
    other = scene.broker.topic("u")
    scene.heard("b", 0)
    scene.publish("1", then=lambda: scene.publish("2", other))
    scene.publish("3", then=lambda: scene.publish("4"))
    scene.clock.advance(4 * SECOND)
    scene.heard("b", 0)
    scene.clock.advance(SECOND)
    scene.replicas.tick(scene.clock.monotonic_ns())
    assert scene.errors() == [("1", LateCopyError), ("3", LateCopyError)]
    scene.heard("b", 3)
    assert scene.told[2:] == [("4", None)]


async def test_who_is_told_that_the_node_goes_on_may_publish_where_others_wait() -> None:
    scene = Scene(missing=Missing.GO_ON)
    other = scene.broker.topic("u")
    scene.heard("b", 0)
    scene.publish("1", then=lambda: scene.publish("3", other))
    scene.publish("2", other)
    scene.replicas.gone("b")
    assert sorted(scene.told) == [("1", None), ("2", None), ("3", None)]


async def test_at_fsync_a_publish_is_synced_and_then_copied() -> None:
    scene = Scene(durability=Durability.FSYNC)
    scene.heard("b", 0)
    scene.publish("1")
    while not scene.log.synced_offset:
        await _turn()
    assert (scene.told, scene.log.next_offset, scene.log.copies_end) == ([], 0, 1)
    scene.heard("b", 1)
    assert (scene.told, scene.log.next_offset) == ([("1", None)], 1)


async def test_a_sync_of_nothing_new_waits_for_nobody() -> None:
    scene = Scene(durability=Durability.FSYNC)
    scene.heard("b", 0)
    scene.commits.sync(scene.topic)  # of the new file
    await scene.commits.settle()
    scene.publish("1")
    while not scene.log.synced_offset:
        await _turn()
    scene.heard("b", 1)
    assert scene.told == [("1", None)]


async def test_who_waits_while_the_node_ends_is_told() -> None:
    for end in (Commits.settle, Commits.answer):
        scene = Scene()
        scene.heard("b", 0)
        scene.publish("1")
        await end(scene.commits)
        assert scene.errors() == [("1", ExitingError)]


async def test_what_a_failed_sync_may_have_lost_is_not_acknowledged() -> None:
    scene = Scene()
    scene.heard("b", 0)
    scene.publish("1")
    scene.disk.fail("sync", times=-1)
    scene.commits.sync(scene.topic)
    while not scene.told:
        await _turn()
    assert scene.errors() == [("1", StorageError)]


# --- A lease, and the members that it names ------------------------------------------------------


async def test_without_a_lease_nothing_is_acknowledged(caplog: pytest.LogCaptureFixture) -> None:
    scene = Scene(acked=0, missing=Missing.GO_ON, needs_lease=True)
    scene.publish("1")
    scene.grant()
    scene.publish("2")
    scene.clock.advance(60 * SECOND)
    scene.publish("3")
    refusal = "this node holds no lease: penstock lease has not renewed it"
    assert [(name, error and str(error)) for name, error in scene.told] == [
        ("1", refusal), ("2", None), ("3", refusal)]  # fmt: skip
    assert scene.errors() == [("1", NotCopiedError), ("3", NotCopiedError)]
    assert scene.log.append_offset == 1
    assert caplog.messages == [], "of copies, which nobody waits for, it has nothing to say"


async def test_an_ok_waits_for_all_members_whoever_else_has_it() -> None:
    scene = Scene(missing=Missing.GO_ON, needs_lease=True)
    for address in ("b", "c", "d"):
        scene.heard(address, 0)
    scene.grant("b", "c")
    scene.publish("1")
    scene.heard("d", 1)
    scene.heard("b", 1)
    assert (scene.told, scene.log.next_offset) == ([], 0)
    scene.heard("c", 9)
    assert (scene.told, scene.log.next_offset) == ([("1", None)], 1)


async def test_members_that_are_gone_are_waited_for_until_the_lease_names_them_no_more() -> None:
    scene = Scene(missing=Missing.GO_ON, needs_lease=True)
    scene.heard("b", 0)
    scene.grant("b")
    assert scene.replicas.in_force == 1
    scene.replicas.gone("b")
    scene.publish("1")
    assert (scene.replicas.in_force, scene.told) == (0, [])
    scene.grant()
    assert (scene.told, scene.log.next_offset) == ([("1", None)], 1)


async def test_a_promise_is_kept_by_refusing() -> None:
    assert Scene(acked=2, missing=Missing.REFUSE).replicas.promised == 2
    assert Scene(acked=2, missing=Missing.GO_ON).replicas.promised == 0


async def _turn() -> None:
    await asyncio.sleep(0.001)


# --- The followers of a node: those that ask, and how far they are -------------------------------


@pytest.fixture
def log() -> Log:
    log = new_log(new_disk())
    log.append([Batch.build(0, log.id_base, 1, 3, 1, [b"abc"])])
    return log


def test_the_one_that_is_ahead_counts_for_one_and_all_for_more(log: Log) -> None:
    followers = Followers(FakeClock())
    assert followers.copied("t", log) == 0
    followers.heard("a", {("t", log.id_base): 2})
    followers.heard("b", {("t", log.id_base): 1, ("u", log.id_base): 3})
    followers.heard("c", {("t", log.id_base + 1): 3})
    assert [followers.copied("t", log, count) for count in (1, 2, 3, 4)] == [2, 1, 0, 0]
    followers.heard("a", {("t", log.id_base): 9})
    assert followers.copied("t", log) == 3


def test_members_have_what_the_last_of_them_has(log: Log) -> None:
    followers = Followers(FakeClock())
    for address, end in (("a", 2), ("b", 1), ("c", 9)):
        followers.heard(address, {("t", log.id_base): end})
    assert followers.copied_by(["a", "b"], "t", log) == 1
    assert followers.copied_by(["a", "c"], "t", log) == 2
    assert followers.copied_by(["c"], "t", log) == 3, "no more than the log has"
    assert followers.copied_by(["a", "gone"], "t", log) == 0
    assert followers.count(["a", "c", "gone"]) == 2


def test_a_copy_has_all_if_it_has_each_log_that_can_be_read(log: Log) -> None:
    followers, empty = Followers(FakeClock()), new_log(new_disk())
    followers.heard("a", {("t", log.id_base): 3})
    followers.heard("b", {("t", log.id_base): 2})
    assert followers.has_all("a", [("t", log), ("empty", empty)])
    assert not followers.has_all("a", [("t", log), ("another", log)])
    assert not followers.has_all("b", [("t", log)])
    assert not followers.has_all("unknown", [])


def test_who_waits_hears_of_each_change(log: Log) -> None:
    clock = FakeClock()
    followers = Followers(clock)
    counts: list[int] = []
    followers.changed.append(lambda: counts.append(len(followers)))
    followers.heard("a", {})
    clock.advance(FOLLOWS_NS)
    followers.heard("b", {})
    followers.forget_silent(clock.monotonic_ns())
    clock.advance(1)
    followers.forget_silent(clock.monotonic_ns())
    followers.gone("b")
    followers.gone("b")
    assert counts == [1, 2, 1, 0]


def test_there_is_an_end_to_their_number() -> None:
    followers = Followers(FakeClock())
    for number in range(FOLLOWERS_MAX + 5):
        followers.heard(str(number), {})
    assert len(followers) == FOLLOWERS_MAX
    followers.gone("0")
    assert len(followers) == FOLLOWERS_MAX - 1, "the first ones have kept their places"
    followers.ask()
