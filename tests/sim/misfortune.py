"""Rules of misfortune: disks that fail, kills, power cuts, flipped bits; and what must be left."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from penstock.core.chance import SystemChance
from penstock.storage.batch import iter_batches
from penstock.storage.durability import Durability
from tests.sim.administration import Administration
from tests.sim.machine import BODY_AT


class Misfortune(Administration):
    """Everything that may befall a broker, each time with a look at what it has kept."""

    rots = True  # bits flip in the journal

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
                        found[o] = bytes(batch.slice(o, o + 1))[BODY_AT:]
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
