"""The first start on the data path of a Go nsqd: its queues become our log, all of them or none.

Everything is written beside the log first, in a staging directory, and synced. Then one commit puts
it in its place and moves Go's files to ``go-nsqd-imported``; they are never deleted. A start that
is killed before the commit has changed nothing, and one that is killed after it is finished by the
next. So every message arrives, and once.

What a topic's queue held goes to all its channels, or waits for the first; what a channel's queue
held goes to that channel only. Time stamps and attempts are kept; ids are new, as ours are places
in the log.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Final

from penstock.broker.progress import Progress, encode_record
from penstock.core.clock import Clock
from penstock.core.errors import ConfigError, PenstockError, StorageError
from penstock.core.names import is_ephemeral, is_valid_name
from penstock.core.units import SECOND
from penstock.node import metadata
from penstock.nsq.takeover import cursors, moves, shared_records
from penstock.nsq.takeover.data_file import Records, batches
from penstock.nsq.takeover.diskqueue import find_queues
from penstock.nsq.takeover.moves import STAGING, Move
from penstock.nsq.takeover.reader import CHUNK_BYTES_MAX, CHUNK_BYTES_MIN, QueueReader
from penstock.storage.cache import BlockCache
from penstock.storage.durability import Durability
from penstock.storage.journal import JOURNAL_FILE, Journal
from penstock.storage.log import Log
from penstock.storage.recovery.opening import open_log
from penstock.storage.segment import Segment
from penstock.storage.store import Store, queue_directory

logger = logging.getLogger("penstock.nsqd")

IMPORTED: Final = "go-nsqd-imported"
"""Directory of Go's files once they are imported; a number follows when names repeat."""
# For a topic's channel queues together: they are read side by side, a chunk of each in memory.
MEMORY_BYTES: Final = 64 * 1024 * 1024
# All must be synced before the commit; in parts, so that the last sync is short.
SYNC_BYTES: Final = 64 * 1024 * 1024
_PROGRESS_NS: Final = 5 * SECOND
_MB: Final = 1_000_000
_OLD_METADATA = re.compile(r"nsqd\.\d+\.dat")


@dataclass(slots=True)
class _Topic:
    """The data that Go's nsqd has of one topic."""

    name: str
    paused: bool | None = None  # None: nsqd.dat does not say
    channels: dict[str, list[QueueReader]] = field(default_factory=dict)
    queues: list[QueueReader] = field(default_factory=list)

    def readers(self) -> Iterator[QueueReader]:
        yield from self.queues
        for readers in self.channels.values():
            yield from readers


def import_queues(store: Store, clock: Clock, node_id: int, max_msg_size: int) -> int:
    """Import what a Go nsqd has left in the data path; how many messages.

    To be called before the broker opens its topics. Raises StorageError, with nothing changed or
    with the rest left to the next start, ConfigError when a message is larger than ``max_msg_size``
    (bytes), and PenstockError when nsqd.dat makes no sense.
    """
    try:
        if moves.resume(store.disk, store.data_path):
            logger.info("IMPORT: finished what an earlier start has begun")
        names = store.disk.list(store.data_path)
        _warn_of_old_files(names)
        if not find_queues(names):
            return 0
        return _Import(store, clock, node_id, max_msg_size, names).run()
    except StorageError as error:
        raise StorageError(f"failed to import the queues of Go's nsqd - {error}") from error


def _warn_of_old_files(names: Sequence[str]) -> None:
    if metadata.FILE_NAME in names:
        return  # an old one beside it is what nsqd 1.0 to 1.2 kept for those that go back
    for name in filter(_OLD_METADATA.fullmatch, names):
        logger.warning(
            "IMPORT: %s is of an nsqd before 1.0 and not read; rename it to %s to have "
            "its topics and channels",
            name,
            metadata.FILE_NAME,
        )


