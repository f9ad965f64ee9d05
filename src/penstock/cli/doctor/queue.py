"""One topic's files under the doctor's eyes: identity, journal, segments, damage on record."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final

import msgspec

from penstock.cli.doctor.report import Finding, error, warning
from penstock.cluster.exchange import target
from penstock.core.counted import counted
from penstock.core.errors import LaterFormatError, StorageError
from penstock.core.malformed import MALFORMED
from penstock.core.moments import rfc3339
from penstock.core.units import SECOND
from penstock.storage.batch import CorruptBatchError, iter_batches
from penstock.storage.files.dry_disk import DryDisk
from penstock.storage.identity import IDENTITY_FILE, QueueIdentity, segments_in
from penstock.storage.index import BlockIndex
from penstock.storage.journal import Journal
from penstock.storage.log import Log
from penstock.storage.recovery.damage import QUARANTINE, Damage, DamageRecord, record_path
from penstock.storage.segment import index_path, segment_name
from penstock.storage.store import Store, queue_directory

AHEAD_NS: Final = 60 * SECOND
"""A message may be so far ahead of the clock before that is a finding."""
LATER_REMEDY: Final = "Nothing is wrong with the files, but this version must not touch them."
_READ_BYTES: Final = 4 * 1024 * 1024


class Queue:
    """The files of one topic; ``messages`` is how many its log holds, once it is examined."""

    def __init__(self, disk: DryDisk, store: Store, topic: str, number: int) -> None:
        self.messages = 0
        self._disk = disk
        self._store = store
        self._topic = topic
        self._number = number
        self._directory = os.path.join(store.data_path, queue_directory(topic, number))
        self._where = f"topic {topic}"

    def examine(self, now_ns: int, *, quick: bool) -> Iterator[Finding]:
        """Open the topic in memory and, unless ``quick``, read all of its messages."""
        identity = self._disk.read_file(os.path.join(self._directory, IDENTITY_FILE))
        try:
            before = DamageRecord(self._disk, self._directory)
            on_record, known = list(before.pending), list(before.known)
            if record_path(self._directory) in self._disk.replaced:  # it is damaged itself
                on_record = []
            log, journal, report = self._store.open_queue(self._topic, self._number, 0)
            if not quick:
                _read_all(log)
        except LaterFormatError as problem:
            yield error("later-format", self._where, str(problem), LATER_REMEDY)
            return
        except StorageError as problem:
            yield error(
                "unreadable",
                self._where,
                str(problem),
                "Run this as the user that nsqd runs as; if it is the disk, replace it "
                "and restore a backup.",
            )
            return
        self.messages = log.next_offset - log.start_offset
        yield from self._damage(log.damage, on_record, known)
        yield from self._torn(report.torn + journal.torn_bytes)
        yield from self._identity(identity, log, journal)
        yield from self._indexes(log)
        yield from self._clock(log, now_ns)

    def _damage(
        self, record: DamageRecord, on_record: list[Damage], known: list[Damage]
    ) -> Iterator[Finding]:
        accepting = target("/topic/damage/accept", topic=self._topic)
        accept = (
            f"Nothing of the topic is deleted, and the node is unhealthy, until you accept "
            f"the damage: POST {accepting} at the running node, "
            "or --accept-damage here."
        )
        for damage in record.pending:
            if damage in on_record:
                yield error("damage-pending", self._where, f"on record: {damage}", accept)
            else:
                yield error(
                    "damage",
                    self._where,
                    _uncopied(damage),
                    "nsqd keeps all that can be "
                    f"read, and copies damaged bytes to {QUARANTINE}/ when it meets them; "
                    "the doctor has changed nothing. Restore a backup if what is lost "
                    f"matters. {accept}",
                )
        for damage in record.known:
            if damage not in known:
                yield warning(
                    "damage-unsynced",
                    self._where,
                    _uncopied(damage),
                    "It was never "
                    "synced, so a power cut may take it; choose --durability=fsync "
                    "where it must not. The next start goes on by itself.",
                )

    def _torn(self, nbytes: int) -> Iterator[Finding]:
        if nbytes:
            yield warning(
                "torn-tail",
                self._where,
                f"{counted(nbytes, 'byte')} at the end are of a write that a crash has cut short",
                "It was never acknowledged. The "
                "next start cuts it off and keeps a copy; --repair does it "
                "now.",
            )

    def _identity(self, data: bytes | None, log: Log, journal: Journal) -> Iterator[Finding]:
        try:
            identity = msgspec.json.decode(data or b"", type=QueueIdentity)
        except MALFORMED:
            identity = None
        if identity is None or identity.id_base != log.id_base:
            found = "another topic's" if identity else "damaged" if data else "missing"
            yield warning(
                "identity",
                self._where,
                f"its {IDENTITY_FILE} is {found}",
                "The next start takes the ids from the messages; --repair does it now.",
            )
        if journal.is_old:
            yield warning(
                "old-format",
                self._where,
                "its cursor journal is of an earlier version",
                "The next start of nsqd writes it again; nothing is lost.",
            )

    def _indexes(self, log: Log) -> Iterator[Finding]:
        for first in segments_in(self._disk, self._directory):
            path = index_path(os.path.join(self._directory, segment_name(first)))
            data = self._disk.read_file(path)
            try:
                if data is not None:
                    BlockIndex.decode(data, log.id_base + first)
            except CorruptBatchError as problem:
                yield warning(
                    "index",
                    self._where,
                    f"{os.path.basename(path)}: {problem}",
                    "It is only there for speed: the next start reads the segment "
                    "instead, and writes it again.",
                )

    def _clock(self, log: Log, now_ns: int) -> Iterator[Finding]:
        if log.newest_ns > now_ns + AHEAD_NS:
            yield warning(
                "clock",
                self._where,
                "its newest message was published at "
                f"{rfc3339(log.newest_ns)}, which is yet to come",
                "The clock of this machine is slow, or was fast then. Set it right "
                "(chrony, ntpd): seeks by time follow it.",
            )


def _uncopied(damage: Damage) -> str:
    """Damage that only the start in memory has met: its copy is nowhere but there."""
    return str(msgspec.structs.replace(damage, copy=""))


def _read_all(log: Log) -> None:
    """Read and check all messages. Raises StorageError; damage is reported to the log's record."""
    offset = log.start_offset
    while pieces := log.read_raw(offset, _READ_BYTES):
        offset = max(batch.next_offset for batch in iter_batches(pieces[-1], verify=False))
