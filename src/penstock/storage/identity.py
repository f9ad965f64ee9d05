"""The identity of a queue, in ``queue.json``: the base of its message ids, fixed for life.

When the file is lost or damaged, the base is read from the messages: each batch has both its first
offset and its first id. A queue without messages may have a journal that names it.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated, Final

import msgspec

from penstock.core.errors import DiskFullError
from penstock.core.malformed import MALFORMED
from penstock.storage.batch import OFFSET_MAX
from penstock.storage.files.disk import Disk
from penstock.storage.files.versions import check_version
from penstock.storage.journal import JOURNAL_FILE
from penstock.storage.journal_frames import queues_named, read_frames
from penstock.storage.recovery.scan import scan
from penstock.storage.segment import parse_segment_name, segment_name

logger = logging.getLogger(__name__)

WINDOW_BYTES: Final = 16 * 1024 * 1024
_GLANCE_BYTES: Final = 64 * 1024
"""Bytes of a log to read in order to check the id of its first message."""
IDENTITY_FILE: Final = "queue.json"
_NAMED: Final = 2
"""The first version in which every queue has a journal whose records name the queue."""
FORMAT: Final = _NAMED
"""The version of all files of a queue. Whoever changes what earlier versions would take for damage
raises it, and writes this file before the first byte in the new format.
"""


class QueueIdentity(msgspec.Struct):
    """The content of the file."""

    id_base: Annotated[int, msgspec.Meta(ge=0, le=OFFSET_MAX)]
    version: int = 1

    @property
    def has_journal(self) -> bool:
        """True if the queue must have a journal, never empty, once it has a segment."""
        return self.version >= _NAMED


def segments_in(disk: Disk, directory: str) -> list[int]:
    """The first offsets of the segments in a directory, in order."""
    found = [parse_segment_name(name) for name in disk.list(directory)]
    return [first for first in found if first is not None]


def read_identity(disk: Disk, directory: str, new_id_base: int) -> QueueIdentity:
    """The identity of the queue in a directory; of a new one with ``new_id_base``.

    Raises StorageError, LaterFormatError if a later version has written the queue.
    """
    firsts = segments_in(disk, directory)
    path = os.path.join(directory, IDENTITY_FILE)
    data = disk.read_file(path)
    if data is not None:
        try:
            identity = msgspec.json.decode(data, type=QueueIdentity)
            check_version(path, identity.version, FORMAT)
            if _fits(disk, directory, firsts, identity.id_base):
                return identity
            logger.error("%s belongs to another queue; taking the ids from the messages", path)
        except MALFORMED as error:
            logger.error("%s: %s; taking the ids from the messages", path, error)
    # Messages first, then the journal: with another base all of them would pass for strangers.
    found = _id_base_of_messages(disk, directory, firsts)
    if found is None:
        found = _id_base_of_journal(disk, directory)
    # With segments it may be of a version whose journal named no queue.
    identity = QueueIdentity(new_id_base if found is None else found, 1 if firsts else _NAMED)
    disk.replace_file(path, msgspec.json.encode(identity))
    return identity


def write_identity(disk: Disk, directory: str, id_base: int) -> None:
    """Write down whose files will be in a directory. Raises StorageError."""
    identity = QueueIdentity(id_base, FORMAT)
    disk.replace_file(os.path.join(directory, IDENTITY_FILE), msgspec.json.encode(identity))


def note_journal(disk: Disk, directory: str, identity: QueueIdentity) -> None:
    """Write down that the journal names its queue; on a full disk a later start does it. Raises
    StorageError.
    """
    if not identity.has_journal:
        noted = QueueIdentity(identity.id_base, _NAMED)
        with suppress(DiskFullError):
            disk.replace_file(os.path.join(directory, IDENTITY_FILE), msgspec.json.encode(noted))
            identity.version = noted.version


def _fits(disk: Disk, directory: str, firsts: Sequence[int], id_base: int) -> bool:
    """True if the messages of some segment have the ids that this base gives them, or the journal
    is of that queue; a segment may be another queue's whose file has come here.

    With a wrong base all messages would pass for another queue's, and be cut off.
    """
    if not firsts or any(_has_ids(disk, directory, first, id_base) for first in firsts):
        return True
    journal = read_frames(_journal(disk, directory), id_base)
    if journal.end and not journal.is_old and not journal.strangers:
        return True
    return _id_base_of_messages(disk, directory, firsts) in (None, id_base)


def _has_ids(disk: Disk, directory: str, first: int, id_base: int) -> bool:
    file = disk.open(os.path.join(directory, segment_name(first)))
    found = scan(file.read(0, _GLANCE_BYTES), first, id_base, more=True)
    file.close()
    return bool(found.batches)


def _id_base_of_messages(disk: Disk, directory: str, firsts: Sequence[int]) -> int | None:
    for first in firsts:
        file = disk.open(os.path.join(directory, segment_name(first)))
        size = file.size
        found = scan(file.read(0, WINDOW_BYTES), first, more=size > WINDOW_BYTES)
        # The first batch may be larger than the window: it must not pass for damage.
        if not found.batches and size > WINDOW_BYTES:
            found = scan(file.read(0, size), first)
        file.close()
        if found.batches:
            return found.batches[0].first_id - found.batches[0].first_offset
    return None


def _id_base_of_journal(disk: Disk, directory: str) -> int | None:
    """The queue that all records of the journal name; None if they are of several or of none."""
    queues = queues_named(_journal(disk, directory))
    return queues.pop() if len(queues) == 1 else None


def _journal(disk: Disk, directory: str) -> bytes:
    return disk.read_file(os.path.join(directory, JOURNAL_FILE)) or b""