class _Import:
    def __init__(
        self, store: Store, clock: Clock, node_id: int, max_msg_size: int, names: Sequence[str]
    ) -> None:
        self._store = store
        self._disk = store.disk
        self._clock = clock
        self._node_id = node_id
        self._names = names
        # The import reads back unsynced messages, which the level fsync would still hide from it.
        self._options = replace(store.options, durability=Durability.WRITE)
        self._topics = self._survey(max_msg_size)
        self._moves: list[Move] = []
        self._progress = _Progress(clock, sum(r.nbytes for r in self._readers()))

    def _survey(self, max_msg_size: int) -> dict[str, _Topic]:
        """Topics by name, with every channel that nsqd.dat or a file speaks of."""
        topics: dict[str, _Topic] = {}
        try:
            entries = {entry.name: entry for entry in metadata.read(self._store)}
        except ConfigError as error:  # its text is whole as it is, in Go's words
            raise PenstockError(str(error)) from error
        for files in find_queues(self._names):
            topic = topics.setdefault(files.topic, _Topic(files.topic))
            reader = QueueReader(self._disk, self._store.data_path, files, max_msg_size)
            if files.channel is None:
                topic.queues.append(reader)
            else:
                topic.channels.setdefault(files.channel, []).append(reader)
        for topic in topics.values():
            entry = entries.get(topic.name)
            if entry is None:
                logger.warning(
                    "IMPORT: topic %s is not in nsqd.dat; made from its files", topic.name
                )
                continue
            topic.paused = entry.paused
            for name, _ in entry.channels:
                if is_valid_name(name) and not is_ephemeral(name):
                    topic.channels.setdefault(name, [])
        return topics

    def _readers(self) -> list[QueueReader]:
        return [reader for topic in self._topics.values() for reader in topic.readers()]

    def run(self) -> int:
        channels = sum(len(topic.channels) for topic in self._topics.values())
        logger.info(
            "IMPORT: found the queues of a Go nsqd: %d topics, %d channels, %.1f MB; importing "
            "them before listening",
            len(self._topics),
            channels,
            self._progress.total / _MB,
        )
        moves.begin(self._disk, self._store.data_path)
        try:
            for topic in self._topics.values():
                self._stage(topic)
        # A signal too: whatever ends the import early, nothing stays staged. If that fails, the
        # next start drops it, so the first error is the one to report.
        except BaseException:
            with suppress(StorageError):
                moves.abandon(self._disk, self._store.data_path)
            raise
        directory = self._set_aside()
        moves.commit(self._disk, self._store.data_path, self._moves)
        self._progress.report("imported")
        logger.info(
            "IMPORT: done; Go's files are now in %s, which you may delete",
            os.path.join(self._store.data_path, directory),
        )
        return self._progress.messages

    # --- one topic -----------------------------------------------------------------------------

    def _stage(self, topic: _Topic) -> None:
        exists = (topic.name, 0) in self._store.queues()
        known, log, start = self._continued(topic) if exists else self._fresh(topic)
        first = log.next_offset
        queued = {name: cursors.Queued() for name in topic.channels}
        next_ = self._copy_channels(topic, log, queued)
        for reader in topic.queues:
            for records in reader.chunks():
                self._append(log, records, 1)
        empty = log.next_offset == first
        log.close()
        progress = Progress.replay(known)
        paused = progress.paused if topic.paused is None else topic.paused
        added = cursors.records(progress, queued, first, next_, start=start, paused=paused)
        staged = self._staging(topic.name)
        journal = Journal(self._disk, os.path.join(staged, JOURNAL_FILE), log.id_base)
        # What is staged may be the new end of a log: the journal is for all of it.
        extent = log.extent._replace(start=start)
        journal.replace([*known, *map(encode_record, added)], extent)
        journal.close()
        # The names as well: what the plan lists has to survive a power cut.
        self._disk.sync_directory(staged)
        for name in self._disk.list(staged):
            # A log that is there gets no segment without a message.
            if name == JOURNAL_FILE or not (exists and empty):
                source = os.path.join(STAGING, queue_directory(topic.name, 0), name)
                self._plan(source, os.path.join(queue_directory(topic.name, 0), name))

    def _staging(self, topic: str) -> str:
        return os.path.join(self._store.data_path, STAGING, queue_directory(topic, 0))

    def _fresh(self, topic: _Topic) -> tuple[list[bytes], Log, int]:
        """Journal records, log and start of the log for a topic that is new to us."""
        base = self._store.taken_ids.new_base(self._node_id, self._clock.wall_ns())
        log, _ = open_log(self._disk, self._staging(topic.name), base, BlockCache(), self._options)
        return [], log, 0

    def _continued(self, topic: _Topic) -> tuple[list[bytes], Log, int]:
        """Journal records, log and its start for a known topic: the log goes on where ours ends."""
        logger.warning(
            "IMPORT: topic %s is in our log too; what Go's nsqd has of it is appended", topic.name
        )
        log, journal, _ = self._store.open_queue(topic.name, 0, 0)
        known = journal.records
        journal.close()
        log.skip_to(Progress.replay(known).end())
        start, end, base = log.start_offset, log.next_offset, log.id_base
        log.close()
        staging = self._staging(topic.name)
        self._disk.make_directory(staging)
        segment = Segment.create(self._disk, staging, end, base)
        log = Log(self._disk, staging, [segment], base, BlockCache(), self._options)
        return known, log, start

    def _copy_channels(self, topic: _Topic, log: Log, queued: dict[str, cursors.Queued]) -> int:
        """Append what the channels' queues held; where that ends."""
        owners = [(name, reader) for name, readers in topic.channels.items() for reader in readers]
        if owners:
            nbytes = max(CHUNK_BYTES_MIN, min(CHUNK_BYTES_MAX, MEMORY_BYTES // len(owners)))
            queues = [reader.chunks(nbytes) for _, reader in owners]
            for share in shared_records.merge(queues):
                first = log.next_offset
                self._append(log, share.records, len(share.lanes))
                for lane in share.lanes:
                    queued[owners[lane][0]].add(first, log.next_offset, share.attempts)
        return log.next_offset

    def _append(self, log: Log, records: Records, holders: int) -> None:
        now = self._clock.wall_ns()
        for batch in batches(records, log.next_offset, log.id_base, now):
            log.append([batch])
        if self._progress.add(len(records) * holders, records.nbytes * holders):
            log.sync()

    # --- the files -----------------------------------------------------------------------------

    def _plan(self, source: str, target: str) -> None:
        file = self._disk.open(os.path.join(self._store.data_path, source))
        self._moves.append(Move(source, target, file.size))
        file.close()

    def _set_aside(self) -> str:
        """Plan where Go's files go: a directory in which none of their names is taken."""
        sizes = {name: size for reader in self._readers() for name, size in reader.sizes.items()}
        damaged = {name for reader in self._readers() for name in reader.damaged}
        targets = {name: name + ".bad" * (name in damaged) for name in sizes}
        for number in count(1):
            directory = IMPORTED if number == 1 else f"{IMPORTED}-{number}"
            taken = self._disk.list(os.path.join(self._store.data_path, directory))
            if not set(taken) & set(targets.values()):
                break
        for name, size in sizes.items():
            self._moves.append(Move(name, os.path.join(directory, targets[name]), size))
        return directory


class _Progress:
    """A count of what is done, logged from time to time."""

    def __init__(self, clock: Clock, total: int) -> None:
        self.total = total
        self.messages = 0
        self._nbytes = 0
        self._synced = 0
        self._clock = clock
        self._started = self._told = clock.monotonic_ns()

    def add(self, messages: int, nbytes: int) -> bool:
        """Count messages and bytes that were read; True if it is time to sync."""
        self.messages += messages
        self._nbytes += nbytes
        if self._clock.monotonic_ns() - self._told >= _PROGRESS_NS:
            self.report("so far")
        due = self._nbytes - self._synced >= SYNC_BYTES
        if due:
            self._synced = self._nbytes
        return due

    def report(self, what: str) -> None:
        self._told = self._clock.monotonic_ns()
        seconds = max(self._told - self._started, 1) / SECOND
        logger.info(
            "IMPORT: %s: %d messages, %.1f of %.1f MB, %.0f messages/s, %.1f MB/s",
            what,
            self.messages,
            self._nbytes / _MB,
            self.total / _MB,
            self.messages / seconds,
            self._nbytes / _MB / seconds,
        )
