"""The log of one topic queue: append batches, read them by offset, let the old ones go.

Theory of operation. Appends go to the newest segment and, in memory, to the tail; both hold the
same bytes. A reader asks for the batches at an offset and gets them from the tail or, further
back, from a block of a segment file. A batch is written with one call before ``append`` returns
(level ``write``), or a little later (level ``memory``); syncing is a job that the caller runs
where it does not block and reports back. After a failed sync the log is read-only: nobody can say
any more what the file holds, so nothing is acknowledged until a restart has read it. At ``fsync``
the restart writes it again, as no sync would; below, if a power cut takes it, that is reported.

Readers see the log up to ``next_offset``, the high watermark; writers continue at
``append_offset``. The two differ at the level ``fsync``, where messages become visible when they
are synced, and where copies are awaited: a power cut takes unsynced messages, a promoted copy lacks
those that it did not have, and their offsets and ids are then given to others, so no reader may
have seen them.
"""

from __future__ import annotations

import logging
import os
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, takewhile
from typing import Final, Protocol

from penstock.core.errors import (
    DiskHangsError,
    OffsetOutOfRangeError,
    ReadOnlyError,
    StorageError,
    TooManyFilesError,
)
from penstock.storage.batch import Batch
from penstock.storage.cache import BlockCache
from penstock.storage.durability import Durability
from penstock.storage.extent import Extent
from penstock.storage.files.disk import Disk, LogFile
from penstock.storage.long_append import LongAppend
from penstock.storage.recovery.damage import Damage, DamageRecord
from penstock.storage.retention import Retention
from penstock.storage.segment import Segment
from penstock.storage.tail import Tail

logger = logging.getLogger(__name__)

# The level `memory` gains by writing many publishes at once. This bounds what a killed process
# takes with it.
UNWRITTEN_BYTES_MAX: Final = 1024 * 1024
UNSEEN_BYTES_MAX: Final = 256 * 1024 * 1024
"""The most bytes that may wait in memory for a sync or a copy; beyond it, appends are refused."""
# The newest segment's index is written again each time it has grown by this. So a start after a
# kill reads about that much of each log, not a whole segment.
CHECKPOINT_BYTES: Final = 16 * 1024 * 1024
DOOMED: Final = ".deleted"
"""The suffix of the directory of a deleted log, until its files are removed."""

Ahead = Callable[[int], int]
BatchRun = tuple[Sequence[Batch], int]
_NOTHING: Final[BatchRun] = ((), 0)


def _never_set(_offset: int) -> int:
    return 0


@dataclass(slots=True)
class LogOptions:
    """Options of a queue's log. Sizes in bytes unless named otherwise."""

    max_bytes_per_file: int = 100 * 1024 * 1024
    mem_queue_size: int = 10_000  # messages of the tail
    durability: Durability = Durability.WRITE
    awaits_copies: bool = False
    """Messages become visible by ``Log.show``, when other nodes have them."""


class ReadableLog(Protocol):
    """The interface of a log, on disk or in memory, that a channel needs."""

    id_base: int

    @property
    def start_offset(self) -> int: ...

    @property
    def next_offset(self) -> int: ...

    def batches_at(self, offset: int) -> BatchRun: ...

    def batch_at(self, offset: int) -> Batch | None: ...


@dataclass(slots=True)
class SyncJob:
    """Files to sync, prepared by ``Log.begin_sync``; ``run`` may be called in any thread."""

    disk: Disk
    directory: str
    files: list[LogFile]
    index_files: list[tuple[str, bytes]] = field(default_factory=list)
    sync_directory: bool = False
    finished: list[Segment] = field(default_factory=list)
    messages: int = 0
    end: int = 0
    """The log is synced up to this offset when the job has run."""
    growing: LogFile | None = None

    def run(self) -> None:
        """Sync. Raises StorageError, after which the log must not be trusted with more, or
        TooManyFilesError, after which it may be tried again.
        """
        # Here, not in an append that a publisher waits for. The sync below brings the zeros to the
        # disk, so later ones find a file that does not grow.
        if self.growing is not None:
            self.growing.reserve()
        # First, so that a name that survives a power cut leads to whole bytes.
        for file in self.files:
            file.sync()
        if self.sync_directory:
            self.disk.sync_directory(self.directory)
        # Last: an index promises that its segment is on disk up to its end. It needs no sync: a
        # torn one fails its checksum, and the segment is read instead.
        for path, data in self.index_files:
            try:
                self.disk.replace_file(path, data, sync=False)
            except StorageError as error:  # it only saves reading the segment at the next start
                logger.warning("cannot write an index file - %s", error)


