"""Group commit: any publishes, reads, syncs and waits are answered; where syncs run."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Callable, Iterator

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from penstock.core.clock import SYSTEM_CLOCK
from penstock.core.errors import DiskHangsError, StorageError
from penstock.core.units import SECOND
from penstock.net import threads
from penstock.node import commits
from penstock.node.commits import FEW
from penstock.node.sync_place import SHORT_NS, SyncPlace
from penstock.nsq.protocol.bodies import Bodies
from penstock.storage.durability import Durability
from penstock.storage.files.patient_disk import Hand
from penstock.storage.log import SyncJob
from penstock.testing.clock import FakeClock
from penstock.testing.disk import FaultyFile
from tests.programs.nsq.nsqd.conftest import TIMEOUT_S

from .conftest import Bench

MANY = 5
"""As ``commits.MANY``, within the reach of a machine."""


class Place(SyncPlace):
    """Syncs end when they are told to."""

    def __init__(self) -> None:
        super().__init__(SYSTEM_CLOCK)
        self.begun: list[tuple[threads.Work, threads.Done]] = []

    def run(self, work: threads.Work, done: threads.Done, *, may_wait: bool) -> None:
        self.begun.append((work, done))

    def end(self) -> None:
        work, done = self.begun.pop(0)
        work()
        done(None)


class _Frozen:
    """Appends to logs hang while ``is_frozen``."""

    is_frozen = False
    append = FaultyFile.append


frozen = _Frozen()


def _append(file: FaultyFile, data: bytes | memoryview) -> None:
    if frozen.is_frozen and file.path.endswith(".log"):
        raise DiskHangsError(f"{file.path}: the disk has not answered for 0.3 s")
    _Frozen.append(file, data)


class Commits(RuleBasedStateMachine):
    """Publishes to one topic beside those that are owed an answer."""

    durability: Durability
    loop: asyncio.AbstractEventLoop

    def __init__(self) -> None:
        super().__init__()
        self.bench = self.loop.run_until_complete(self._bench())
        self.commits, self.topic = self.bench.commits, self.bench.topic
        self.place = Place()
        self.commits._place = self.place
        self.numbers = itertools.count()
        self.owed: set[int] = set()
        self.is_occupied = False
        self.is_ending = False
        frozen.is_frozen = False

    async def _bench(self) -> Bench:
        return Bench(self.durability)

    def teardown(self) -> None:
        self.is_ending = True
        frozen.is_frozen = False
        self.commits._disk_answers()
        if self.is_occupied:
            self.commits.vacate(self.topic)
        settling = self.loop.create_task(self.commits.settle())
        while not settling.done():
            self.pass_ends()
            if self.place.begun:
                self.place.end()
        settling.result()
        assert not self.owed

    def _done(self, again: int) -> Callable[[StorageError | None], None]:
        number = next(self.numbers)
        self.owed.add(number)

        def done(error: StorageError | None) -> None:
            assert error is None
            self.owed.remove(number)  # and no second time
            if again and not self.is_ending:
                self._publish(again - 1)

        return done

    def _publish(self, again: int) -> None:
        self.commits.publish(self.topic, Bodies.single(b"x"), 0, self._done(again))

    @rule(again=st.lists(st.integers(0, 2), min_size=1, max_size=MANY + 1))
    def publish(self, again: list[int]) -> None:
        """Some of them publish again, as soon as they are answered."""
        for each in again:
            self._publish(each)

    @rule(count=st.integers(0, MANY + 1))
    def read(self, count: int) -> None:
        """What a connection has read counts as one publish."""
        self.commits.hold()
        for _ in range(count):
            self._publish(0)
            assert not self.commits.is_idle
        left_at_once, in_pass = self.commits._at_once_left, self.commits._in_pass
        is_left = self.commits.release()
        assert is_left == bool(count and not left_at_once)
        if not is_left and count:
            assert self.commits._at_once_left <= left_at_once - 1
        else:
            assert self.commits._in_pass == in_pass + is_left

    @rule()
    def pass_ends(self) -> None:
        self.loop.run_until_complete(asyncio.sleep(0))

    @rule()
    def sync(self) -> None:
        """The end of the time for which a sync was put off; or ``--sync-timeout``."""
        self.commits.sync(self.topic)

    @precondition(lambda self: self.place.begun)
    @rule()
    def sync_ends(self) -> None:
        self.place.end()

    @precondition(lambda self: not self.is_occupied)
    @rule()
    def occupy(self) -> None:
        self.is_occupied = True
        self.commits.occupy(self.topic)

    @precondition(lambda self: self.is_occupied)
    @rule()
    def vacate(self) -> None:
        self.is_occupied = False
        self.commits.vacate(self.topic)

    @precondition(lambda self: not frozen.is_frozen)
    @rule()
    def freeze(self) -> None:
        frozen.is_frozen = True

    @rule(is_frozen=st.booleans())
    def disk_answers(self, is_frozen: bool) -> None:
        """It may hang again before anybody has written."""
        frozen.is_frozen = is_frozen
        self.commits._disk_answers()

    @invariant()
    def the_tables_hold(self) -> None:
        own = self.commits
        assert not (own._at_once_left and own._in_pass), "at once, or with the pass"
        assert own._uncommitted < MANY
        if own.is_idle:
            assert not self.topic.staged
            assert not own._dirty
        syncs = own._syncs[self.topic]
        assert isinstance(syncs.state, SyncJob) == bool(self.place.begun)
        assert len(self.place.begun) <= 1
        if syncs.state is None:
            assert not syncs.waiting, "at rest nobody waits"
        if not isinstance(syncs.state, SyncJob) and syncs.state is not None:
            assert len(syncs.waiting) < syncs.state.expected
            assert not syncs.state.timer.cancelled()

    @invariant()
    def who_is_owed_waits_for_something(self) -> None:
        own = self.commits
        is_at_rest = not own._in_pass and own._syncs[self.topic].state is None
        if is_at_rest and not own._waits(None):
            assert not self.owed
        nbytes = sum(each.records.nbytes for each in self.topic.staged)
        nbytes += sum(each.records.nbytes for each in own._held_up.get(self.topic, ()))
        assert own._held_up_bytes == (nbytes if self.topic.is_held_up else 0)
        assert self.topic.is_held_up == (self.topic in own._held_up)
        if self.durability is Durability.WRITE:
            assert self.topic.log.next_offset == self.topic.log.append_offset


class Written(Commits):
    """At the level ``write`` nobody waits for a sync."""

    durability = Durability.WRITE


class Synced(Commits):
    """At the level ``fsync`` everybody does."""

    durability = Durability.FSYNC


@pytest.fixture(autouse=True, scope="module")
def _loop() -> Iterator[None]:
    Commits.loop = asyncio.new_event_loop()
    yield
    Commits.loop.close()


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FaultyFile, "append", _append)
    monkeypatch.setattr(commits, "MANY", MANY)
    monkeypatch.setattr(commits, "AT_ONCE", 2 * FEW)
    monkeypatch.setattr(commits, "GATHER_NS_MAX", 3600 * 10**9)
    monkeypatch.setattr(commits, "_GATHER_SHARE", 10**9)  # the timer is a rule of its own


TestWritten = Written.TestCase
TestWritten.settings = settings(max_examples=150, stateful_step_count=30, deadline=None)
TestSynced = Synced.TestCase
TestSynced.settings = TestWritten.settings


# --- Where syncs run, on a clock of their own ----------------------------------------------------


class Disk:
    """Its syncs take so long."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.place = SyncPlace(self.clock)
        self.takes_ns = SHORT_NS // 2
        self.error: Exception | None = None

    async def sync(self, after_ns: int = SECOND, *, may_wait: bool = True) -> bool:
        """A sync, so long after the last; whether it ran in the loop."""
        self.clock.advance(after_ns)
        ran_in: list[int] = []
        told = asyncio.get_running_loop().create_future()

        def work() -> None:
            ran_in.append(threading.get_ident())
            self.clock.advance(self.takes_ns)
            if self.error is not None:
                raise self.error

        self.place.run(work, told.set_result, may_wait=may_wait)
        in_loop = told.done()
        assert await asyncio.wait_for(told, TIMEOUT_S) is self.error
        assert in_loop == (ran_in == [threading.get_ident()])
        return in_loop

    async def until_in_loop(self) -> int:
        """How many syncs ran in threads before those in the loop."""
        count = 0
        while not await self.sync():
            count += 1
            assert count < 200
        for _ in range(10):
            assert await self.sync()
        return count


