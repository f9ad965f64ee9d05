"""Opening a log: what its files really hold after a clean stop, a crash or a bad disk.

Each segment's index file says how far the segment was known to be good; behind that the segment is
read batch by batch. Blocks at the end of the newest index that are zeros in the file are read
again, too. Then:

- bytes behind the last valid batch of the newest segment are a torn tail, a publish that was never
  acknowledged at the ``write`` level: they are copied to ``quarantine/`` and cut off;
- zeros behind the last valid batch, where the next segment goes on with the next offset, were
  reserved (``disk.LogFile.reserve``): they are cut off;
- a commit of several batches of which a part is missing (``torn_commit``) goes as a whole, as a
  torn tail does, with what follows it in its file, unless it is known to have been synced: then it
  is damaged, and what can be read of it stays;
- bytes between valid batches are corruption: they are copied to ``quarantine/``, reported and
  stepped over. Nothing that can be read is ever cut off;
- messages that should be there according to the cursor journal (``extent``) or an index are
  reported as lost, whatever took them: truncation, zeros, a missing file. Their offsets are not
  given out again. Unsynced messages that are missing are not damage, as a power cut may take them.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from itertools import zip_longest
from typing import Final

from penstock.core.errors import StorageError
from penstock.core.ranges import RangeSet
from penstock.storage.batch import CorruptBatchError
from penstock.storage.cache import BlockCache
from penstock.storage.durability import Durability
from penstock.storage.extent import NOTHING, Extent, missing
from penstock.storage.files.disk import Disk
from penstock.storage.identity import read_identity, segments_in
from penstock.storage.index import BlockIndex
from penstock.storage.log import Log, LogOptions
from penstock.storage.recovery.damage import Damage, DamageRecord
from penstock.storage.recovery.scan import BadBytes, scan
from penstock.storage.recovery.torn_commit import CommitStart, TornCommit
from penstock.storage.segment import STEPPED_OVER, Segment, index_path, logger, segment_name

WINDOW_BYTES: Final = 16 * 1024 * 1024
TORN_KEPT_BYTES: Final = 16 * 1024 * 1024
"""The most of an unfinished commit that is copied aside; its writer still has all of it."""


@dataclass(slots=True)
class RecoveryReport:
    """Findings of opening a log. Sizes in bytes."""

    torn: int = 0
    damaged: int = 0
    scanned: int = 0


def open_log(
    disk: Disk, directory: str, new_id_base: int, cache: BlockCache, options: LogOptions
) -> tuple[Log, RecoveryReport]:
    """Open the log in ``directory`` without a journal; the log is created if it is not there.

    ``new_id_base`` is used only when the queue is new. Raises StorageError when the directory
    cannot be used at all.
    """
    disk.make_directory(directory)
    base = read_identity(disk, directory, new_id_base).id_base
    return recover(disk, directory, base, cache, options, DamageRecord(disk, directory), None)


def recover(
    disk: Disk,
    directory: str,
    id_base: int,
    cache: BlockCache,
    options: LogOptions,
    damage: DamageRecord,
    known: Extent | None,
    *,
    is_newest: bool = True,
    is_copy: bool = False,
) -> tuple[Log, RecoveryReport]:
    """The log in a directory that is there; ``known`` is how far it reached when that was written
    down last, unless it is not the newest and more has been deleted since; None when it never was.
    The copy of another log begins where its first file says. Raises StorageError.
    """
    recovery = _Recovery(disk, directory, id_base, damage, known)
    segments = recovery.segments
    recovery.read()
    if not segments:
        segments.append(Segment.create(disk, directory, 0, id_base))
        disk.sync_directory(directory)
    _keep_offsets_rising(disk, directory, segments)
    end = recovery.report_missing(starts_there=is_newest, is_copy=is_copy)
    log = Log(disk, directory, segments, id_base, cache, options, damage)
    # A kill leaves them in the page cache; the next sync makes them durable.
    log.distrust([segment for segment, _ in recovery.unsynced])
    log.skip_to(end)
    log.synced_offset = min(known.synced if known else 0, log.next_offset)
    _sync_cuts(log, recovery.cut)
    if options.durability is Durability.FSYNC and log.unsynced_messages:
        _sync(log, recovery.unsynced)
    return log, recovery.report


def _sync_cuts(log: Log, segments: list[Segment]) -> None:
    """Sync files of which a part of a commit was cut off.

    After another power cut that part could be there again, and what was written in its place could
    seem to be the rest of the commit.
    """
    try:
        for segment in segments:
            segment.file.sync()
    except StorageError as error:
        log.failure = error
        logger.error("%s: cannot sync what was cut off - %s", log.directory, error)


def _sync(log: Log, unsynced: list[tuple[Segment, int]]) -> None:
    """Sync the writes of an earlier process, because they are visible from now on.

    They are written again, as a sync of them may have failed.
    """
    try:
        for segment, position in unsynced:
            segment.file.rewrite(position)
        log.sync()
    except StorageError as error:
        log.failure = error
        logger.error("%s: cannot sync what was found - %s", log.directory, error)


class _Recovery:
    """The reading of one log's segments."""

    def __init__(
        self, disk: Disk, directory: str, id_base: int, damage: DamageRecord, known: Extent | None
    ) -> None:
        self.report = RecoveryReport()
        self.segments: list[Segment] = []
        self.unsynced: list[tuple[Segment, int]] = []  # and up to where it is known to be synced
        self.cut: list[Segment] = []
        self._disk = disk
        self._directory = directory
        self._id_base = id_base
        self._damage = damage
        self._known = known or NOTHING
        self._knows_synced = known is not None
        self._present = RangeSet()
        self._torn = TornCommit()  # of the segment that is read
        self._promised = 0  # the end of the log, as its index files know it

    def read(self) -> None:
        """Read all segments."""
        firsts = segments_in(self._disk, self._directory)
        for first, following in zip_longest(firsts, firsts[1:]):
            path = os.path.join(self._directory, segment_name(first))
            # The journal says that the log began behind it: it was deleted.
            if following is not None and following <= self._known.start:
                self._finish_deleting(path)
                continue
            segment = Segment(self._disk.open(path), first, self._id_base)
            segment.damage = self._damage
            before = self.segments[-1].next_offset if self.segments else first
            indexed = self._load_index(segment)
            if self._read(segment, indexed, max(first, before), following) > indexed:
                self.unsynced.append((segment, indexed))
            self.segments.append(segment)

    def _finish_deleting(self, path: str) -> None:
        """Remove what a power cut has brought back; perhaps not all, which would look like a loss.

        Raises StorageError.
        """
        # The index first, as in ``Segment.delete``: alone it would be believed.
        self._disk.remove(index_path(path))
        self._disk.remove(path)

    def _read(self, segment: Segment, indexed: int, expected: int, following: int | None) -> int:
        """Read the part of the segment's file that its index does not cover; returns its end.

        ``following`` is the first offset of the next segment, None for the newest.
        """
        position = indexed
        if following is None:
            position = segment.forget_zeros(indexed)
        expected = max(expected, segment.next_offset)
        self._present.add(segment.first_offset, segment.next_offset)
        self._torn = TornCommit()
        while position < segment.size:
            position, expected = self._take_window(segment, position, expected, following)
        torn = self._torn.end()
        # What was synced was whole and perhaps acknowledged: then a missing part is damage.
        if torn is not None and torn.next_offset >= self._synced:
            position = self._cut(segment, torn)
        if segment.size < indexed:  # else it would be believed once the file has grown again
            self._disk.remove(segment.index_path)
        return position

    def _load_index(self, segment: Segment) -> int:
        """Load the index file; returns the file position up to which it covers the segment."""
        data = self._disk.read_file(segment.index_path)
        if data is None:
            return 0
        try:
            # The first id says whose index it is: another log has segments of the same names.
            index, size, next_offset, timestamp_ns = BlockIndex.decode(data, segment.first_id)
        except CorruptBatchError as error:
            logger.warning("%s: %s, reading the segment instead", segment.index_path, error)
            return 0
        # An index is written after its segment's sync, so the log did reach this far.
        self._promised = max(self._promised, next_offset)
        if size > segment.size:
            logger.error(
                "%s is shorter than its index says (%d < %d bytes), reading all of it",
                segment.file.path,
                segment.size,
                size,
            )
            self._disk.remove(segment.index_path)  # else a grown file would make it look right
            return 0
        segment.index, segment.next_offset = index, next_offset
        segment.last_timestamp_ns = timestamp_ns
        return size

    def _take_window(
        self, segment: Segment, position: int, expected: int, following: int | None
    ) -> tuple[int, int]:
        """Read on from a file position; returns the next position and expected offset."""
        nbytes = WINDOW_BYTES
        while True:
            data = segment.file.read(position, nbytes)
            last_window = position + len(data) >= segment.size
            found = scan(data, expected, segment.id_base, more=not last_window)
            if following is not None and segment.next_offset <= following:
                found.refuse_from(following)  # another segment's file is in this one's place
            if found.batches or last_window:
                break
            # Not one batch ends in the window, so it grows: a large batch must not pass for damage.
            nbytes *= 2
        self.report.scanned += len(data)
        before = expected
        for batch, start in zip(found.batches, found.positions, strict=True):
            # A batch of a commit names its neighbours; any other one ends a commit that is open.
            if batch.is_part or self._torn.is_open:
                self._torn.look(batch, segment.place(position + start, batch.first_offset))
            segment.note(batch, position + start)
            self._present.add(batch.first_offset, batch.next_offset)
            expected = batch.next_offset
        for bad, first, next_ in found.gaps(before, following or 0):
            if bad.start < found.end:
                self._quarantine(segment, position, data, bad, first, next_)
            elif last_window:  # else it is only cut by the window, and the next one starts there
                self._judge_tail(segment, position, data, bad, following)
        return (segment.size if last_window else position + found.end), expected

    def _cut(self, segment: Segment, torn: CommitStart) -> int:
        """Cut off a commit that is not whole; returns the segment's new end. Raises StorageError.

        Its writer still has it, and commits it again.
        """
        nbytes = segment.size - torn.position
        # Nothing of it was acknowledged: the copy is for an operator who wonders.
        tail = segment.file.read(torn.position, min(nbytes, TORN_KEPT_BYTES))
        self.report.torn += nbytes
        self._damage.keep_torn(os.path.basename(segment.file.path), torn.position, tail)
        # Rebuilt up to the cut: else what goes now would later not be missed.
        present, self._present = self._present, RangeSet()
        for first, next_ in present:
            self._present.add(first, min(next_, torn.next_offset))
        segment.cut(torn)
        self.cut.append(segment)
        return torn.position

    def _judge_tail(
        self, segment: Segment, position: int, data: bytes, bad: BadBytes, following: int | None
    ) -> None:
        """Handle the bytes behind the last valid batch of a file."""
        start = position + bad.start
        tail = data[bad.start :]
        if following is not None and segment.next_offset != following:
            next_ = max(segment.next_offset, following)
            self._quarantine(segment, position, data, bad, segment.next_offset, next_)
        elif not tail.strip(b"\0"):
            segment.file.truncate(start)  # it was reserved, and not used
        elif following is not None:
            self._quarantine(segment, position, data, bad, following, following)
        else:
            self.report.torn += len(tail)
            # Without a copy it stays: appends then go behind it, and it counts as damage.
            if self._damage.keep_torn(os.path.basename(segment.file.path), start, tail):
                segment.file.truncate(start)

    def _quarantine(
        self, segment: Segment, position: int, data: bytes, bad: BadBytes, first: int, next_: int
    ) -> None:
        nbytes = bad.end - bad.start
        self.report.damaged += nbytes
        name = os.path.basename(segment.file.path)
        damage = Damage(name, STEPPED_OVER, position + bad.start, nbytes, first, next_)
        is_loss = first < next_ and (first < self._synced or not self._knows_synced)
        is_loss = is_loss and self._is_new(first, next_)
        self._damage.report(damage, data[bad.start : bad.end], is_loss=is_loss)

    def _is_new(self, first: int, next_: int) -> bool:
        """True unless all these messages are known to be lost, perhaps by several pieces."""
        known = RangeSet()
        for lost in self._damage.lost_ranges():
            known.add(*lost)
        return any(missing(known, first, next_))

    @property
    def _synced(self) -> int:
        # An index is written behind the sync of its segment (`SyncJob.run`), so its end counts like
        # the journal's word.
        return max(self._known.synced, self._promised)

    def report_missing(self, *, starts_there: bool, is_copy: bool = False) -> int:
        """Report the messages that should be there; the offset at which the log goes on.

        ``starts_there`` says that nothing was deleted since it was written down where it starts.
        The other log has what a copy lacks at its beginning.
        """
        known = self._known
        end = max(segment.next_offset for segment in self.segments)
        start = known.start
        if is_copy:
            start = self.segments[0].first_offset
        elif not starts_there or not any(known):
            start = next((first for first, _ in self._present), end)
            start = min([start, *(segment.next_offset for segment in self.cut)])
        # What was promised, whether it is here or not: no offset that a reader may have seen is
        # given to another message.
        whole = max(end, known.end, self._synced)
        for first, next_ in self._damage.lost_ranges():
            self._present.add(first, next_)
        for first, next_ in missing(self._present, start, whole):
            # A journal of an earlier version has no record of gaps that a power cut once left.
            is_loss = first < self._synced and (any(known) or first >= end)
            what = "cut short, or without one of its files"
            self._damage.report(Damage("log", what, first=first, next=next_), is_loss=is_loss)
        return whole


def _keep_offsets_rising(disk: Disk, directory: str, segments: list[Segment]) -> None:
    """Start a new segment when damage cost the newest its name's place in the order."""
    newest = segments[-1]
    floor = max(segment.next_offset for segment in segments)
    if newest.next_offset < floor:
        segments.append(Segment.create(disk, directory, floor, newest.id_base))
