"""Rules by which messages come: publishes, commits of writers, and syncs."""

from __future__ import annotations

from hypothesis import note
from hypothesis import strategies as st
from hypothesis.stateful import rule

from penstock.broker.publish.commit import Commit, unplaced
from penstock.core.errors import ReadOnlyError, StorageError
from penstock.nsq.nsqd.nsq_staging import stamped
from penstock.nsq.protocol.bodies import Bodies
from penstock.storage.durability import Durability
from tests.sim.machine import SECOND, Machine


class Publishing(Machine):
    """Producers, and the disk's syncs."""

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
