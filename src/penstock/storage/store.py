"""The data path of a broker: which topic queues it holds and where their files are.

``<data path>/topics/<topic>@<queue>/`` holds the segments of one queue, their index files, its
identity and its cursor journal. The ``@`` keeps the topics ``.`` and ``..`` from being directories
of that name, and no topic name can contain it.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping

from penstock.core.errors import StorageError
from penstock.storage.cache import BlockCache
from penstock.storage.epochs import LogEpochs
from penstock.storage.files.disk import Disk
from penstock.storage.files.temporary import remove_temporaries
from penstock.storage.identity import (
    IDENTITY_FILE,
    note_journal,
    read_identity,
    segments_in,
    write_identity,
)
from penstock.storage.journal import JOURNAL_FILE, Journal
from penstock.storage.log import DOOMED, Log, LogOptions
from penstock.storage.queues.one_queue import Queues
from penstock.storage.queues.queue_index import open_queues
from penstock.storage.queues.queue_rebuild import Stated
from penstock.storage.recovery.damage import QUARANTINE, DamageRecord
from penstock.storage.recovery.opening import RecoveryReport, recover
from penstock.storage.segment import Segment
from penstock.storage.taken_ids import TakenIds

logger = logging.getLogger(__name__)

TOPICS = "topics"


def queue_directory(topic: str, queue: int) -> str:
    """The folder of a queue's files, relative to the data path."""
    return os.path.join(TOPICS, f"{topic}@{queue}")


class Store:
    """The queues under one data path, locked for this process until ``close``."""

    def __init__(self, disk: Disk, data_path: str, options: LogOptions) -> None:
        """Raise LockedError when another process holds the path, StorageError when it cannot be
        used.
        """
        self.disk = disk
        self.data_path = data_path
        self.options = options
        self._cache = BlockCache()
        # First: what is tidied away below could be another process's file that is being written.
        self._lock = disk.lock(data_path)
        try:
            self._tidy()
            self.taken_ids = TakenIds(disk, data_path)
            self.epochs = LogEpochs(disk, data_path)
        except StorageError:
            self._lock.release()
            raise

    def _tidy(self) -> None:
        """Remove the leftovers of a killed process. Raises StorageError."""
        self._remove_doomed(os.path.join(self.data_path, TOPICS))
        for directory in self._directories():
            remove_temporaries(self.disk, directory)
        self._remove_unmade()

    def _remove_unmade(self) -> None:
        """Remove what is left of queues that a full disk kept from being made: nobody was told that
        they are there, and to make them now would need room. Raises StorageError.
        """
        for topic, queue in self.queues():
            directory = os.path.join(self.data_path, queue_directory(topic, queue))
            if set(self.disk.list(directory)) <= {IDENTITY_FILE}:
                # Only its identity is there: no message was ever taken by it.
                self.disk.remove_tree(directory)

    def _directories(self) -> Iterator[str]:
        """All directories that hold our files."""
        yield self.data_path
        for topic, queue in self.queues():
            directory = os.path.join(self.data_path, queue_directory(topic, queue))
            yield from (directory, os.path.join(directory, QUARANTINE))

    def _remove_doomed(self, directory: str) -> None:
        """Remove the files of deleted logs that are still there."""
        for name in self.disk.list(directory):
            if name.endswith(DOOMED):
                try:
                    self.disk.remove_tree(os.path.join(directory, name))
                except StorageError as error:
                    logger.warning("failed to remove a deleted log - %s", error)

    def queues(self) -> list[tuple[str, int]]:
        """(topic, queue) of every queue on the disk."""
        found = []
        for name in self.disk.list(os.path.join(self.data_path, TOPICS)):
            topic, at, queue = name.rpartition("@")
            if at and queue.isdecimal():
                found.append((topic, int(queue)))
        return found

    def open_queue(
        self, topic: str, queue: int, new_id_base: int, *, is_copy: bool = False
    ) -> tuple[Log, Journal, RecoveryReport]:
        """Open the log and cursor journal of a queue, created if they are not there.

        The journal is read first: it states how far the log should reach. A log that is the copy of
        another goes on where it ends all the same: what is missing comes again. Raises
        StorageError.
        """
        directory = os.path.join(self.data_path, queue_directory(topic, queue))
        self.disk.make_directory(directory)
        # Before the files are read: damage that is on record is not reported again.
        damage = DamageRecord(self.disk, directory)
        identity = read_identity(self.disk, directory, new_id_base)
        is_expected = identity.has_journal and bool(segments_in(self.disk, directory))
        journal = Journal(
            self.disk,
            os.path.join(directory, JOURNAL_FILE),
            identity.id_base,
            damage,
            is_expected=is_expected,
        )
        # Only now: once this is on disk, a journal that is missing or empty counts as damage.
        if journal.is_named:
            note_journal(self.disk, directory, identity)
        known = journal.extent if journal.tells_extent and not is_copy else None
        log, report = recover(self.disk, directory, identity.id_base, self._cache, self.options,
                              damage, known, is_newest=journal.is_whole,
                              is_copy=is_copy)  # fmt: skip
        return log, journal, report

    def begin_queue(self, topic: str, queue: int, id_base: int, start: int) -> None:
        """Lay down the files of a queue that is the copy of another: its ids, and the offset of its
        first message. Raises StorageError.
        """
        directory = os.path.join(self.data_path, queue_directory(topic, queue))
        self.disk.remove_tree(directory)  # the rest of an earlier attempt
        self.disk.make_directory(directory)
        # The segment comes last: from then on a missing journal would be damage.
        write_identity(self.disk, directory, id_base)
        Journal(self.disk, os.path.join(directory, JOURNAL_FILE), id_base).close()
        Segment.create(self.disk, directory, start, id_base).file.close()
        self.disk.sync_directory(directory)

    def put_aside(self, topic: str, queue: int, folder: str) -> str:
        """Move the closed files of a queue to the same place below a folder of the data path, or
        below another one if that has the queue already; the folder.

        Raises StorageError.
        """
        directory = queue_directory(topic, queue)
        wanted, number = folder, 1
        while self.disk.list(target := os.path.join(self.data_path, folder, directory)):
            number += 1
            folder = f"{wanted}-{number}"
        self.disk.make_directory(os.path.dirname(target))
        self.disk.rename(os.path.join(self.data_path, directory), target)
        # The new place first: a power cut may then leave both names, but never none.
        self.disk.sync_directory(os.path.dirname(target))
        self.disk.sync_directory(os.path.join(self.data_path, TOPICS))
        return folder

    def open_queues(
        self,
        topic: str,
        log: Log,
        stated: Stated,
        *,
        several: bool = False,
        firsts: Mapping[int, int] | None = None,
    ) -> Queues:
        """Open the queues of a topic's log; ``several`` makes an index for more than one, which
        begin at ``firsts`` if that is known.

        Raises StorageError.
        """
        directory = os.path.join(self.data_path, queue_directory(topic, 0))
        return open_queues(self.disk, directory, log, several=several, stated=stated, firsts=firsts)

    def read_file(self, name: str) -> bytes | None:
        """A file directly under the data path; None when it is not there."""
        return self.disk.read_file(os.path.join(self.data_path, name))

    def replace_file(self, name: str, data: bytes) -> None:
        """Write a file directly under the data path, durably and at once."""
        self.disk.replace_file(os.path.join(self.data_path, name), data)

    def close(self) -> None:
        self._lock.release()
