"""One topic of a follower: its log and its journal, filled with the primary's bytes.

The index of its queues, where it has several, grows with what can be read, as the primary's does.
Batches are appended as they come, byte for byte; those of one commit become visible together, as at
the primary. Records of the journal wait until the log has reached what they refer to, so a copy
that is promoted at any moment is right in the way in which files are right after a crash.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final, NamedTuple

from penstock.broker.dialects import queue_offset
from penstock.core.errors import StorageError
from penstock.replication.messages import Batches, FollowerTopic, JournalPiece, ReplicationError
from penstock.storage.batch import Batch, Buffer, CorruptBatchError, TruncatedBatchError
from penstock.storage.journal import Journal
from penstock.storage.journal_frames import read_frames
from penstock.storage.log import Log
from penstock.storage.long_append import LongAppend
from penstock.storage.queues.one_queue import OneQueue, Queues
from penstock.storage.recovery.damage import Damage
from penstock.storage.retention import Retention

logger = logging.getLogger(__name__)

LOST_THERE: Final = "the primary has lost these"
"""The record of a gap that is not a fault of the copy."""
WRITE_OUT_BYTES: Final = 256 * 1024
"""The least step in which a copy's appends are written out: much at once would hold up all others
that write to the same disk."""
_AT_ONCE: Final = Retention()
"""The retention of a copy, which keeps nothing for itself: the primary says what is kept."""


OpenQueues = Callable[[dict[int, int] | None], Queues]
"""A way to open a topic's queues: over their index, or a new one that begins as told."""


class _Waiting(NamedTuple):
    """Records that the log has not reached yet, or of which more are to come."""

    records: list[bytes]
    is_whole: bool
    end: int
    is_complete: bool