@pytest.fixture
def disk() -> Disk:
    return Disk()


async def test_in_the_loop_once_the_disk_is_known_to_be_fast(disk: Disk) -> None:
    assert 20 < await disk.until_in_loop() < 100


async def test_who_may_not_wait_has_a_thread(disk: Disk) -> None:
    await disk.until_in_loop()
    assert not await disk.sync(may_wait=False)
    assert await disk.sync()


async def test_one_that_takes_very_long_is_the_last_in_the_loop_for_some_time(disk: Disk) -> None:
    await disk.until_in_loop()
    disk.takes_ns = 2 * SHORT_NS
    assert await disk.sync()  # one that is a little longer means nothing yet
    disk.takes_ns = 100 * SHORT_NS
    assert await disk.sync()
    disk.takes_ns = SHORT_NS // 2
    assert 10 < await disk.until_in_loop() < 50


async def test_a_slow_disk_is_never_waited_for_in_the_loop(disk: Disk) -> None:
    disk.takes_ns = 2 * SHORT_NS
    assert not any([await disk.sync() for _ in range(150)])


async def test_the_loop_has_as_long_for_others_between_two(disk: Disk) -> None:
    await disk.until_in_loop()
    assert not await disk.sync(disk.takes_ns - 1)
    await disk.until_in_loop()
    assert await disk.sync(disk.takes_ns)


