"""Group commit over a disk that fails on command, and how it is brought to rest."""

from __future__ import annotations

import asyncio
import errno
import threading
from collections.abc import Callable

import pytest

from penstock.broker.publish.bounds import TopicFullError
from penstock.broker.topic import Topic
from penstock.core.clock import SYSTEM_CLOCK
from penstock.core.errors import (
    DiskFullError,
    ExitingError,
    ReadOnlyError,
    StorageError,
    TooManyFilesError,
)
from penstock.core.units import SECOND
from penstock.node import commits
from penstock.node.commits import AT_ONCE, FEW, MANY, SYNC_REST_NS, Commits
from penstock.node.sync_place import SyncPlace
from penstock.nsq.protocol.bodies import Bodies
from penstock.storage.durability import Durability
from penstock.storage.log import SyncJob
from penstock.testing.clock import FakeClock
from penstock.testing.disk import FaultyFile
from tests.programs.nsq.nsqd.conftest import TIMEOUT_S

from .conftest import Bench, fsync


async def test_a_pass_of_the_loop_shares_one_write(bench: Bench, writes: list[str]) -> None:
    for name in ("a", "b", "c"):
        bench.publish(name)
    assert bench.told == []
    await asyncio.sleep(0)
    assert bench.told == [("a", None), ("b", None), ("c", None)]
    assert len(writes) == 1
    bench.publish("d")
    await asyncio.sleep(0)
    assert len(writes) == 2


async def test_what_a_connection_has_read_is_one_commit(bench: Bench, writes: list[str]) -> None:
    for is_first in (True, False):
        bench.commits.hold()
        bench.publish("a")
        bench.publish("b")
        assert bench.told == []
        assert bench.commits.release() is is_first  # a pass that brings little commits at once
        await asyncio.sleep(0)
        assert bench.told == [("a", None), ("b", None)]
        assert len(writes) == 1
        bench.told.clear()
        writes.clear()
    bench.commits.hold()
    assert not bench.commits.release()