class TopicCopy:
    """The copy of one topic; ``is_checked`` says that its end was compared with the primary's."""

    def __init__(
        self, name: str, log: Log, journal: Journal, open_queues: OpenQueues | None = None
    ) -> None:
        """Raise StorageError for an index of queues that cannot be opened."""
        self.name = name
        self.log = log
        self.journal = journal
        self._open_queues = open_queues or (lambda firsts: OneQueue(log))
        self.queues = self._open_queues(None)
        self._firsts: dict[int, int] | None = None
        """The beginnings of queues of which the first was the only one; there is no index yet."""
        self._indexed = log.next_offset
        self._lost: int | None = None
        """The last message that the primary has lost, since this copy was opened."""
        self.is_checked = False
        self.is_from_primary = False
        """True if all of it has come from this run of the primary."""
        self.end = log.next_offset
        """The end of the primary's log, as it was last told."""
        self._nbytes_behind = 0
        self._token = ""
        self._position = 0
        self._waiting: _Waiting | None = None
        self._has_unsynced_records = False
        self._commit: LongAppend | None = None
        file = log.segments[-1].file
        self._written_out = file, file.size
        """The newest segment's file, and where the next write-out of it begins."""

    @property
    def fault(self) -> Damage | None:
        """Damage of the copy itself: messages that the primary may have, and this log has not."""
        damage = self.log.damage
        own = (each for each in damage.known if each.messages and each.what != LOST_THERE)
        return next(iter((*damage.pending, *own)), None)

    @property
    def is_waiting(self) -> bool:
        """True if records of the journal wait for the log, or for the rest of them."""
        return self._waiting is not None

    @property
    def messages_behind(self) -> int:
        return max(0, self.end - self.log.next_offset)

    @property
    def nbytes_behind(self) -> int:
        """The bytes of the primary's log that are not here, roughly."""
        return self._nbytes_behind if self.messages_behind else 0

    def held(self) -> FollowerTopic:
        """The content of the copy, for a request."""
        return FollowerTopic(
            self.name,
            self.log.id_base,
            self.next,
            self._mark(),
            self._token,
            self._position,
            self.log.next_offset,
        )

    @property
    def next(self) -> int:
        """The offset to ask for: behind what was appended, even if a commit is not whole yet."""
        written = self._commit.batches if self._commit is not None else []
        return written[-1].next_offset if written else self.log.append_offset

    def _mark(self) -> int:
        # Compared once a run is enough: the logs cannot part while both go on.
        if self.is_checked:
            return 0
        if self._commit is not None and self._commit.batches:
            return self._commit.batches[-1].checksum
        log = self.log
        end = log.append_offset
        last = log.last_of(end) if end > log.start_offset else None
        return 0 if last is None else last.checksum

    def new_run(self) -> None:
        """Compare again: the primary has been started, or is another one."""
        self.is_checked = self.is_from_primary = False
        # A position in a journal holds for one run of the primary.
        self._token, self._position = "", 0
        self._waiting = None

    # --- the log -------------------------------------------------------------------------------

    def append(self, head: Batches, data: Buffer) -> None:
        """Append batches behind those that are here.

        Raises ReplicationError for what does not continue the log, StorageError.
        """
        self.end, self._nbytes_behind = head.end, head.nbytes_left
        is_from_there = head.start == self.log.start_offset
        if head.queues is not None and is_from_there and isinstance(self.queues, OneQueue):
            # Before the messages are here: they do not tell it, should a kill come between the two.
            self.queues = self._open_queues(head.queues)
        run: list[Batch] = []
        for batch in self._checked(data):
            if self._commit is not None or batch.goes_on:
                self._append(run)
                run = []
                self._append_part(batch)
                continue
            end = run[-1].next_offset if run else self.log.append_offset
            if batch.first_offset > end:
                self._append(run)
                run = []
                self._pass_gap(batch.first_offset)
            run.append(batch)
        self._append(run)
        if not len(data) and self._commit is None and head.end > self.log.append_offset:
            self._pass_gap(head.end)  # it has nothing more up to there
        self.is_checked = True

    def _checked(self, data: Buffer) -> Iterator[Batch]:
        """The batches of an answer that are not here yet."""
        view = memoryview(data)
        position = 0
        while position < len(view):
            try:
                batch = Batch.parse(view, position)
            except (CorruptBatchError, TruncatedBatchError) as error:
                raise ReplicationError(f"{self.name}: damaged on the way: {error}") from error
            position += len(batch.raw)
            # Its checksum is right, but the topic may have been made again at the primary.
            if batch.first_id != self.log.id_base + batch.first_offset:
                raise ReplicationError(f"{self.name}: a batch of another log")
            if batch.first_offset >= self.next:
                if batch.queue and self._firsts is None and isinstance(self.queues, OneQueue):
                    self._firsts = {0: self.log.start_offset}  # it was one queue up to here
                yield batch
            # The primary cuts no batch, so its log is another one than was compared.
            elif batch.next_offset > self.next:
                raise ReplicationError(f"{self.name}: a batch that begins within another one")

    def _append(self, run: list[Batch]) -> None:
        if run:
            self.log.append(run)

    def _append_part(self, batch: Batch) -> None:
        """Append a batch of a commit; its batches become visible together, with the last one."""
        if self._commit is None:
            if batch.first_offset > self.log.append_offset:
                self._pass_gap(batch.first_offset)
            # As ``Topic.begin_commit``: a crash leaves all of the commit or none.
            self._commit = self.log.begin_append(batch.nbytes)
        elif batch.first_offset != self.next:
            # Of a commit all comes, or nothing stays: it is asked for again from its start.
            self.cancel_commit()
            raise ReplicationError(f"{self.name}: a commit with a hole, at offset {self.next}")
        try:
            self._commit.write(batch)
            if not batch.goes_on:
                self.log.end_append(self._commit)
                self._commit = None
        except StorageError:
            self.cancel_commit()  # nothing of it is left, so all of it is asked for again
            raise

    def cancel_commit(self) -> None:
        """Cut off a commit that has not come whole; it is asked for again."""
        if self._commit is not None:
            cut, self._commit = self._commit, None
            self.log.cancel_append(cut)

    def _pass_gap(self, offset: int) -> None:
        """Go on behind messages that the primary has lost to damage."""
        # `skip_to` goes on from what is visible: at `fsync` that takes a sync.
        self.log.sync()
        self.log.skip_to(offset, LOST_THERE)
        self._lost = offset - 1

    def trim(self, start: int) -> None:
        """Delete what the primary has deleted, and the queues here have had."""
        if self._firsts is not None:
            return  # they begin where the log does now
        # A message that goes before its queue has had it could never be indexed.
        start = min(start, self._indexed)
        if self.log.trimmable and start > self.log.start_offset:
            self.log.trim(start, 0, _AT_ONCE, about_to=self._note_start)
            self.queues.trim()

    def _note_start(self, start: int) -> None:
        # Both before the log deletes anything: the index holds what goes, and the journal explains
        # the gap to the next start.
        self.queues.secure(start)
        self.journal.note(self.log.extent._replace(start=start))

    # --- its queues ----------------------------------------------------------------------------

    def index(self) -> None:
        """Add to the queues what has become readable. Raises StorageError."""
        if self._firsts is not None:
            self.queues, self._firsts = self._open_queues(self._firsts), None
        elif not isinstance(self.queues, OneQueue):
            for batch in self.read(self._indexed):
                stated = queue_offset(batch) if self._lost is not None else None
                if stated is not None and self._lost is not None:
                    self.queues.pass_over(batch.queue, stated, self._lost)
                self.queues.append(batch)
        self._indexed = self.log.next_offset

    def read(self, offset: int) -> Iterator[Batch]:
        """The readable batches from an offset on. Raises StorageError."""
        end = self.log.next_offset
        while offset < end:
            batches, place = self.log.batches_at(offset)
            found = [each for each in batches[place:] if each.first_offset < end]
            if not found:
                return  # what is left is damaged
            yield from found
            offset = found[-1].next_offset

    # --- the journal ---------------------------------------------------------------------------

    def take_records(self, head: JournalPiece, data: Buffer) -> None:
        """Take frames of the primary's journal. Raises ReplicationError for damaged ones."""
        if head.position and (head.token, head.position) != (self._token, self._position):
            return  # an answer to an earlier request
        raw = bytes(data)
        found = read_frames(raw, self.log.id_base)
        if found.end != len(raw) or found.damage or found.strangers:
            raise ReplicationError(f"{self.name}: the journal was damaged on the way")
        waiting = self._waiting if head.position else None
        if waiting is None:
            waiting = _Waiting([], head.position == 0, 0, is_complete=False)
        waiting.records.extend(found.records)
        self._waiting = waiting._replace(end=found.extent.end, is_complete=not head.nbytes_left)
        self._token, self._position = head.token, head.position + len(raw)

    def settle(self) -> None:
        """Write down the records that waited, if the log has come as far. Raises StorageError."""
        waiting = self._waiting
        # Cursors behind the log's end would pass for a lost tail at a start.
        if waiting is None or not waiting.is_complete or self.log.next_offset < waiting.end:
            return
        try:
            if waiting.is_whole:
                self.journal.replace(waiting.records, self.log.extent)
            else:
                self.journal.append(waiting.records, self.log.extent)
            # ``replace`` syncs what it writes.
            self._has_unsynced_records = not waiting.is_whole
        except StorageError:
            self._token, self._position = "", 0  # all of it again
            self._waiting = None
            raise
        self._waiting = None

    def sync_records(self) -> None:
        """Bring the journal to stable storage, if it is not. Raises StorageError."""
        if self._has_unsynced_records:
            self.journal.sync()
            self._has_unsynced_records = False

    # --- the end -------------------------------------------------------------------------------

    def close_queues(self) -> None:
        """Write the index of the queues and let go of its files. Raises StorageError."""
        self.queues.close()
        self.queues = OneQueue(self.log)

    def write_out(self) -> Callable[[], None] | None:
        """A way to have the system write what was appended since the last time, in any thread;
        None if that is little.
        """
        file = self.log.segments[-1].file
        if file is not self._written_out[0]:
            self._written_out = file, 0
        start = self._written_out[1]
        if file.size - start < WRITE_OUT_BYTES:
            return None
        self._written_out = file, file.size
        return partial(file.write_out, start)

    def sync(self) -> None:
        """Bring log and journal to stable storage, here and now. Raises StorageError."""
        self.log.sync()
        self.journal.sync()

    def close(self) -> None:
        """Sync and close the files. Raises StorageError after closing them."""
        self.cancel_commit()
        try:
            self.close_queues()
            self.log.close()
        finally:
            try:
                self.journal.sync()
            finally:
                self.journal.close()
