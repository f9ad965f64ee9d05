"""The writers of a topic that commit staged batches: which batch of each was its last.

The last batch of a commit has a note in the log that names the writer and its batch, so the
messages and the memory of them are one write. The journal has the same for as long as the topic
lives, when retention has deleted the messages; what it does not have yet is read from the notes at
the start.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from penstock.broker.progress import Progress, Record, WriterRecord, WritersRecord
from penstock.core.malformed import MALFORMED
from penstock.storage.batch import Batch, Buffer
from penstock.storage.journal import Journal
from penstock.storage.log import Log

WRITERS_MAX: Final = 10_000
"""The most writers that a topic remembers; then the one whose last commit is the oldest goes."""


class CommitNote(msgspec.Struct, array_like=True, tag="w"):
    """The note of the last batch of a commit."""

    writer: str
    batch: int


_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[CommitNote] = msgspec.msgpack.Decoder(CommitNote)


def encode_commit(writer: str, batch: int) -> bytes:
    """The note of a commit."""
    return _encoder.encode(CommitNote(writer, batch))


def decode_commit(note: Buffer) -> CommitNote | None:
    """The commit that a batch's note completes; None when it is another note."""
    try:
        return _decoder.decode(note) if len(note) else None
    except MALFORMED:
        return None


class Writers:
    """The writers of one topic, the one that has committed last at the end."""

    __slots__ = ("_known", "_unwritten", "begun", "pending")

    def __init__(self) -> None:
        self.begun = False
        """True once the journal says, or is about to say, that the topic has writers."""
        self.pending: list[tuple[WriterRecord, int]] = []
        """Commits that readers do not see yet, with their first offsets; a power cut may take
        them.
        """
        self._known: dict[str, WriterRecord] = {}
        self._unwritten: dict[str, int] = {}  # offset of its first commit that no journal has

    def __iter__(self) -> Iterator[WriterRecord]:
        return iter(self._known.values())

    def last(self, name: str) -> int | None:
        """The last batch that a writer has committed; None when it is not known to have any."""
        record = self._known.get(name)
        return None if record is None else record.batch

    def record(self, name: str) -> WriterRecord | None:
        """A writer's last commit; None when it is not known to have made one."""
        return self._known.get(name)

    def appended(self, record: WriterRecord, first: int) -> None:
        """A commit is in the log, from offset ``first`` on; it counts when ``show`` comes to it."""
        self.pending.append((record, first))

    def show(self, end: int) -> None:
        """Readers see the log up to this offset."""
        while self.pending and self.pending[0][0].end <= end:
            record, first = self.pending.pop(0)
            self._put(record)
            self._unwritten.setdefault(record.name, first)

    def restore(self, log: Log, journal: Journal, progress: Progress) -> bool:
        """Take what the journal says, and from the log what that does not have yet.

        Commits that a power cut has taken are not taken for done; then the result is True, as the
        journal must forget them before more is synced. Raises StorageError.
        """
        # What is lost below the synced offset was committed once: that is damage, not a power cut.
        lost = [each for each in log.damage.lost_ranges() if each[1] > journal.extent.synced]
        kept = [
            record
            for record in progress.writers
            if not any(first < record.end <= next_ for first, next_ in lost)
        ]
        for record in kept:
            self._put(record)
        start = progress.writers_end
        self.begun = start is not None
        if journal.gaps or not journal.records or len(kept) < len(progress.writers):
            start = log.start_offset  # the log knows what has come before a record that is gone
        if start is not None:
            self._read(batches_from(log, max(start, log.start_offset)))
        return len(kept) < len(progress.writers)

    def _read(self, batches: Iterable[Batch]) -> None:
        """Take what the notes of these batches say, oldest first."""
        for batch in batches:
            note = decode_commit(batch.note)
            if note is None:
                continue
            self.begun = True
            end, known = batch.next_offset, self._known.get(note.writer)
            if known is None or known.end < end:
                record = WriterRecord(note.writer, note.batch, end, batch.timestamp_ns)
                self.appended(record, batch.first_offset)
                self.show(end)

    def _put(self, record: WriterRecord) -> None:
        # Out of its old place: the first is the one whose last commit is the oldest.
        self._known.pop(record.name, None)
        self._known[record.name] = record
        if len(self._known) > WRITERS_MAX:
            oldest = next(iter(self._known))
            del self._known[oldest]
            self._unwritten.pop(oldest, None)

    # --- the journal ---------------------------------------------------------------------------

    def records(self, end: int, *, everything: bool) -> list[Record]:
        """The records to write when readers see the log up to ``end``: all, or only new ones."""
        self.show(end)  # the last sync, at the end, tells nobody
        names = self._known if everything else self._unwritten
        found: list[Record] = [self._known[name] for name in names]
        return [*found, WritersRecord(end)] if self.begun else found

    def written(self) -> None:
        """All commits are in the journal."""
        self._unwritten.clear()

    @property
    def floor(self) -> int | None:
        """The first offset of the oldest commit that is only in the log; None: all are written."""
        return min(self._unwritten.values(), default=None)


def batches_from(log: Log, offset: int) -> Iterator[Batch]:
    """The batches of a log from the one that holds ``offset`` on. Raises StorageError."""
    while offset < log.next_offset:
        batches, place = log.batches_at(offset)
        if place >= len(batches):
            return
        yield from batches[place:]
        offset = batches[-1].next_offset