async def test_what_many_connections_have_read_shares_a_write(
    bench: Bench, writes: list[str]
) -> None:
    for number in range(FEW + 1):
        bench.commits.hold()
        bench.publish(str(number))
        assert bench.commits.release()
    await asyncio.sleep(0)
    assert (len(bench.told), len(writes)) == (FEW + 1, 1)
    for number in range(FEW):
        bench.commits.hold()
        for _ in range(MANY // FEW + 1):
            bench.publish(str(number))
        bench.commits.release()
    assert len(writes) == 2  # these are too many to wait for the pass to end
    bench.commits.hold()
    for number in range(MANY + 1):
        bench.publish(str(number))
    assert len(writes) == 3
    bench.commits.release()
    await asyncio.sleep(0)
    assert len(writes) == 4


async def test_very_many_publishes_of_a_pass_do_not_wait_for_its_end(
    bench: Bench, writes: list[str]
) -> None:
    for number in range(MANY + 10):
        bench.publish(str(number))
    assert (len(bench.told), len(writes)) == (MANY, 1)
    await asyncio.sleep(0)
    assert bench.told == [(str(number), None) for number in range(MANY + 10)]
    assert len(writes) == 2


@pytest.mark.parametrize("bench", [Durability.WRITE, Durability.FSYNC], indirect=True)
@pytest.mark.parametrize(("count", "first"), [(1, "served"), (FEW, "served"), (50, "told")])
async def test_few_messages_are_delivered_first_of_many_the_publisher_is_told_first(
    bench: Bench, count: int, first: str
) -> None:
    offsets = bench.consume()
    seen: list[int] = []
    bodies = Bodies.from_list([b"%d" % number for number in range(count)])
    bench.commits.publish(bench.topic, bodies, 0, lambda error: seen.append(len(offsets)))
    await bench.commits.settle()
    assert seen == [count if first == "served" else 0]
    assert len(offsets) == count


async def test_every_topic_has_its_own_write(bench: Bench, writes: list[str]) -> None:
    other = bench.broker.topic("u")
    bench.publish("a")
    bench.publish("b", other)
    bench.publish("c")
    await bench.until_told(3)
    assert sorted(name for name, _ in bench.told) == ["a", "b", "c"]
    assert len(writes) == 2


@fsync
async def test_fsync_tells_and_delivers_only_after_the_sync(
    bench: Bench, gate: threading.Event
) -> None:
    offsets = bench.consume()
    bench.publish("a")
    await asyncio.sleep(0.03)
    assert (bench.told, offsets) == ([], [])
    assert bench.topic.log.append_offset == 1  # written already
    gate.set()
    await bench.until_told(1)
    assert (bench.told, offsets) == ([("a", None)], [0])


@fsync
async def test_what_comes_during_a_sync_shares_the_next(
    bench: Bench, gate: threading.Event
) -> None:
    bench.publish("a")
    await asyncio.sleep(0.01)
    for name in ("b", "c", "d"):
        bench.publish(name)
        await asyncio.sleep(0.002)
    before = bench.disk.sync_count
    gate.set()
    await bench.until_told(4)
    assert bench.told == [(name, None) for name in "abcd"]
    assert bench.disk.sync_count - before == 2


@fsync
async def test_after_a_failed_sync_nothing_is_acknowledged(bench: Bench) -> None:
    offsets = bench.consume()
    bench.disk.fail("sync", within=".log")
    bench.publish("a")
    await bench.until_told(1)
    error = bench.told[0][1]
    assert error is not None
    assert "Input/output error" in str(error)
    bench.disk.heal()
    bench.publish("b")
    await bench.until_told(2)
    assert isinstance(bench.told[1][1], ReadOnlyError)
    assert bench.commits.health is not None
    assert offsets == [], "what was refused is not delivered"


async def test_a_sync_that_fails_later_stops_publishing_too(bench: Bench) -> None:
    bench.publish("a")
    await bench.until_told(1)
    assert bench.told == [("a", None)]
    bench.disk.fail("sync", within=".log")
    bench.commits.sync(bench.topic)
    await bench.commits.settle()
    bench.publish("b")
    await bench.until_told(2)
    assert isinstance(bench.told[1][1], ReadOnlyError)


@fsync
async def test_a_want_of_file_handles_is_no_failed_sync(bench: Bench) -> None:
    offsets = bench.consume()
    bench.disk.fail("sync_directory", code=errno.EMFILE)
    bench.publish("a")
    await bench.until_told(1)
    assert isinstance(bench.told[0][1], TooManyFilesError)
    assert bench.commits.health is not None
    bench.publish("b")
    await bench.until_told(2)
    assert bench.told[1] == ("b", None)
    assert bench.commits.health is None
    assert bench.topic.log.unsynced_messages == 0
    assert offsets == [0, 1]


async def test_a_full_disk_refuses_and_recovers(bench: Bench) -> None:
    offsets = bench.consume()
    bench.publish("a")
    await bench.until_told(1)
    bench.disk.fill()
    bench.publish("b")
    await bench.until_told(2)
    assert isinstance(bench.told[1][1], DiskFullError)
    assert isinstance(bench.commits.health, DiskFullError)
    bench.disk.heal()
    bench.publish("c")
    await bench.until_told(3)
    assert bench.told[2] == ("c", None)
    assert bench.commits.health is None
    assert offsets == [0, 1]


async def alone(bench: Bench) -> None:
    """Let a pass with one publish be over: the next are committed at once."""
    bench.publish("first")
    await bench.until_told(1)
    assert bench.commits.is_idle


async def test_one_message_goes_straight_to_its_consumer(bench: Bench) -> None:
    await alone(bench)
    offsets = bench.consume()
    bench.publish("x")
    assert bench.told[1:] == [("x", None)], "at once"
    assert offsets == [0, 1]
    assert (bench.topic.message_count, bench.topic.message_bytes) == (2, 6)


async def test_one_message_that_cannot_be_written_is_refused(bench: Bench) -> None:
    await alone(bench)
    offsets = bench.consume()
    bench.disk.fill()
    bench.publish("x")
    error = bench.told[1][1]
    assert isinstance(error, DiskFullError)
    assert bench.commits.health is error
    assert (offsets, bench.topic.message_count) == ([0], 1)
    bench.disk.heal()
    bench.publish("y")
    assert bench.told[2] == ("y", None)
    assert bench.commits.health is None
    assert offsets == [0, 1]


async def test_one_message_at_a_time_is_synced_now_and_then(bench: Bench) -> None:
    bench.commits = Commits(SYSTEM_CLOCK, Durability.WRITE, sync_every=2)
    await alone(bench)
    before = bench.disk.sync_count
    bench.publish("x")
    await bench.commits.settle()
    assert bench.disk.sync_count > before
    assert bench.topic.log.unsynced_messages == 0


async def test_one_message_joins_those_that_wait(bench: Bench) -> None:
    await alone(bench)
    bench.commits.hold()
    bench.publish("a")
    assert not bench.commits.is_idle
    bench.commits.release()
    assert bench.commits.is_idle
    bench.commits.occupy(bench.topic)
    assert not bench.commits.is_idle
    bench.commits.vacate(bench.topic)
    assert bench.commits.is_idle


async def test_one_message_shares_a_write_where_there_are_many(bench: Bench) -> None:
    assert not bench.commits.is_idle, "nobody knows yet how many there are"
    await alone(bench)
    for number in range(AT_ONCE):
        assert bench.commits.is_idle
        bench.publish("x")
        assert len(bench.told) == 2 + number
    assert not bench.commits.is_idle, "the next pass says whether it still is so"


async def test_those_who_join_a_publish_count_in_its_pass(bench: Bench) -> None:
    bench.publish("of three producers")
    bench.commits.joined()
    bench.commits.joined()
    await bench.until_told(1)
    assert not bench.commits.is_idle, "three share a pass: more than a few"


async def test_those_who_join_a_publish_that_waits_hold_up_no_pass(bench: Bench) -> None:
    """The topic is occupied, so no pass ends with their publish."""
    bench.commits.occupy(bench.topic)
    bench.publish("waits")
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    bench.commits.joined()
    bench.commits.vacate(bench.topic)
    await bench.until_told(1)
    for number in range(AT_ONCE + 1):  # the last with the pass
        bench.publish("a later one")
        await bench.until_told(2 + number)


async def test_a_disk_that_stays_full_is_logged_once(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    for turn in range(1, 3):
        bench.disk.fill()
        for _ in range(5):
            bench.publish("a")
            await bench.commits.settle()
        assert isinstance(bench.commits.health, DiskFullError)
        assert caplog.text.count("TOPIC(t): failed to write") == turn
        bench.disk.heal()
        bench.publish("b")
        await bench.commits.settle()


async def test_health_is_bad_while_one_topic_is(bench: Bench) -> None:
    other = bench.broker.topic("u")
    bench.disk.fail("append", within="t@0", code=errno.EIO, times=-1)
    bench.publish("a")
    bench.publish("b", other)
    await bench.until_told(2)
    assert dict(bench.told)["b"] is None
    assert isinstance(bench.commits.health, StorageError)
    bench.commits.forget(bench.topic)
    assert bench.commits.health is None


async def test_messages_in_memory_that_cannot_be_written_show_in_the_health() -> None:
    bench = Bench(Durability.MEMORY)
    bench.publish("a")
    await bench.until_told(1)
    bench.disk.fill()
    bench.commits.sync(bench.topic)
    assert isinstance(bench.commits.health, DiskFullError)
    bench.disk.heal()
    bench.commits.sync(bench.topic)
    await bench.commits.settle()
    assert bench.commits.health is None
    assert bench.topic.log.unsynced_messages == 0


async def test_any_topic_shows_that_a_full_disk_has_room_again(bench: Bench) -> None:
    other = bench.broker.topic("u")
    bench.disk.fail("append", within="t@0", code=errno.ENOSPC)
    bench.publish("a")
    await bench.until_told(1)
    assert isinstance(bench.commits.health, DiskFullError)
    bench.publish("b", other)
    await bench.until_told(2)
    assert bench.commits.health is None


async def test_a_topic_that_goes_takes_nothing(bench: Bench) -> None:
    bench.topic.exiting = True
    bench.publish("a")
    assert [(name, str(error)) for name, error in bench.told] == [("a", "exiting")]


async def test_a_big_backlog_is_synced_without_waiting_for_the_clock() -> None:
    bench = Bench(Durability.WRITE)
    bench.commits = Commits(SYSTEM_CLOCK, Durability.WRITE, sync_every=2)
    before = bench.disk.sync_count
    for name in ("a", "b"):
        bench.publish(name)
    await bench.until_told(2)
    await bench.commits.settle()
    assert bench.disk.sync_count > before
    assert bench.topic.log.unsynced_messages == 0


async def test_syncs_of_a_big_backlog_have_a_rest_between_them() -> None:
    bench, clock = Bench(Durability.WRITE), FakeClock()
    bench.commits = Commits(clock, Durability.WRITE, sync_every=1)
    unsynced = []
    for name in ("a", "b", "c", "d"):
        bench.publish(name)
        await bench.commits.settle()
        unsynced.append(bench.topic.log.unsynced_messages)
        clock.advance(SYNC_REST_NS // 2)
    assert unsynced == [0, 1, 0, 1]


@fsync
async def test_a_sync_that_ends_in_any_other_way_is_a_failed_sync(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the producers would wait for ever, or what nobody has synced would pass for synced."""
    offsets = bench.consume()

    def sync(file: FaultyFile) -> None:
        raise MemoryError("no room")

    monkeypatch.setattr(FaultyFile, "sync", sync)
    bench.publish("a")
    await bench.until_told(1)
    assert str(bench.told[0][1]) == "t: sync failed: MemoryError('no room')"
    assert isinstance(bench.commits.health, StorageError)
    bench.publish("b")
    await bench.until_told(2)
    assert isinstance(bench.told[1][1], ReadOnlyError)
    assert offsets == []


@fsync
async def test_who_was_told_may_share_the_next_sync_with_who_waits(
    bench: Bench, gate: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commits, "GATHER_NS_MAX", 60 * SECOND)
    for name in "ab":
        bench.publish(name)
    await asyncio.sleep(0.05)  # their sync takes so long, and is waited for half of that
    for name in "cd":
        bench.publish(name)
    gate.set()
    await bench.until_told(2)
    state = bench.commits._syncs[bench.topic].state
    assert not isinstance(state, SyncJob), "those who were told are waited for"
    for name in "ab":
        bench.publish(name)
    await bench.until_told(6)
    assert bench.topic.log.unsynced_messages == 0


@fsync
async def test_who_waits_is_not_kept_waiting_for_those_who_do_not_come(
    bench: Bench, gate: threading.Event
) -> None:
    await bench.publish_around_a_sync(gate)
    await bench.until_told(4)


@pytest.fixture
async def fast_disk(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A disk that is known to be fast; the threads in which it is synced from now on."""
    place = SyncPlace(FakeClock())
    for _ in range(100):
        told = asyncio.get_running_loop().create_future()
        place.run(lambda: None, told.set_result, may_wait=True)
        await told
    monkeypatch.setattr(bench.commits, "_place", place)
    ran_in: list[int] = []
    sync = FaultyFile.sync

    def noted(file: FaultyFile) -> None:
        ran_in.append(threading.get_ident())
        sync(file)

    monkeypatch.setattr(FaultyFile, "sync", noted)
    return ran_in


@fsync
async def test_few_producers_are_synced_in_the_loop_of_a_fast_disk_and_many_in_a_thread(
    bench: Bench, fast_disk: list[int]
) -> None:
    for names in ("a", "bc", "def"):
        told = len(bench.told)
        bench.commits.hold()
        for name in names:
            bench.publish(name)
        bench.commits.release()
        await bench.until_told(told + len(names))
    here = threading.get_ident()
    assert [thread == here for thread in fast_disk] == [True, True, False]


@fsync
async def test_a_sync_in_the_loop_that_fails_is_told(bench: Bench, fast_disk: list[int]) -> None:
    bench.disk.fail("sync")
    bench.publish("b")
    await bench.until_told(1)
    assert fast_disk == [threading.get_ident()]
    assert isinstance(bench.told[-1][1], StorageError)
    assert bench.commits.health is not None


@fsync
async def test_the_sync_of_many_messages_does_not_hold_up_the_loop(
    bench: Bench, fast_disk: list[int]
) -> None:
    """Syncs so far were short; this one will not be."""

    def write() -> None:
        bench.topic.stage(Bodies.from_list([b"x"] * (MANY + 1)), 0, lambda error: None)
        assert bench.topic.commit()[1] is None

    bench.commits.append(bench.topic, write, lambda error: bench.told.append(("many", error)))
    assert bench.told == []
    await bench.commits.settle()
    assert bench.told == [("many", None)]


async def test_a_full_disk_is_noted_by_an_append_and_a_refusal_is_not(bench: Bench) -> None:
    def fail(error: StorageError) -> Callable[[], None]:
        def write() -> None:
            raise error

        return write

    for error in (TopicFullError("full"), ExitingError()):
        bench.commits.append(bench.topic, fail(error), lambda e: bench.told.append(("no", e)))
        assert bench.told.pop() == ("no", error)
        assert bench.commits.health is None
    full = DiskFullError("no room")
    bench.commits.append(bench.topic, fail(full), lambda e: bench.told.append(("no", e)))
    assert bench.told == [("no", full)]
    assert bench.commits.health is full


@fsync
async def test_who_waits_for_a_log_that_failed_is_told_so(bench: Bench) -> None:
    failure = bench.topic.log.failure = StorageError("/data/t: the disk is gone")
    bench.commits._syncs[bench.topic].waiting = [lambda error: bench.told.append(("a", error))]
    bench.commits.sync(bench.topic)
    assert bench.told == [("a", failure)]


# --- Group commit that is brought to rest: settled, answered, and while a topic is occupied ------


@fsync
async def test_settle_waits_for_all_that_is_owed(bench: Bench, gate: threading.Event) -> None:
    bench.publish("a")
    await asyncio.sleep(0.01)
    bench.publish("b")
    loop = asyncio.get_running_loop()
    release: Callable[[], None] = gate.set
    loop.call_later(0.02, release)
    await bench.commits.settle(bench.topic)
    assert bench.told == [("a", None), ("b", None)]


@fsync
async def test_settling_waits_for_nobody(bench: Bench, gate: threading.Event) -> None:
    await bench.publish_around_a_sync(gate)
    await bench.until_told(3)
    bench.publish("e")
    await bench.commits.settle()
    assert len(bench.told) == 5


async def test_publishes_to_an_occupied_topic_wait_and_others_do_not(
    bench: Bench, writes: list[str]
) -> None:
    other = bench.broker.topic("other")
    bench.commits.occupy(bench.topic)
    bench.publish("a")
    bench.publish("b", other)
    await asyncio.sleep(0)
    assert bench.told == [("b", None)]
    bench.publish("c")
    await asyncio.sleep(0)
    bench.commits.vacate(bench.topic)
    assert bench.told == [("b", None), ("a", None), ("c", None)]
    assert len(writes) == 2


async def test_what_is_appended_to_an_occupied_topic_comes_before_the_publishes_that_wait(
    bench: Bench,
) -> None:
    bench.commits.occupy(bench.topic)
    bench.publish("a")
    first = bench.topic.log.append_offset

    def write() -> None:
        assert bench.topic.log.append_offset == first

    bench.commits.append(bench.topic, write, lambda error: bench.told.append(("mine", error)))
    bench.commits.vacate(bench.topic)
    assert bench.told == [("mine", None), ("a", None)]


async def test_settling_waits_until_a_topic_is_occupied_no_more(bench: Bench) -> None:
    bench.commits.occupy(bench.topic)
    bench.publish("a")
    settling = [asyncio.ensure_future(bench.commits.settle(each)) for each in (None, bench.topic)]
    await bench.commits.settle(bench.broker.topic("other"))
    for _ in range(5):
        await asyncio.sleep(0)
    assert not any(each.done() for each in settling)
    bench.commits.vacate(bench.topic)
    await asyncio.gather(*settling)
    assert bench.told == [("a", None)]


@fsync
async def test_answering_all_ends_while_producers_publish_on(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node under load could not stop: a sync of one topic or another was always under way."""
    topics = [bench.topic, bench.broker.topic("u")]
    syncs, begun = {"t": 0, "u": 0}, threading.Condition()
    is_load = True
    sync = FaultyFile.sync

    def overlapping(file: FaultyFile) -> None:
        """End when one of the other topic has begun."""
        if file.path.endswith(".log"):
            own, other = ("t", "u") if "/t@0" in file.path else ("u", "t")
            with begun:
                syncs[own] += 1
                begun.notify_all()
                before = syncs[other]
                assert begun.wait_for(lambda: syncs[other] > before or not is_load, TIMEOUT_S)
        sync(file)

    def publish(topic: Topic) -> None:
        def done(error: StorageError | None) -> None:
            assert error is None
            if is_load:
                publish(topic)

        bench.commits.publish(topic, Bodies.single(b"x"), 0, done)

    monkeypatch.setattr(FaultyFile, "sync", overlapping)
    for topic in topics:
        for _ in range(2 * FEW):
            publish(topic)
    bench.publish("last")
    await asyncio.sleep(0)
    async with asyncio.timeout(TIMEOUT_S):
        await bench.commits.answer()
    assert bench.told == [("last", None)]
    is_load = False
    with begun:
        begun.notify_all()
    await bench.commits.settle()


async def test_answering_all_waits_for_an_occupied_topic(bench: Bench) -> None:
    bench.commits.occupy(bench.topic)
    bench.publish("a")
    answering = asyncio.ensure_future(bench.commits.answer())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not answering.done()
    bench.commits.vacate(bench.topic)
    await answering
    assert bench.told == [("a", None)]