class Log:
    """The durable log of one queue. Made by ``penstock.storage.recovery.opening.open_log``."""

    def __init__(
        self,
        disk: Disk,
        directory: str,
        segments: list[Segment],
        id_base: int,
        cache: BlockCache,
        options: LogOptions,
        damage: DamageRecord | None = None,
    ) -> None:
        assert segments, "a log has at least the segment it appends to"
        self.disk = disk
        self.directory = directory
        self.id_base = id_base
        self.options = options
        self.failure: StorageError | None = None
        self.damage = damage or DamageRecord()
        self.unsynced_messages = 0
        self.synced_offset = 0  # everything below is known to be synced
        self.next_offset = self.append_offset = segments[-1].next_offset
        self._segments = segments
        self._starts = _starts(segments)
        self._cache = cache
        self._tail = Tail(options.mem_queue_size)
        self._unwritten: list[Batch] = []
        self._unwritten_bytes = 0
        is_fsync = options.durability is Durability.FSYNC
        self._hides = is_fsync or options.awaits_copies
        self._unseen: deque[Batch] = deque()  # appended, not synced or copied
        self._unseen_bytes = 0
        # Full, and perhaps only in the page cache: the next sync covers them with the newest one.
        self._finished_unsynced: list[Segment] = []
        self._new_files = True
        self._checkpoint_size = 0
        self._job: SyncJob | None = None

    # --- writing -------------------------------------------------------------------------------

    @property
    def next_id(self) -> int:
        """The id that the next message must carry."""
        return self.id_base + self.append_offset

    def append(self, batches: Sequence[Batch]) -> None:
        """Append batches, the first with ``append_offset`` and ``next_id``, in one write.

        When it returns, they have the log's durability level and are visible; at ``fsync`` both
        also need a sync job. Raises DiskFullError, StorageError or ReadOnlyError, and then the log
        is unchanged.
        """
        self._require_writable()
        offset = self.append_offset
        for batch in batches:
            assert batch.first_offset == offset, "batches of a log are dense"
            assert batch.first_id == self.id_base + offset, "an id is the base plus the offset"
            offset = batch.next_offset
        self._write(batches)
        self.unsynced_messages += offset - self.append_offset
        self.append_offset = offset
        if self._hides:
            self._unseen.extend(batches)
            self._unseen_bytes += sum([len(batch.raw) for batch in batches])
            return
        self.next_offset = offset
        for batch in batches:
            self._tail.append(batch)

    @property
    def takes_one(self) -> bool:
        """True if ``append_one`` may be called: what is appended is written and seen at once."""
        is_at_once = self.options.durability is Durability.WRITE and not self._hides
        return self.failure is None and is_at_once

    def append_one(self, batch: Batch) -> None:
        """Append a batch at ``append_offset``; ``append`` without its choices.

        Raises DiskFullError or StorageError, and then the log is unchanged.
        """
        segment = self._segment_for(len(batch.raw), batch.first_offset)
        position = segment.file.size
        segment.file.append(batch.raw)
        segment.note(batch, position)
        self.unsynced_messages += batch.count
        self.next_offset = self.append_offset = batch.next_offset
        self._tail.append(batch)

    def _require_writable(self) -> None:
        if self.failure is not None:
            raise ReadOnlyError(f"{self.directory}: read-only after a failed sync: {self.failure}")
        # What is about to be added does not count: an append larger than the limit must still get
        # in once nothing else waits.
        if self._unseen_bytes > UNSEEN_BYTES_MAX:
            slow, waited = "the disk is", "sync"
            if self.options.awaits_copies:
                slow, waited = "its copies are", "copy"
            raise StorageError(
                f"{self.directory}: {slow} too slow: {self._unseen_bytes} bytes wait for a {waited}"
            )

    def begin_append(self, nbytes: int) -> LongAppend:
        """Begin to append about ``nbytes``, which need not be in memory together.

        Until ``end_append`` nothing else may be appended. Raises StorageError or ReadOnlyError.
        """
        self._require_writable()
        # At the level `memory` batches may be held back that come before these in the file.
        self.flush()
        return LongAppend(self._segment_for(nbytes, self.append_offset).file)

    def end_append(self, written: LongAppend) -> None:
        """Take in what was written, as ``append`` does. Raises StorageError or ReadOnlyError, and
        then the log is unchanged.
        """
        self._require_writable()
        batches = written.batches
        assert batches[0].first_offset == self.append_offset, "nothing else was appended"
        self._segments[-1].take(batches)
        self.unsynced_messages += batches[-1].next_offset - self.append_offset
        self.append_offset = batches[-1].next_offset
        if self._hides:
            self._unseen.extend(batches)
            self._unseen_bytes += sum([len(batch.raw) for batch in batches])
            return
        self.next_offset = self.append_offset
        for batch in batches:
            self._remember(batch)

    def cancel_append(self, written: LongAppend) -> None:
        """Cut off what was written, in any thread. Where that fails the log is read-only: a start
        looks for commits that are not whole.
        """
        try:
            written.drop()
        except StorageError as error:
            self.failure = error

    def _remember(self, batch: Batch) -> None:
        """Keep a batch for consumers that keep up, unless only its head is here."""
        if batch.is_head:
            self._tail.clear()
        else:
            self._tail.append(batch)

    def flush(self) -> None:
        """Write what the ``memory`` level still holds back."""
        if self._unwritten:
            self._write_segments(self._unwritten)
            self._forget_unwritten()

    def skip_to(self, offset: int, why: str = "ends before what channels have had") -> None:
        """Give the next message at least this offset: those below were given out before.

        A power cut may take messages that a channel has already delivered. If their offsets were
        reused, the state of the old messages would apply to the new ones. Raises StorageError.
        """
        if offset > self.append_offset:
            assert not self._unwritten, "this is for a log that was just opened, or synced"
            assert self.next_offset == self.append_offset
            gone = Damage("log", why, first=self.next_offset, next=offset)
            self.damage.report(gone, is_loss=False)
            self._tail.clear()
            # The name of the new segment is what keeps these offsets from being given out again, so
            # its directory entry must survive a power cut.
            self._rotate(offset)
            self.disk.sync_directory(self.directory)
            self.next_offset = self.append_offset = offset

    def _write(self, batches: Sequence[Batch]) -> None:
        if self.options.durability is not Durability.MEMORY:
            self._write_segments(batches)
            return
        held = [*self._unwritten, *batches]
        messages = held[-1].next_offset - held[0].first_offset
        nbytes = self._unwritten_bytes + sum(len(batch.raw) for batch in batches)
        # Unwritten batches can be read from the tail only, and the tail lets go of all beyond
        # `mem_queue_size` messages: they are written well before that.
        if nbytes < UNWRITTEN_BYTES_MAX and messages <= self.options.mem_queue_size // 2:
            self._unwritten, self._unwritten_bytes = held, nbytes
            return
        self._write_segments(held)
        self._forget_unwritten()

    def _forget_unwritten(self) -> None:
        self._unwritten, self._unwritten_bytes = [], 0

    def _write_segments(self, batches: Sequence[Batch]) -> None:
        nbytes = sum([len(batch.raw) for batch in batches])
        self._segment_for(nbytes, batches[0].first_offset).append(batches)

    def _segment_for(self, nbytes: int, first: int) -> Segment:
        """The segment to append ``nbytes`` to, a new one if the newest is full."""
        active = self._segments[-1]
        is_full = active.size + nbytes > self.options.max_bytes_per_file
        if is_full and active.first_offset < first:  # else the next one would have the same name
            return self._rotate(first)
        return active

    def _rotate(self, first_offset: int) -> Segment:
        segment = Segment.create(self.disk, self.directory, first_offset, self.id_base)
        segment.damage = self.damage
        self._segments[-1].file.release()  # no more is appended
        self._finished_unsynced.append(self._segments[-1])
        self._segments.append(segment)
        self._starts.append(first_offset)
        self._new_files = True
        self._checkpoint_size = 0
        return segment

    def distrust(self, segments: Sequence[Segment]) -> None:
        """Recovery found these longer than known to be synced: that a process which was killed
        wrote them does not mean that they would survive a power cut.
        """
        for segment in segments:
            # At least 1: `begin_sync` must find work for a segment without readable messages, too.
            self.unsynced_messages += max(1, segment.next_offset - segment.first_offset)
            if segment is not self._segments[-1]:
                self._finished_unsynced.append(segment)

    # --- syncing -------------------------------------------------------------------------------

    def begin_sync(self, *, checkpoint: bool = False) -> SyncJob | None:
        """A job that brings all appended so far to stable storage; None when there is nothing to
        do.

        One job at a time: the next one can begin after ``end_sync``. With ``checkpoint`` the index
        of the newest segment is written too, so that the next start need not read it.
        """
        # After a failed sync nothing is synced: the system may count the pages as written.
        if self._job is not None or self.failure is not None:
            return None
        if not self.unsynced_messages and not self._new_files and not checkpoint:
            return None
        self.flush()
        active = self._segments[-1]
        files = [segment.file for segment in self._finished_unsynced] + [active.file]
        indexed = list(self._finished_unsynced)
        if checkpoint or active.size - self._checkpoint_size >= CHECKPOINT_BYTES:
            indexed.append(active)
            self._checkpoint_size = active.size
        job = SyncJob(
            self.disk,
            self.directory,
            files,
            index_files=[(segment.index_path, segment.encode_index()) for segment in indexed],
            sync_directory=self._new_files,
            finished=self._finished_unsynced,
            messages=self.unsynced_messages,
            end=self.append_offset,
            # Only there publishers wait for each sync.
            growing=active.file if self.options.durability is Durability.FSYNC else None,
        )
        # Reset before the job has run: what is appended meanwhile counts for the next one.
        self._finished_unsynced = []
        self._new_files = False
        self.unsynced_messages = 0
        self._job = job
        return job

    def end_sync(self, error: StorageError | None = None) -> list[Batch]:
        """End the job of ``begin_sync``, which failed if there is an ``error``; returns the batches
        that are now visible.

        An error ends writing for good, unless it only says that no file could be opened.
        """
        job, self._job = self._job, None
        assert job is not None, "a sync ends that has begun"
        if error is None:
            self.synced_offset = max(self.synced_offset, job.end)
            return [] if self.options.awaits_copies else self.show(job.end)
        # Raised before anything is tried: no sync has failed, the next job does it all.
        if isinstance(error, TooManyFilesError | DiskHangsError):
            self._finished_unsynced = job.finished + self._finished_unsynced
            self._new_files = self._new_files or job.sync_directory
            self.unsynced_messages += job.messages
        else:
            self.failure = error
            self._unseen.clear()  # they never become visible
        return []

    @property
    def copies_end(self) -> int:
        """The end of what other nodes may copy: at ``fsync`` of what is synced."""
        if not self.options.awaits_copies:
            return self.next_offset
        is_fsync = self.options.durability is Durability.FSYNC
        return max(self.next_offset, self.synced_offset) if is_fsync else self.append_offset

    def show(self, end: int) -> list[Batch]:
        """Make visible what is synced, or copied, up to ``end``; returns these batches."""
        shown = []
        while self._unseen and self._unseen[0].next_offset <= end:
            batch = self._unseen.popleft()
            self._unseen_bytes -= len(batch.raw)
            self._remember(batch)
            shown.append(batch)
        self.next_offset = max(self.next_offset, end)
        return shown

    def sync(self, *, checkpoint: bool = False) -> None:
        """Sync here and now. Raises StorageError; the log is read-only then."""
        job = self.begin_sync(checkpoint=checkpoint)
        if job is None:
            return
        try:
            job.run()
        except StorageError as error:
            self.end_sync(error)
            raise
        self.end_sync()

    # --- reading -------------------------------------------------------------------------------

    @property
    def start_offset(self) -> int:
        """The oldest offset that is still kept."""
        return self._segments[0].first_offset

    @property
    def extent(self) -> Extent:
        """The extent to record; at the level ``memory`` only synced messages are promised."""
        is_promised = self.options.durability is not Durability.MEMORY
        end = self.next_offset if is_promised else self.synced_offset
        return Extent(self.start_offset, self.synced_offset, end)

    @property
    def nbytes(self) -> int:
        """Size of the files."""
        return sum(segment.size for segment in self._segments)

    @property
    def segments(self) -> Sequence[Segment]:
        return self._segments

    @property
    def oldest_ns(self) -> int | None:
        """The publish time of the oldest message that is kept; None when there is none."""
        for segment in self._segments:
            if segment.index.timestamps:
                return segment.index.timestamps[0]
        return self._unwritten[0].timestamp_ns if self._unwritten else None

    @property
    def newest_ns(self) -> int:
        """The publish time of the newest message that is kept; 0 for an empty log."""
        return max(segment.last_timestamp_ns for segment in self._segments)

    def batches_at(self, offset: int) -> BatchRun:
        """Consecutive batches in a list, and which of them is the first that ends behind
        ``offset``.

        It holds ``offset`` unless that message is gone or damaged; then it starts behind it. The
        run is empty when nothing is left to read. Raises StorageError when the disk cannot be read.
        """
        in_memory = self._tail.find(offset)  # no file, no checksum
        # The tail gives its last batch for every offset behind it, the end of the log included.
        if in_memory is not None and offset < self.next_offset:
            return self._tail.batches, in_memory
        return self._stored_at(offset)

    def batch_at(self, offset: int) -> Batch | None:
        """The batch that holds ``offset``, for one that reads here and there: pulls from one of
        many queues, deferred messages that come back. None when that message is gone or damaged.

        Raises StorageError when the disk cannot be read.
        """
        in_memory = self._tail.find(offset)
        if in_memory is not None:
            batch = self._tail.batches[in_memory]
            return batch if offset < batch.next_offset else None
        if offset >= self.next_offset:
            return None
        return self._segments[self._segment_of(offset)].batch(offset, self._cache)

    def _stored_at(self, offset: int) -> BatchRun:
        return self._stored_below(self.next_offset, offset)

    def _stored_below(self, end: int, offset: int) -> BatchRun:
        for segment in self._segments[self._segment_of(offset) :]:
            for number in range(segment.index.block_of(offset), len(segment.index)):
                block = segment.block(number, self._cache)
                place = block.find(offset)
                batches = _below(end, block.batches)
                # A block whose end is damaged may have nothing behind the offset: the next one may.
                if place < len(batches):
                    return batches, place
        return _NOTHING

    def _segment_of(self, offset: int) -> int:
        return max(0, bisect_right(self._starts, offset) - 1)

    def read_raw(self, offset: int, nbytes: int, *, for_copy: bool = False) -> list[memoryview]:
        """Whole undamaged batches as stored, from the one that holds ``offset`` on, up to
        ``next_offset``, or ``copies_end`` if ``for_copy``.

        At least one unless ``offset`` is the end; then as many as fit ``nbytes``. Raises
        OffsetOutOfRangeError outside of the log's bounds.
        """
        end = self.copies_end if for_copy else self.next_offset
        if not self.start_offset <= offset <= end:
            raise OffsetOutOfRangeError(self.directory, 0, offset, self.start_offset, end)
        pieces: list[memoryview] = []
        while offset < end:
            is_visible = offset < self.next_offset
            at = self.batches_at(offset) if is_visible else self._unseen_at(offset, end)
            batches, place = at
            if place >= len(batches):  # nothing is left there
                offset = self.next_offset if is_visible else end
                continue
            for batch in batches[place:]:
                # The first goes out whatever its size, or a reader with less room would stay here.
                if pieces and nbytes < len(batch.raw):
                    return pieces
                pieces.append(batch.raw)
                nbytes -= len(batch.raw)
            offset = batches[-1].next_offset
        return pieces

    def _unseen_at(self, offset: int, end: int) -> BatchRun:
        """The run at an ``offset`` that is not visible yet, up to ``end``."""
        run = [each for each in self._unseen if offset < each.next_offset <= end]
        # Of a long commit only heads are kept in memory; its frames are in the file.
        whole = list(takewhile(lambda each: not each.is_head, run))
        return (whole, 0) if whole else self._stored_below(end, offset)

    def last_of(self, end: int) -> Batch | None:
        """The batch that ends at ``end``, visible or not; None if it is gone or damaged."""
        if end <= self.next_offset:
            found = self.batch_at(end - 1)
        else:
            batches, place = self._unseen_at(end - 1, self.append_offset)
            found = batches[place] if batches else None
        return found if found is not None and found.next_offset == end else None

    def offset_at(self, timestamp_ns: int) -> int:
        """The first offset published at ``timestamp_ns`` or later; ``next_offset`` when there is
        none.
        """
        for segment in self._segments:
            # The latest time up to there, though the system's time may have gone back.
            if segment.last_timestamp_ns < timestamp_ns:
                continue
            for number in range(segment.index.block_at_time(timestamp_ns), len(segment.index)):
                for batch in segment.block(number, self._cache).batches:
                    if batch.timestamp_ns >= timestamp_ns:
                        # Segments also hold what readers may not see yet.
                        return min(batch.first_offset, self.next_offset)
        for batch in self._unwritten:
            if batch.timestamp_ns >= timestamp_ns:
                return batch.first_offset
        return self.next_offset

    def bytes_from(self, offset: int) -> int:
        """About how many bytes the batches from the one that holds ``offset`` on have.

        Within a block it is shared out evenly, so it costs no reading.
        """
        place = self._segment_of(offset)
        later = sum(segment.size for segment in self._segments[place + 1 :])
        return self._segments[place].bytes_from(offset) + later + self._unwritten_bytes

    # --- letting go ----------------------------------------------------------------------------

    @property
    def trimmable(self) -> bool:
        """True if there is anything that ``trim`` might delete."""
        return len(self._segments) > 1

    def trim(
        self,
        before_offset: int,
        now_ns: int,
        retention: Retention,
        ahead: Ahead = _never_set,
        about_to: Callable[[int], None] | None = None,
    ) -> int:
        """Delete the finished segments that end at or before an offset and that retention lets go.

        ``ahead`` gives the error of the timestamp at an offset, as the system's time may have been
        set. ``about_to`` is called with the log's new start before anything is deleted. Returns the
        number of deleted segments. The newest segment always stays.
        """
        # The job may be syncing the very files that would be closed here.
        if self._job is not None:
            return 0
        count = self._expired(before_offset, now_ns, retention, ahead)
        if not count:
            return 0
        # Before the first file goes: whatever is made from these messages could not be made again.
        if about_to is not None:
            about_to(self._starts[count])
        if self._new_files:  # else a power cut might leave no file at all
            self.disk.sync_directory(self.directory)
            self._new_files = False
        # The oldest first, so that a crash in between leaves a log without a hole.
        for _ in range(count):
            oldest = self._segments.pop(0)
            del self._starts[0]
            # A sync of its closed file would fail, and make the log read-only.
            if oldest in self._finished_unsynced:
                self._finished_unsynced.remove(oldest)
            oldest.delete(self.disk)
        return count

    def _expired(self, before_offset: int, now_ns: int, retention: Retention, ahead: Ahead) -> int:
        """The number of the oldest segments that may be deleted."""
        nbytes = self.nbytes
        for count, segment in enumerate(self._segments[:-1]):
            nbytes -= segment.size
            age_ns = now_ns + ahead(segment.next_offset - 1) - segment.last_timestamp_ns
            if self._starts[count + 1] > before_offset or not retention.expired(age_ns, nbytes):
                return count
        return len(self._segments) - 1

    def close(self) -> None:
        """Write and sync what is left and close the files. Raises StorageError after closing
        them.
        """
        try:
            self.sync(checkpoint=True)
        finally:
            for segment in self._segments:
                segment.file.close()

    def delete(self) -> None:
        """Remove the log from the disk; a crash leaves all or none of it.

        Raises StorageError, and goes on as it was then; read-only if the next start removes it.
        """
        doomed, parent = self.directory + DOOMED, os.path.dirname(self.directory)
        self.disk.remove_tree(doomed)  # the rest of an earlier log of this name
        # One rename decides: the files below may then go one by one, or at the next start.
        self.disk.rename(self.directory, doomed)
        try:
            self.disk.sync_directory(parent)
        except StorageError:
            try:
                # Nobody knows whether the rename is on disk, so it is undone: the caller goes on
                # with this log.
                self.disk.rename(doomed, self.directory)
            except StorageError as error:
                self.failure = error
                raise
            raise
        for segment in self._segments:
            segment.file.close()
        try:
            self.disk.remove_tree(doomed)
        except StorageError as error:
            logger.warning("%s: left for the next start to remove - %s", doomed, error)


def _starts(segments: Sequence[Segment]) -> list[int]:
    """The first offset that is to be looked up in each segment.

    One that could not be made, or lost all it had, may begin where the one before had gone on.
    """
    ends = accumulate((segment.next_offset for segment in segments), max, initial=0)
    return [max(segment.first_offset, end) for segment, end in zip(segments, ends, strict=False)]


def _below(end: int, batches: list[Batch]) -> list[Batch]:
    """The batches of a block that end at ``end`` at the latest."""
    if not batches or batches[-1].next_offset <= end:
        return batches
    return [batch for batch in batches if batch.next_offset <= end]
