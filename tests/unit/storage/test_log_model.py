"""A log does what a dict of its messages does, whatever befalls it; hypothesis looks for the story.

What is refused, killed, cut off by a power cut, skipped or let go: readers see what the model says,
nothing that was synced is lost, and none of it is damage, but for a segment that a power cut took.
"""

from __future__ import annotations

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from penstock.core.chance import SystemChance
from penstock.core.errors import DiskFullError, OffsetOutOfRangeError
from penstock.storage import index, long_append
from penstock.storage.batch import Batch, iter_batches
from penstock.storage.cache import BlockCache
from penstock.storage.durability import Durability
from penstock.storage.extent import Extent
from penstock.storage.log import LogOptions, SyncJob
from penstock.storage.recovery.damage import DamageRecord
from penstock.storage.recovery.opening import RecoveryReport, recover
from penstock.storage.retention import Retention
from penstock.testing.disk import FaultyDisk
from tests.unit.storage.logs import DIRECTORY, ID_BASE, batch, everything, frames

COUNTS = st.lists(st.integers(1, 4), min_size=1, max_size=3)
SEEDS = st.integers(0, 1 << 16)


class LogMachine(RuleBasedStateMachine):
    """One log on a disk that fills up, stops and loses its power."""

    @initialize(
        level=st.sampled_from(Durability),
        file_bytes=st.sampled_from([150, 500, 100_000]),
        memory=st.sampled_from([0, 3, 1000]),
        partial=st.booleans(),
    )
    def begin(self, level: Durability, file_bytes: int, memory: int, partial: bool) -> None:
        self.disk = FaultyDisk("/data", DIRECTORY)
        self.disk.leaves_partial_writes = partial
        self.options = LogOptions(file_bytes, memory, level)
        self.kept: list[Batch] = []  # whether readers see them or not
        self.refused: list[Batch] = []  # a kill may find whole ones of several, half written
        self.commits: list[range] = []
        self.durable = 0
        self.known = Extent(0, 0, 0)  # as a journal has it
        self.job: SyncJob | None = None
        self.is_full = False
        self.open()

    def open(self) -> RecoveryReport:
        self.damage = DamageRecord(self.disk, DIRECTORY)
        self.log, report = recover(self.disk, DIRECTORY, ID_BASE, BlockCache(2000), self.options,
                                   self.damage, self.known)  # fmt: skip
        self.job, self.is_full, self.was_full = None, False, False
        return report

    def note(self) -> None:
        self.known = self.log.extent

    def made(self, counts: list[int], *, is_commit: bool = False) -> list[Batch]:
        """Batches to append; those of each life of the log differ from those of others."""
        first, found = self.log.append_offset, []
        for place, count in enumerate(counts):
            size = 12 + self.disk.crashes % 7
            timestamp = 50 + (first * 7 + self.disk.crashes) % 40  # the clock is set back at times
            one = batch(first, count, size=size, timestamp=timestamp, mixed=place % 2 == 1)
            if is_commit:
                one = one.moved(first, ID_BASE + first, timestamp, 0, went_before=place > 0,
                                goes_on=place < len(counts) - 1)  # fmt: skip
            found.append(one)
            first += count
        return found

    def taken(self, batches: list[Batch]) -> None:
        self.kept += batches
        self.refused = []
        assert self.log.append_offset == batches[-1].next_offset

    # --- writing -------------------------------------------------------------------------------

    @rule(counts=COUNTS)
    def append(self, counts: list[int]) -> None:
        batches, before = self.made(counts), self.log.append_offset
        try:
            self.log.append(batches)
        except DiskFullError:
            assert self.is_full
            assert self.log.append_offset == before
            self.refused = batches
        else:
            self.taken(batches)

    @precondition(lambda self: self.log.takes_one)
    @rule()
    def append_one(self) -> None:
        (one,), before = self.made([1]), self.log.append_offset
        try:
            self.log.append_one(one)
        except DiskFullError:
            assert self.is_full
            assert self.log.append_offset == before
        else:
            self.taken([one])

    @rule(counts=COUNTS, is_wanted=st.booleans(), nbytes=st.integers(0, 600))
    def commit(self, counts: list[int], is_wanted: bool, nbytes: int) -> None:
        batches, before = self.made(counts, is_commit=True), self.log.append_offset
        wanted = [Batch.parse(bytes(each.raw)) for each in batches]  # the log may keep heads alone
        written = None
        try:
            written = self.log.begin_append(nbytes)
            for each in batches:
                written.write(each)
        except DiskFullError:
            assert self.is_full
            is_wanted = False
        if is_wanted and written is not None:
            self.log.end_append(written)
            self.taken(wanted)
            self.commits.append(range(before, wanted[-1].next_offset))
        elif written is not None:
            self.log.cancel_append(written)
        assert self.log.failure is None

    # At `memory` what is not written yet is not found from a gap before it.
    @precondition(lambda self: self.options.durability is not Durability.MEMORY)
    @rule(step=st.integers(-3, 9))
    def skip(self, step: int) -> None:
        if self.is_full or self.job is not None:
            return
        self.log.sync()
        offset = self.log.append_offset + step
        before = self.log.append_offset
        self.log.skip_to(offset)
        assert self.log.append_offset == self.log.next_offset == max(offset, before)
        self.durable = self.log.append_offset
        self.note()

    @rule(room=st.integers(0, 120))
    def fill(self, room: int) -> None:
        self.disk.fill(room)
        self.is_full = self.was_full = True

    @rule()
    def heal(self) -> None:
        self.disk.heal()
        self.is_full = False

    # --- syncing and letting go ----------------------------------------------------------------

    @rule(checkpoint=st.booleans())
    def begin_sync(self, checkpoint: bool) -> None:
        pending = self.log.unsynced_messages
        try:
            job = self.log.begin_sync(checkpoint=checkpoint)
        except DiskFullError:
            assert self.is_full
            assert self.options.durability is Durability.MEMORY
            return
        if self.job is not None:
            assert job is None
        else:
            assert job is not None or not pending
            self.job = job

    @precondition(lambda self: self.job is not None)
    @rule()
    def end_sync(self) -> None:
        assert self.job is not None
        before = self.log.next_offset
        self.job.run()
        shown = self.log.end_sync()
        self.durable = max(self.durable, self.job.end)
        if self.options.durability is Durability.FSYNC:
            assert [each.first_offset for each in shown] == [
                each.first_offset
                for each in self.kept
                if before <= each.first_offset < self.job.end
            ]
        else:
            assert shown == []
        self.job = None
        self.note()

    @rule(back=st.integers(0, 12))
    def trim(self, back: int) -> None:
        before = self.log.next_offset - back
        starts = [each.first_offset for each in self.log.segments]

        def about_to(start: int) -> None:
            self.known = Extent(start, self.known.synced, max(start, self.known.end))

        files = self.disk.paths(".log")
        count = self.log.trim(before, 0, Retention(), about_to=about_to)
        assert self.disk.paths(".log") == files[count:]
        if self.job is not None:
            assert count == 0, "a sync may be at the files"
            return
        left = starts[count:]
        assert self.log.start_offset == left[0] <= max(before, starts[0])
        assert len(left) == 1 or left[1] > before
        self.kept = [each for each in self.kept if each.next_offset > left[0]]

    # --- the end -------------------------------------------------------------------------------

    @rule()
    def stop(self) -> None:
        was_full = self.was_full
        if self.job is not None:
            self.end_sync()
        self.heal()
        self.log.close()
        self.durable = self.log.append_offset
        self.note()
        self.disk.crash("written")
        report = self.found_again(is_whole=True)
        assert was_full or report.scanned == 0
        assert was_full or self.log.unsynced_messages == 0

    @rule(file_bytes=st.sampled_from([150, 500, 100_000]), memory=st.sampled_from([0, 3, 1000]))
    def kill(self, file_bytes: int, memory: int) -> None:
        self.options = LogOptions(file_bytes, memory, self.options.durability)
        self.disk.crash("written")
        self.found_again(is_whole=self.options.durability is not Durability.MEMORY)

    @rule(seed=SEEDS)
    def cut_power(self, seed: int) -> None:
        self.disk.crash(SystemChance(seed))
        self.found_again(is_whole=False)
        # It may take a segment that was never synced and leave the next one: that is reported.
        for damage in self.damage.pending:
            assert damage.first >= self.durable
            assert damage.what.startswith("cut short, or without one of its files")
        if self.damage.pending:
            self.damage.accept(self.log.start_offset)
            self.note()

    def found_again(self, *, is_whole: bool) -> RecoveryReport:
        report = self.open()
        found, written = everything(self.log), frames(self.kept)
        assert found.items() <= (frames(self.refused) | written).items()
        assert all(offset in found for offset in written if is_whole or offset < self.durable)
        for commit in self.commits:
            there = [offset in found for offset in commit if offset in written]
            assert all(there) or not any(there), "a commit is whole or gone"
        assert self.durable <= self.log.append_offset
        self.kept = [each for each in self.kept if each.first_offset in found]
        self.kept += [each for each in self.refused if each.first_offset in found]
        self.refused = []
        self.commits = [each for each in self.commits if each[0] in found]
        if self.options.durability is Durability.FSYNC:  # nothing is seen that is not synced
            self.durable = self.log.append_offset
        end = self.kept[-1].next_offset if self.kept else self.log.start_offset
        if self.options.durability is Durability.MEMORY and end < self.log.append_offset:
            # From below a gap, what is not written yet is not found: the story goes on without it.
            self.options = LogOptions(500, 0, Durability.WRITE)
            self.open()
        return report

    # --- reading -------------------------------------------------------------------------------

    def seen(self) -> list[Batch]:
        return [each for each in self.kept if each.next_offset <= self.log.next_offset]

    @invariant()
    def readers_get_what_the_model_has(self) -> None:
        if not hasattr(self, "log"):
            return
        is_at_once = self.options.durability is not Durability.FSYNC
        assert self.log.next_offset == (self.log.append_offset if is_at_once else self.durable)
        assert self.log.copies_end == self.log.next_offset, "for copies nobody waits here"
        assert everything(self.log) == frames(self.seen())
        assert self.damage.pending == []

    @rule(offset=st.integers(-1, 60), nbytes=st.integers(0, 500), time=st.integers(45, 95))
    def look(self, offset: int, nbytes: int, time: int) -> None:
        log, seen = self.log, self.seen()
        later = [each.first_offset for each in self.kept if each.timestamp_ns >= time]
        assert log.offset_at(time) == min([*later[:1], log.next_offset])
        if not log.start_offset <= offset <= log.next_offset:
            with pytest.raises(OffsetOutOfRangeError):
                log.read_raw(offset, nbytes)
            return  # of what was let go, the newest may still be in memory
        behind = [each for each in seen if each.next_offset > offset]
        batches, place = log.batches_at(offset)
        assert [bytes(each.raw) for each in batches[place : place + 1]] == [
            bytes(each.raw) for each in behind[:1]
        ]
        one = log.batch_at(offset)
        is_there = bool(behind) and behind[0].first_offset <= offset
        assert (one is not None) is is_there
        assert one is None or one.raw == behind[0].raw
        raw = [one for piece in log.read_raw(offset, nbytes) for one in iter_batches(piece)]
        wanted, room = behind[:1], nbytes - sum(len(each.raw) for each in behind[:1])
        for each in behind[1:]:
            room -= len(each.raw)
            if room < 0:
                break
            wanted.append(each)
        assert [each.raw for each in raw] == [each.raw for each in wanted]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks so small that a segment has several; of a commit the heads alone stay in memory."""
    monkeypatch.setattr(index, "BLOCK_BYTES", 120)
    monkeypatch.setattr(long_append, "KEPT_BYTES_MAX", 200)


@pytest.mark.usefixtures("small")
def test_a_log_does_what_its_model_does() -> None:
    # To make a story shorter takes minutes, which CI does not have.
    run_state_machine_as_test(
        LogMachine, settings=settings(stateful_step_count=40, phases=[Phase.generate])
    )