@pytest.mark.parametrize("may_wait", [True, False])
async def test_an_error_is_told(disk: Disk, may_wait: bool) -> None:
    await disk.until_in_loop()
    disk.error = OSError("no such disk")
    assert await disk.sync(may_wait=may_wait) == may_wait


# --- Syncs in the loop of a disk that may hang ---------------------------------------------------


class Syncs:
    """Syncs of a disk that is known to be fast, and that hangs while ``flows`` is not set."""

    def __init__(self) -> None:
        self.hand = Hand()
        self.place = SyncPlace(FakeClock(), self.hand)
        self.place._mean_ns = 0
        self.flows = threading.Event()
        self.ran_in: list[str] = []
        self.told: asyncio.Queue[Exception | None] = asyncio.Queue()
        self.error: Exception | None = None

    def run(self) -> None:
        self.place.run(self._sync, self.told.put_nowait, may_wait=True)

    def _sync(self) -> None:
        self.ran_in.append(threading.current_thread().name)
        assert self.flows.wait(TIMEOUT_S)
        if self.error is not None:
            raise self.error


@pytest.fixture
def syncs() -> Iterator[Syncs]:
    syncs = Syncs()
    yield syncs
    syncs.flows.set()
    syncs.hand.rest()


async def test_nobody_is_spared_before_the_node_has_started(syncs: Syncs) -> None:
    syncs.flows.set()
    syncs.run()
    assert syncs.told.get_nowait() is None
    assert syncs.ran_in == [threading.current_thread().name]


@pytest.mark.parametrize("error", [None, StorageError("no such disk")])
async def test_the_loop_waits_for_a_short_sync(syncs: Syncs, error: Exception | None) -> None:
    syncs.hand.watch()
    syncs.flows.set()
    syncs.error = error
    syncs.run()
    assert syncs.told.get_nowait() is error
    assert syncs.ran_in == ["penstock-disk"]


@pytest.mark.parametrize("error", [None, StorageError("no such disk")])
async def test_the_loop_goes_on_when_a_sync_hangs(syncs: Syncs, error: Exception | None) -> None:
    syncs.hand.watch()
    syncs.error = error
    syncs.run()
    assert syncs.told.empty()
    syncs.run()  # meanwhile
    syncs.flows.set()
    async with asyncio.timeout(TIMEOUT_S):
        assert [await syncs.told.get() for _ in range(2)] == [error] * 2
    assert syncs.ran_in[0] == "penstock-disk"
    assert syncs.ran_in[1].startswith("penstock-work-"), "that one waits for itself"


async def test_a_mistake_of_who_is_told_is_not_hidden(syncs: Syncs) -> None:
    def done(error: Exception | None) -> None:
        raise DiskHangsError("the write that follows meets it")

    syncs.hand.watch()
    syncs.flows.set()
    with pytest.raises(DiskHangsError, match="that follows"):
        syncs.place.run(syncs._sync, done, may_wait=True)
