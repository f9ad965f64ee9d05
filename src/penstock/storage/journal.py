"""An append-only file of small records, which holds the cursors of a queue.

Each record names its queue and can be recognised anywhere (``frames``), so reading resumes behind a
bad one. A tail torn by a crash is cut off. Damaged bytes elsewhere are reported and copied
(``damage``), and disappear at the next compaction, which rewrites the file with only the records
that still count. The file is compacted when most of it is history, and soon when it is damaged or
of an earlier version.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from penstock.core.errors import StorageError
from penstock.storage.extent import NOTHING, Extent
from penstock.storage.files.disk import Disk
from penstock.storage.journal_frames import (
    HEADER_BYTES,
    Frames,
    encode_frames,
    mark,
    read_frames,
    whole_bytes,
)
from penstock.storage.recovery.damage import Damage, DamageRecord

JOURNAL_FILE: Final = "cursors.journal"
# Below this a rewrite, with its two syncs, costs more than reading the file at a start.
COMPACT_BYTES_MIN: Final = 256 * 1024
# Each compaction writes all records that count, so 8 means one byte rewritten for 7 appended.
_GROWTH: Final = 8


class Journal:
    """The journal at ``path`` of the queue with this id base, created if it is not there.

    ``records`` are those found when it was opened; before those whose numbers are in ``gaps`` some
    may be missing. ``is_old`` says that an earlier version wrote it. ``extent`` is how far the
    queue's log reached when the newest was written, if the file ``tells_extent``; if it was not
    ``is_whole``, one that is missing may have had a later start.
    """

    def __init__(
        self,
        disk: Disk,
        path: str,
        queue: int,
        damage: DamageRecord | None = None,
        *,
        is_expected: bool = False,
    ) -> None:
        """Open the journal; with ``is_expected``, a missing or empty file counts as damage."""
        self._disk = disk
        self._path = path
        self._queue = queue
        self._damage = damage or DamageRecord(disk, os.path.dirname(path))
        data = disk.read_file(path) or b""
        found = read_frames(data, queue)
        # A file of zeros, which a power cut may leave of a new one, counts as empty.
        if not found.end and data.strip(b"\0"):
            found.note_damage(len(data))
        self.records, self.gaps, self.extent = found.records, found.gaps, found.extent
        self.is_whole = found.end == len(data) and not found.gaps
        self.is_old = found.is_old
        self.tells_extent = bool(found.end) and not found.is_old
        self._report(data, found, is_expected)
        self._wants_rewriting = bool(found.is_old or found.gaps)
        if not found.end:
            # Never empty from now on: an empty file at a later start is then known to be damage.
            disk.replace_file(path, mark(queue, NOTHING))
        self._file = disk.open(path)
        tail = data[found.end :] if found.end else b""
        # Without a copy they stay: records go behind them, and the next start finds them as damage.
        if tail and self._damage.keep_torn(os.path.basename(path), found.end, tail):
            self._file.truncate(found.end)
        self.torn_bytes = len(tail)
        self.rewrites = 0
        """The number of times it was rewritten: a position in it is of one such generation."""
        self._compact_size = 0
        self._is_marked = False

    def _report(self, data: bytes, found: Frames, is_expected: bool) -> None:
        name = os.path.basename(self._path)
        what = "records of another queue" if found.strangers else "damaged"
        is_certain = bool(found.strangers) or found.is_old or not found.records
        for start, end in found.damage:
            is_loss = is_certain or start == 0 or end <= found.synced
            told = what if is_loss else "damaged or never synced"
            damage = Damage(name, told, start, end - start)
            self._damage.report(damage, data[start:end], is_loss=is_loss)
        if is_expected and not found.end:
            self._damage.report(Damage(name, "the file is missing or empty"))

    @property
    def is_named(self) -> bool:
        """True if all records in the file name their queue."""
        return not self._wants_rewriting

    @property
    def wants_compaction(self) -> bool:
        """True if the file is many times as large as after the last compaction, damaged, or of an
        earlier version.
        """
        limit = max(COMPACT_BYTES_MIN, _GROWTH * self._compact_size)
        return self._wants_rewriting or self._file.size > limit

    @property
    def size(self) -> int:
        """Bytes of the file, all whole frames."""
        return self._file.size

    def frames_from(self, position: int, nbytes: int) -> bytes:
        """Frames as stored, from the end of one of them on: about ``nbytes``, at least one frame.
        Raises StorageError.
        """
        left = self._file.size - position
        data = self._file.read(position, min(max(nbytes, HEADER_BYTES), left))
        if len(data) == left:
            return data
        end = whole_bytes(data)
        return data[:end] if end <= len(data) else self._file.read(position, min(end, left))

    def append(self, records: Sequence[bytes], extent: Extent = NOTHING) -> None:
        """Write records, all or nothing. Raises DiskFullError or StorageError."""
        self._file.append(encode_frames(records, self._queue, extent))
        self.extent = extent
        self._is_marked = False

    def replace(self, records: Sequence[bytes], extent: Extent = NOTHING) -> None:
        """Rewrite the journal with only these records.

        This removes the damaged bytes, so the damage record is saved first.
        """
        # The damaged bytes go with this: what they were must be on record before.
        self._damage.save()
        frames = encode_frames(records, self._queue, extent) + mark(self._queue, extent)
        self._disk.replace_file(self._path, frames)
        # The old descriptor still leads to the old content, which the rename has unlinked.
        replaced, self._file = self._file, self._disk.open(self._path)
        replaced.close()
        self.rewrites += 1
        self._compact_size = self._file.size
        self._wants_rewriting = False
        self.extent = extent
        self._is_marked = True

    def sync(self) -> None:
        """Bring all records to stable storage. Raises StorageError."""
        self._file.sync()
        self.note_synced()

    def note_synced(self) -> None:
        """Mark that all records are on stable storage."""
        if not self._is_marked:
            # Set before the write: a mark that fails is not tried again for each sync.
            self._is_marked = True
            with suppress(StorageError):  # without it, damage at the end looks like a torn tail
                self._file.append(mark(self._queue, self.extent))

    def note(self, extent: Extent) -> None:
        """Write down durably how far the log reaches. Raises DiskFullError or StorageError."""
        self._file.sync()  # a mark states that all before it was
        self._file.append(mark(self._queue, extent))
        self._file.sync()
        self.extent = extent
        self._is_marked = True

    def close(self) -> None:
        self._file.close()
