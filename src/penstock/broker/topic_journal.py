"""The journal of a topic: its settings, and the progress of its channels, groups and writers.

What changes often is written with each save, an event once. After a failed write, the next save
writes the whole journal again, with the deletions of channels that were not synced: a list beside
it may still have those channels.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from typing import TypeAlias

from penstock.broker.progress import GoneRecord, Record, encode_record
from penstock.core.errors import DiskHangsError, StorageError
from penstock.storage.journal import Journal
from penstock.storage.log import Log
from penstock.storage.memory_log import MemoryLog

logger = logging.getLogger(__name__)

Saved: TypeAlias = tuple[int, int]
"""The generation of a file, and its size."""
Records = Callable[[bool], list[Record]]
"""The records of a topic: everything that still counts, or only what has changed."""


def _is_told_elsewhere(event: Record) -> bool:
    """True if a list of channels may contradict, so that it must be written until it is synced."""
    return isinstance(event, GoneRecord) and event.channel is not None


class TopicJournal:
    """The journal of the topic ``name`` over its log; ``file`` is None for a topic in memory.

    ``changed`` is set by whoever changes what ``records`` gives. ``on_saved`` is called after each
    successful save.
    """

    __slots__ = ("_events", "_file", "_log", "_name", "_noted", "_on_saved", "_records",
                 "_save_failed", "_saved_events", "changed")  # fmt: skip

    def __init__(
        self,
        name: str,
        log: Log | MemoryLog,
        file: Journal | None,
        records: Records,
        on_saved: Callable[[], None],
    ) -> None:
        self._name = name
        self._log = log
        self._file = file
        self._records = records
        self._on_saved = on_saved
        self._events: list[Record] = []  # those that are not synced
        self._saved_events = 0  # how many of them are written
        self._noted = 0, 0  # the log's end and synced offset, as written
        self._save_failed = False
        self.changed = False

    @property
    def file(self) -> Journal | None:
        """The journal on disk; None of a topic in memory, or one that is deleted."""
        return self._file

    @property
    def is_due(self) -> bool:
        """True if the topic or its log has changed since the last save."""
        noted = self._log.next_offset, self._log.synced_offset
        return self.changed or self._save_failed or self._noted != noted

    @property
    def written(self) -> bool:
        """True if no failed write is waiting to be repeated."""
        return not self._save_failed

    def write_whole(self) -> None:
        """Have the next save write the whole journal again."""
        self._save_failed = True

    def note(self, event: Record) -> None:
        """Add an event to the next save, which is not repeated with later ones."""
        self._events.append(event)

    def save(self) -> None:
        """Write what has changed since the last save. Raises StorageError; nothing is lost then."""
        log = self._log
        if self._file is None or isinstance(log, MemoryLog):
            return
        # Until it has ended, this save has failed: an error in the middle makes the next one whole.
        whole = self._file.wants_compaction or self._save_failed
        self._save_failed = True
        records = self._records(whole)
        events = self._events if whole else self._events[self._saved_events :]
        encoded = [encode_record(each) for each in events + records]
        if whole:
            self._file.replace(encoded, log.extent)
        else:
            self._file.append(encoded, log.extent)
        self._events = [each for each in self._events if _is_told_elsewhere(each)]
        self._saved_events = len(self._events)
        self._noted = log.next_offset, log.synced_offset
        self.changed = self._save_failed = False
        self._on_saved()

    def save_quietly(self) -> None:
        """Save; the next save tries again, and reports, if that fails."""
        with suppress(StorageError):
            self.save()

    def save_now(self) -> bool:
        """Write down at once, durably, what a crash must not undo; if that fails, with ``save``."""
        self.changed = True
        try:
            self.save()
            self.sync()
        except StorageError as error:
            logger.error("TOPIC(%s): failed to write down progress - %s", self._name, error)
        return self.written

    def save_for_sync(self) -> Saved | None:
        """``save_now`` but for the sync, after which ``note_synced`` is called; None if it failed,
        which is logged.
        """
        self.changed = True
        try:
            self.save()
        except StorageError as error:
            logger.error("TOPIC(%s): failed to write down progress - %s", self._name, error)
            return None
        return (0, 0) if self._file is None else (self._file.rewrites, self._file.size)

    def note_synced(self, saved: Saved) -> None:
        """All that was written up to then is durable."""
        # Only if nothing was written since: the sync may have begun before that.
        if self._file is not None and saved == (self._file.rewrites, self._file.size):
            self._file.note_synced()
            self._forget_saved()

    def sync(self) -> None:
        """Make what was saved durable. Raises StorageError; the next save writes all of it again
        then.
        """
        if self._file is None:
            return
        try:
            self._file.sync()
        except StorageError:
            self._save_failed = True
            raise
        self._forget_saved()

    def _forget_saved(self) -> None:
        del self._events[: self._saved_events]
        self._saved_events = 0

    def note_start(self, start: int) -> None:
        """Write down the log's new start; else recovery would report the deleted part as lost."""
        if self._file is None or isinstance(self._log, MemoryLog):
            return
        try:
            self._file.note(self._log.extent._replace(start=start))
        except DiskHangsError:
            raise
        except StorageError as error:  # on a full disk deleting helps
            logger.warning(
                "TOPIC(%s): cannot write down where the log starts - %s", self._name, error
            )

    def close(self) -> None:
        """Save, sync and close the file. Raises StorageError."""
        if self._file is None:
            return
        try:
            self.save()
            self.sync()
        finally:
            self._file.close()

    def abandon(self) -> None:
        """Close the file without another word in it: the topic is deleted."""
        if self._file is not None:
            self._file.close()
        self._file = None
        del self._records, self._on_saved  # else the topic would outlive its end
