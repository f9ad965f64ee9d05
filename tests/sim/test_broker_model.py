"""Broker and log against a simple model, over a disk that fails: hypothesis looks for the story.

``PENSTOCK_SIM=nightly`` searches for long and makes the story that fails a short one; otherwise a
short search, which tells the story as it was.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import note
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from penstock.broker.broker import Broker, BrokerOptions
from penstock.broker.channels.channel import Channel, ChannelOptions, NotInFlightError
from penstock.broker.channels.consumer import Consumer, Delivery
from penstock.broker.publish.commit import Commit, unplaced
from penstock.broker.topic import Topic
from penstock.core.chance import SystemChance
from penstock.core.errors import ReadOnlyError, StorageError
from penstock.nsq.nsqd.nsq_staging import stamped
from penstock.nsq.protocol.bodies import Bodies
from penstock.storage.batch import iter_batches
from penstock.storage.durability import Durability
from penstock.storage.log import Log, LogOptions, SyncJob
from penstock.storage.store import Store
from penstock.testing.clock import FakeClock
from penstock.testing.disk import FaultyDisk
from tests.sim.model import GRAIN_NS, Held, ModelChannel, ModelTopic
from tests.sim.profiles import profile

SECOND = 10**9
TIMEOUT = 5 * SECOND
TIMEOUT_MAX = 12 * SECOND
CHANNELS = ("a", "b", "c")
_ID = slice(18, 34)
_BODY_AT = 34


class Reader:
    """A consumer of the broker under test, and whose deliveries are checked as they come."""

    def __init__(self, machine: BrokerMachine, number: int, channel: Channel) -> None:
        self.machine = machine
        self.number = number
        self.channel = channel
        self.model = machine.model.channels[channel.name]
        self.consumer = Consumer(self.deliver, TIMEOUT)

    def deliver(self, deliveries: list[Delivery]) -> None:
        machine = self.machine
        now = machine.clock.monotonic_ns()
        assert self.consumer.writable
        for delivery in deliveries:
            for offset in range(delivery.first, delivery.next):
                frame = bytes(delivery.batch.slice(offset, offset + 1))
                assert frame[_ID] == b"%016x" % (machine.topic.log.id_base + offset)
                assert frame[_BODY_AT:] == machine.model.bodies[offset]
                machine.hand_out(offset)
                self.model.deliver(offset, delivery.attempts, self.number, now, TIMEOUT)
        assert len(self.held()) <= self.consumer.ready

    def held(self) -> list[int]:
        return sorted(o for o, held in self.model.held.items() if held.consumer == self.number)


class BrokerMachine(RuleBasedStateMachine):
    """One durable topic, its channels and consumers, and everything that may befall them."""

    rots = True  # bits flip in the journal

    @initialize(
        level=st.sampled_from([Durability.WRITE, Durability.FSYNC]),
        file_bytes=st.sampled_from([300, 2000, 100_000]),
        memory=st.sampled_from([0, 2, 50, 10_000]),
        partial=st.booleans(),
        channels=st.integers(0, 2),
    )
    def begin(
        self, level: Durability, file_bytes: int, memory: int, partial: bool, channels: int
    ) -> None:
        self.start(level, file_bytes, memory, partial)
        for name in CHANNELS[:channels]:
            self.make_channel(name)

    def start(self, level: Durability, file_bytes: int, memory: int, partial: bool) -> None:
        self.disk = FaultyDisk("/data")
        self.disk.leaves_partial_writes = partial
        self.clock = FakeClock()
        self.level = level
        self.log_options = LogOptions(file_bytes, memory, level)
        self.options = BrokerOptions(channel=ChannelOptions(memory, TIMEOUT_MAX))
        self.model = ModelTopic()
        self.serial = 0
        self.trimmed = 0
        self.readers: list[Reader] = []
        self.job: tuple[SyncJob, int] | None = None  # and up to where it syncs
        self.handed: set[int] = set()  # seen by somebody, and not to be lost any more
        self.commits: dict[int, list[bytes]] = {}  # bodies by batch, done or tried
        self.ghosts: dict[bytes, int] = {}  # refused, and when due: after a crash they may be there
        self.doubtful = False  # progress could not be written down
        self.rotted = False  # the topic may not remember all that it gave to its channels
        self.broken = False  # a sync failed
        self.suspect: set[int] = set()  # by it; no later sync can make these durable
        self.may_be_told = False  # that a power cut took some of these, which were seen meanwhile
        self.open()

    def open(self) -> None:
        self.untrimmed = False  # the last attempt to trim has failed, or there is damage
        store = Store(self.disk, "/data", self.log_options)
        self.broker = Broker(store, self.clock, SystemChance(1), self.options)
        self.topic: Topic = self.broker.topic("t")
        assert isinstance(self.topic.log, Log)
        self.log: Log = self.topic.log

    # --- publishing ----------------------------------------------------------------------------

    @rule(
        sizes=st.lists(st.integers(0, 60), min_size=1, max_size=8),
        equal=st.booleans(),
        delay=st.sampled_from([0, 0, 0, 1, 3 * SECOND, 20 * SECOND]),
        parts=st.integers(1, 3),
    )
    def publish(self, sizes: list[int], equal: bool, delay: int, parts: int) -> None:
        groups: list[list[bytes]] = []
        outcomes: list[StorageError | None] = []
        for _ in range(parts):
            bodies = [self.body(sizes[0] if equal else size) for size in sizes]
            groups.append(bodies)
            self.topic.stage(Bodies.from_list(bodies), delay, outcomes.append)
        before = self.log.append_offset
        told, error = self.topic.commit()
        assert len(told) == parts
        bodies = [body for group in groups for body in group]
        due = self.clock.monotonic_ns() + delay if delay else 0
        if error is not None:
            note(f"refused: {error}")
            assert self.log.append_offset == before
            assert not self.broken or isinstance(error, ReadOnlyError)
            self.ghosts |= dict.fromkeys(bodies, due)
            return
        assert not self.broken, "a log whose sync failed takes nothing"
        self.model.publish(bodies, due)
        if self.level is not Durability.FSYNC:
            self.show(self.model.append_offset)

    @rule(size=st.integers(0, 60))
    def publish_one(self, size: int) -> None:
        """Publish a message by the straight line, where that is open."""
        if not self.topic.takes_one:
            return
        body = self.body(size)
        before = self.log.append_offset
        try:
            self.topic.publish_one(Bodies.single(body))
        except StorageError as error:
            note(f"refused: {error}")
            assert self.log.append_offset == before
            self.ghosts[body] = 0
            return
        self.model.publish([body], 0)
        self.show(self.model.append_offset)

    @rule(
        sizes=st.lists(st.integers(0, 60), min_size=1, max_size=4),
        delays=st.lists(st.sampled_from([0, 0, SECOND]), min_size=1, max_size=5),
    )
    def commit_parts(self, sizes: list[int], delays: list[int]) -> None:
        """Commit a batch of parts, each with a delay: all of it or nothing."""
        if not self.topic.writers.begun:
            self.topic.journal.save_now()  # as the first commit does
            self.progress_written()
        batch = self.serial
        groups = [[self.body(size) for size in sizes] for _ in delays]
        parts = [(Bodies.from_list(g), d) for g, d in zip(groups, delays, strict=True)]
        self.commits[batch] = [body for group in groups for body in group]
        now = self.clock.monotonic_ns()
        dues = [now + delay if delay else 0 for delay in delays]
        before = self.log.append_offset
        try:
            made = self.topic.begin_commit("w", batch, 0)
            self.fill_commit(made, parts)
            self.topic.end_commit(made, 0)
        except StorageError as error:
            note(f"refused: {error}")
            assert self.log.append_offset == before
            for group, due in zip(groups, dues, strict=True):
                self.ghosts |= dict.fromkeys(group, due)
            if self.log.failure is not None and not self.broken:  # what was written is not cut off
                self.sync_failed()
        else:
            assert not self.broken
            for group, due in zip(groups, dues, strict=True):
                self.model.publish(group, due)
            if self.level is not Durability.FSYNC:
                self.show(self.model.append_offset)
        self.doubtful = self.doubtful or not self.topic.journal.written

    @staticmethod
    def fill_commit(made: Commit, parts: list[tuple[Bodies, int]]) -> None:
        try:
            for records, delay in parts:
                made.add(unplaced(records, delay), stamped)
            made.finish()
        except StorageError:
            made.cancel()
            raise

    def show(self, end: int) -> None:
        """Make the messages below this offset visible in the model."""
        self.model.show(end)
        self.dispatch()

    def hand_out(self, offset: int) -> None:
        """Note that a message was seen: at ``fsync`` no other one may ever get its offset."""
        if self.level is Durability.FSYNC and offset not in self.suspect:
            self.handed.add(offset)

    def body(self, size: int) -> bytes:
        self.serial += 1
        return b"%06d:" % self.serial + b"x" * size

    @rule()
    def begin_sync(self) -> None:
        if self.job is None:
            try:
                job = self.log.begin_sync(checkpoint=self.serial % 3 == 0)
            except StorageError:
                return
            if job is not None:
                self.job = job, self.model.append_offset

    @rule()
    def end_sync(self) -> None:
        if self.job is None:
            return
        job, end = self.job
        self.job = None
        try:
            job.run()
        except StorageError as error:
            self.sync_failed()
            self.topic.end_sync(error)
        else:
            self.topic.end_sync(None)
            self.model.durable |= {o for o in self.model.bodies if o < end} - self.suspect
            if self.level is Durability.FSYNC:
                self.show(end)

    def sync_failed(self) -> None:
        self.broken = True
        self.may_be_told = self.level is not Durability.FSYNC  # or it is written again
        self.suspect |= set(self.model.bodies) - self.model.durable  # what came since, too

    # --- channels and consumers ----------------------------------------------------------------

    @rule(name=st.sampled_from(CHANNELS))
    def make_channel(self, name: str) -> None:
        forgotten = range(self.topic.head, self.model.head) if self.rotted else range(0)
        self.topic.channel(name)
        if name not in self.model.channels:
            self.model.channels[name] = ModelChannel(self.model.head)
            self.model.channels[name].may_come |= self.model.bodies.keys() & set(forgotten)
            self.progress_written()
            self.add_reader(name, 5)
        self.topic.distribute()
        self.model.distribute()
        self.dispatch()

    @precondition(lambda self: len(self.model.channels) > 1)
    @rule(data=st.data())
    def delete_channel(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.model.channels)))
        self.topic.delete_channel(name)
        self.readers = [reader for reader in self.readers if reader.channel.name != name]
        del self.model.channels[name]
        self.progress_written()

    @precondition(lambda self: self.model.channels and len(self.readers) < 4)
    @rule(data=st.data(), ready=st.integers(1, 9))
    def subscribe(self, data: st.DataObject, ready: int) -> None:
        self.add_reader(data.draw(st.sampled_from(sorted(self.model.channels))), ready)

    def add_reader(self, name: str, ready: int) -> None:
        self.serial += 1
        reader = Reader(self, self.serial, self.topic.channels[name])
        reader.channel.add_consumer(reader.consumer)
        self.readers.append(reader)
        self.set_ready(reader, ready)

    @precondition(lambda self: self.readers)
    @rule(data=st.data(), ready=st.integers(0, 9))
    def change_ready(self, data: st.DataObject, ready: int) -> None:
        self.set_ready(data.draw(st.sampled_from(self.readers)), ready)

    def set_ready(self, reader: Reader, ready: int) -> None:
        reader.consumer.ready = max(ready, len(reader.held()))
        reader.channel.refresh(reader.consumer)
        self.dispatch()

    @precondition(lambda self: self.readers)
    @rule(data=st.data())
    def stall_or_resume(self, data: st.DataObject) -> None:
        reader = data.draw(st.sampled_from(self.readers))
        reader.consumer.writable = not reader.consumer.writable
        reader.channel.refresh(reader.consumer)
        self.dispatch()

    @precondition(lambda self: self.readers)
    @rule(data=st.data())
    def unsubscribe(self, data: st.DataObject) -> None:
        reader = data.draw(st.sampled_from(self.readers))
        self.readers.remove(reader)
        reader.channel.remove_consumer(reader.consumer)
        reader.channel.refresh(reader.consumer)
        self.dispatch()

    @precondition(lambda self: any(reader.model.held for reader in self.readers))
    @rule(data=st.data(), shuffled=st.booleans(), strange=st.booleans())
    def finish(self, data: st.DataObject, shuffled: bool, strange: bool) -> None:
        reader = data.draw(st.sampled_from([r for r in self.readers if r.model.held]))
        offsets = reader.held()
        if shuffled:
            offsets = data.draw(st.permutations(offsets))
        offsets = offsets[: data.draw(st.integers(0, len(offsets)))]
        wrong = []
        if strange:
            foreign = [o for o, held in reader.model.held.items() if held.consumer != reader.number]
            wrong = [self.log.next_offset + 7, -1, *foreign[:2]]
            wrong += offsets[:1]  # the second time it is not in flight any more
        expected = sorted(wrong)
        failed = reader.channel.finish(reader.consumer, np.array([*offsets, *wrong], np.int64))
        assert sorted(failed) == expected
        for offset in offsets:
            reader.model.finish(offset)
        self.dispatch()

    @precondition(lambda self: any(reader.held() for reader in self.readers))
    @rule(data=st.data(), delay=st.sampled_from([0, 0, 2 * SECOND, 30 * SECOND]))
    def requeue(self, data: st.DataObject, delay: int) -> None:
        reader = data.draw(st.sampled_from([r for r in self.readers if r.held()]))
        offset = data.draw(st.sampled_from(reader.held()))
        now = self.clock.monotonic_ns()
        reader.channel.requeue(reader.consumer, offset, delay, now)
        reader.model.let_go(offset, now + delay if delay else 0)
        self.dispatch()

    @precondition(lambda self: any(reader.held() for reader in self.readers))
    @rule(data=st.data())
    def touch(self, data: st.DataObject) -> None:
        reader = data.draw(st.sampled_from([r for r in self.readers if r.held()]))
        offset = data.draw(st.sampled_from(reader.held()))
        now = self.clock.monotonic_ns()
        reader.channel.touch(reader.consumer, offset, now)
        held = reader.model.held[offset]
        reader.model.held[offset] = Held(
            held.consumer, min(now + TIMEOUT, held.delivered + TIMEOUT_MAX), held.delivered
        )

    @precondition(lambda self: self.readers)
    @rule(data=st.data())
    def refuse(self, data: st.DataObject) -> None:
        reader = data.draw(st.sampled_from(self.readers))
        now = self.clock.monotonic_ns()
        with pytest.raises(NotInFlightError):
            reader.channel.requeue(reader.consumer, self.log.next_offset, 0, now)
        with pytest.raises(NotInFlightError):
            reader.channel.touch(reader.consumer, -1, now)

    # --- time and administration ---------------------------------------------------------------

    @rule(ns=st.sampled_from([1, SECOND, 3 * SECOND, TIMEOUT, 40 * SECOND]))
    def advance(self, ns: int) -> None:
        self.clock.advance(ns)
        now = self.clock.monotonic_ns()
        channels = self.broker.tick(now)
        self.note_timeouts(now)
        for channel in channels:
            channel.dispatch(now)

    def note_timeouts(self, now: int) -> None:
        for name, channel in self.topic.channels.items():
            model = self.model.channels[name]
            still = {
                o for f in channel.state.holders() for a, b, _ in f.ranges() for o in range(a, b)
            }
            for offset, held in list(model.held.items()):
                if offset in still:
                    assert now < held.deadline + GRAIN_NS, f"{offset} should have timed out"
                else:
                    assert now >= held.deadline, f"{offset} timed out too early"
                    model.let_go(offset)
            assert still == set(model.held)

    @rule(which=st.sampled_from(("topic", *CHANNELS)))
    def pause_or_unpause(self, which: str) -> None:
        if which == "topic":
            self.model.paused = not self.model.paused
            if self.model.paused:
                self.topic.pause()
            else:
                self.model.distribute()
                self.topic.unpause()
            self.progress_written()
        elif which in self.model.channels:
            model, channel = self.model.channels[which], self.topic.channels[which]
            model.paused = not model.paused
            if model.paused:
                channel.pause()
            else:
                channel.unpause()
        self.dispatch()

    @rule(which=st.sampled_from(("topic", *CHANNELS)))
    def empty(self, which: str) -> None:
        if which == "topic":
            waits = self.topic.depth > 0
            self.topic.empty()
            self.model.empty()
            if waits:  # or there was nothing to write down
                self.progress_written()
        elif which in self.model.channels:
            self.topic.channels[which].empty()
            self.model.channels[which].empty()

    @rule(name=st.sampled_from(["g", "h"]), fraction=st.floats(0, 1))
    def commit_group(self, name: str, fraction: float) -> None:
        start, end = self.log.start_offset, self.log.next_offset
        self.model.groups[name] = start + int(fraction * (end - start))
        self.topic.commit_group(name, self.model.groups[name])

    @rule()
    def save(self) -> None:
        self.broker.save()
        if self.topic.changed:
            assert self.broker.health is not None
            self.doubtful = True
            return
        assert self.broker.health is None or self.topic.damage.pending or self.untrimmed
        self.doubtful = False
        for channel in self.model.channels.values():
            channel.saved()

    @rule()
    def trim(self) -> None:
        before = self.log.start_offset
        self.broker.trim()
        self.untrimmed = self.broker.health is not None  # the disk may have failed
        start = self.log.start_offset
        self.trimmed = max(start, self.trimmed)  # of what was, a power cut may bring back a part
        # A kill forgets how far a group was when it let go of the log's start: then it is behind.
        assert start == before or start <= min([self.model.head, *self.model.groups.values()])
        for channel in self.model.channels.values():
            assert start <= min(channel.owed, default=start)

    def progress_written(self) -> None:
        """The topic has written its progress down by itself, unless the disk did not let it."""
        if self.topic.changed:
            self.doubtful = True
            return
        self.doubtful = False
        for channel in self.model.channels.values():
            channel.synced()

    def dispatch(self) -> None:
        for channel in self.topic.channels.values():
            channel.dispatch(self.clock.monotonic_ns())

    def carry_dead_letters(self, channel: Channel) -> None:
        """There are none where attempts have no limit."""

    # --- misfortune ----------------------------------------------------------------------------

    @rule(room=st.integers(0, 2000))
    def fill_disk(self, room: int) -> None:
        self.disk.fill(room)

    @rule()
    def heal_disk(self) -> None:
        self.disk.heal()

    @rule(
        fault=st.sampled_from(
            [
                ("append", ".log"),
                ("append", ".journal"),
                ("replace", ".journal"),
                ("sync", ".journal"),
                ("read", ".log"),
                ("open", ".log"),
                ("replace", ".index"),
                ("sync_directory", ""),
            ]
        ),
        nth=st.integers(1, 3),
    )
    def disk_error(self, fault: tuple[Any, str], nth: int) -> None:
        self.disk.fail(fault[0], nth, within=fault[1])

    @rule()
    def sync_error(self) -> None:
        self.disk.fail("sync", within=".log")

    @rule()
    def restart(self) -> None:
        self.disk.heal()
        self.end_sync()
        self.broker.close()
        self.reopen(clean=not self.broken, power_cut=False)

    @rule()
    def kill(self) -> None:
        self.disk.crash("written")
        self.reopen(clean=False, power_cut=False)

    @rule(seed=st.integers(0, 2**32))
    def cut_power(self, seed: int) -> None:
        self.disk.crash(SystemChance(seed))
        self.reopen(clean=False, power_cut=True)

    @precondition(lambda self: self.rots and not self.doubtful and not self.broken)
    @rule(bit=st.integers(0, 2**20))
    def rot_journal(self, bit: int) -> None:
        """A kill and a flipped bit: nothing is lost, though finished messages may come again."""
        self.disk.crash("written")
        path = "/data/topics/t@0/cursors.journal"
        self.disk.flip(path, bit % (8 * len(self.disk.content(path))))
        self.readers.clear()
        self.job = None
        self.open()
        self.topic.paused = self.model.paused  # as nsqd.dat has it
        for name in set(self.topic.channels) - set(self.model.channels):
            self.topic.delete_channel(name)  # the record of its deletion was the one
        for name, channel in self.model.channels.items():
            self.topic.listed_channel(name).paused = channel.paused
            channel.may_come_from(self.model.due)
            channel.restart(set(self.model.bodies) - channel.owed, clean=False, power_cut=True)
        self.rotted = True
        self.topic.distribute()
        self.compare_log(power_cut=False)
        if self.topic.head > self.model.head:  # the record of a pause was the one
            paused, self.model.paused = self.model.paused, False
            self.model.distribute()
            self.model.paused = paused
        self.model.groups = dict(self.topic.groups)
        self.model.distribute()
        assert self.topic.journal.save_now()  # as housekeeping does, before anything else happens
        self.progress_written()
        if bit % 2:
            assert self.topic.accept_damage()
        for name in list(self.model.channels)[:2]:
            self.add_reader(name, 9)

    def reopen(self, *, clean: bool, power_cut: bool) -> None:
        self.readers.clear()
        self.job = None
        self.open()
        may_be_told = self.rotted or self.doubtful or self.may_be_told
        assert may_be_told or not self.topic.damage.pending
        if self.doubtful and not clean:
            self.start_over()
            return
        self.doubtful = self.broken = False
        self.compare_log(power_cut)
        for name, channel in self.model.channels.items():
            forgotten = set() if clean else set(channel.unsaved)
            if power_cut:
                forgotten |= channel.unsynced
            if not clean:
                channel.may_come_from(self.model.due)
            channel.restart(forgotten & set(self.model.bodies), clean, power_cut)
            self.topic.channels[name].paused = channel.paused  # as nsqd.dat has it
        assert set(self.topic.channels) == set(self.model.channels)
        assert self.topic.paused == self.model.paused
        if clean:
            assert self.topic.groups == self.model.groups
        self.model.groups = dict(self.topic.groups)
        self.model.distribute()
        for name in list(self.model.channels)[:2]:
            self.add_reader(name, 9)

    def compare_log(self, power_cut: bool) -> None:
        found = self.read_log()
        start = self.log.start_offset
        for offset, body in found.items():
            known = self.model.bodies.get(offset)
            if known is None and offset >= self.model.next_offset and body in self.ghosts:
                self.model.bodies[offset] = known = body
                if self.ghosts[body]:
                    self.model.due[offset] = self.ghosts[body]
            assert body == known, f"offset {offset} holds what was not published there"
        self.compare_commits(found)
        lost = {o for o in self.model.bodies if o >= max(start, self.trimmed) and o not in found}
        assert power_cut or not lost
        assert not lost & self.model.durable, "a power cut took what was synced"
        for offset in lost:
            del self.model.bodies[offset]
            self.model.due.pop(offset, None)
        if power_cut or self.level is Durability.FSYNC:
            self.suspect.clear()  # what is there now is on the disk
        if self.level is Durability.FSYNC:
            self.model.durable |= set(self.model.bodies) - self.suspect
        for channel in self.model.channels.values():
            channel.drop(lost)
        assert not self.broken or power_cut or not lost
        self.model.next_offset = self.model.append_offset = self.log.next_offset
        assert self.topic.head <= self.log.next_offset
        self.model.head = min(self.model.head, self.log.next_offset)
        if (self.model.paused or not self.model.channels) and not self.rotted:
            assert self.topic.head == self.model.head

    def compare_commits(self, found: dict[int, bytes]) -> None:
        """Of each commit all is there or nothing, and the writer's last one is known."""
        offsets = {body: offset for offset, body in found.items()}
        newest = -1
        for batch, bodies in self.commits.items():
            there = [offsets[body] for body in bodies if body in offsets]
            if there and there[0] > max(self.log.start_offset, self.trimmed):
                assert len(there) == len(bodies), f"a part of batch {batch} is there"
            if there:
                newest = batch
        last = self.topic.writers.last("w")
        assert (-1 if last is None else last) >= newest
        if last is not None and last > newest:  # its messages were there, and may be gone for good
            assert last in self.commits
            may_be_lost = self.trimmed or self.rotted or self.may_be_told
            record = self.topic.writers.record("w")
            assert record is not None
            lost = any(a < record.end <= b for a, b in self.log.damage.lost_ranges())
            assert may_be_lost or not lost, "a commit that was lost counts as done"

    def read_log(self) -> dict[int, bytes]:
        found = {}
        offset = self.log.start_offset
        while pieces := self.log.read_raw(offset, 500):
            for piece in pieces:
                for batch in iter_batches(piece):
                    offset = batch.next_offset
                    for o in range(batch.first_offset, batch.next_offset):
                        found[o] = bytes(batch.slice(o, o + 1))[_BODY_AT:]
                        self.hand_out(o)
        return found

    def start_over(self) -> None:
        """Progress could not be written before the crash: all that is sure is the log."""
        self.broker.close()
        broken = self.model.durable if self.level is Durability.FSYNC else set()
        found = self.read_after_failure()
        start = max(self.trimmed, min(found, default=0))
        assert broken & {o for o in self.model.bodies if o >= start} <= set(found)
        self.start(self.level, self.log_options.max_bytes_per_file,
                   self.log_options.mem_queue_size, self.disk.leaves_partial_writes)  # fmt: skip

    def read_after_failure(self) -> dict[int, bytes]:
        self.open()
        found = self.read_log()
        for offset, body in found.items():
            # What was written there and not synced may have given way to a refused message.
            is_ghost = body in self.ghosts and offset not in self.model.durable
            assert self.model.bodies.get(offset, body) == body or is_ghost
        return found

    # --- always --------------------------------------------------------------------------------

    @invariant()
    def counts_agree(self) -> None:
        if not hasattr(self, "topic"):
            return
        assert self.log.next_offset == self.model.next_offset
        assert self.log.append_offset == self.model.append_offset
        for name, channel in self.topic.channels.items():
            model = self.model.channels[name]
            assert channel.state.in_flight_count == len(model.held), name
            waiting = (
                channel.state.depth + channel.state.deferred_count + channel.state.in_flight_count
            )
            assert waiting >= len(model.owed), f"{name}: {waiting} of {len(model.owed)}"
            assert channel.state.depth >= 0

    @invariant()
    def what_can_be_seen_at_fsync_survives_a_power_cut(self) -> None:
        if not hasattr(self, "topic") or self.level is not Durability.FSYNC:
            return
        seen = {o for o in self.model.bodies if o < self.log.next_offset}
        assert seen - self.suspect <= self.model.durable
        assert self.log.append_offset > max(self.handed, default=-1), "given out twice"

    def teardown(self) -> None:
        """In the end every channel gets all that it is owed."""
        if not hasattr(self, "topic"):
            return
        self.disk.heal()
        self.end_sync()
        self.begin_sync()
        self.end_sync()  # what is published has arrived by now
        self.model.paused = False
        self.topic.unpause()
        self.model.distribute()
        for reader in self.readers:
            reader.channel.remove_consumer(reader.consumer)
        self.readers.clear()
        for name in self.model.channels:
            self.drain(name)

    def drain(self, name: str) -> None:
        channel, model = self.topic.channels[name], self.model.channels[name]
        channel.paused = model.paused = False
        reader = Reader(self, -1, channel)
        reader.consumer.ready = 7
        channel.add_consumer(reader.consumer)
        channel.refresh(reader.consumer)
        for _ in range(500):
            self.carry_dead_letters(channel)
            channel.dispatch(self.clock.monotonic_ns())
            held = reader.held()
            if not held and not model.owed:
                break
            assert not channel.finish(reader.consumer, np.array(held, np.int64))
            for offset in held:
                model.finish(offset)
            if not held:
                self.advance(7 * SECOND)
        assert not model.owed, f"channel {name} never got {sorted(model.owed)[:10]}"
        channel.remove_consumer(reader.consumer)


def test_broker_does_what_the_model_does() -> None:
    run_state_machine_as_test(BrokerMachine, settings=profile())
