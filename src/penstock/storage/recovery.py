"""Opening a log: what its files really hold after a clean stop, a crash or a bad disk.

Each segment's index file says how far the segment was known to be good; from there on the segment
is read batch by batch. Then:

- bytes behind the last valid batch of the newest segment are a torn tail, a publish that was never
  acknowledged at the ``write`` level: they are cut off, and the log says so;
- zeros behind the last valid batch, where the next segment goes on with the next offset, were
  reserved (``disk.LogFile.reserve``): they are cut off;
- bytes between valid batches are corruption: they are copied to ``quarantine/`` for the operator,
  counted, and stepped over. Nothing that can be read is ever cut off.
"""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Annotated, Final

import msgspec

from penstock.core.errors import StorageError
from penstock.core.malformed import MALFORMED
from penstock.storage.batch import OFFSET_MAX, CorruptBatchError
from penstock.storage.cache import BlockCache
from penstock.storage.disk import Disk
from penstock.storage.durability import Durability
from penstock.storage.index import BlockIndex
from penstock.storage.log import Log, LogOptions
from penstock.storage.scan import Damage, Scan, scan
from penstock.storage.segment import Segment, parse_segment_name, segment_name

logger = logging.getLogger(__name__)

WINDOW_BYTES: Final = 16 * 1024 * 1024
_GLANCE_BYTES: Final = 64 * 1024
"""Read of a log to see whether its first message has the id that it should have."""
_IDENTITY_FILE: Final = "queue.json"
QUARANTINE: Final = "quarantine"


class QueueIdentity(msgspec.Struct):
    """What a queue keeps for life, in ``queue.json``."""

    id_base: Annotated[int, msgspec.Meta(ge=0, le=OFFSET_MAX)]
    version: int = 1


@dataclass(slots=True)
class RecoveryReport:
    """What opening a log found. Sizes in bytes."""

    torn: int = 0
    damaged: int = 0
    scanned: int = 0
    damage: list[str] = field(default_factory=list)


def open_log(
    disk: Disk, directory: str, new_id_base: int, cache: BlockCache, options: LogOptions
) -> tuple[Log, RecoveryReport]:
    """The log in ``directory``, made when it is not there.

    ``new_id_base`` is used only when the queue is new. Raises StorageError when the directory
    cannot be used at all.
    """
    disk.make_directory(directory)
    firsts = [first for name in disk.list(directory)
              if (first := parse_segment_name(name)) is not None]  # fmt: skip
    id_base = _identity(disk, directory, firsts, new_id_base).id_base
    report = RecoveryReport()
    segments: list[Segment] = []
    unsynced: list[Segment] = []
    for first, following in zip_longest(firsts, firsts[1:]):
        segment = Segment(disk.open(_segment_path(directory, first)), first, id_base)
        expected = max(first, segments[-1].next_offset if segments else first)
        if _recover(disk, segment, expected, following, report):
            unsynced.append(segment)
        segments.append(segment)
    if not segments:
        segments.append(Segment.create(disk, directory, 0, id_base))
        disk.sync_directory(directory)
    _keep_offsets_rising(disk, directory, segments)
    log = Log(disk, directory, segments, id_base, cache, options)
    log.damaged_bytes = report.damaged
    log.distrust(unsynced)
    if options.durability is Durability.FSYNC and log.unsynced_messages:
        _sync(log)
    return log, report


def _sync(log: Log) -> None:
    """Make last what a killed process has written, as from now on everybody can see it."""
    try:
        log.sync()
    except StorageError as error:  # it can be read, and nothing is added to it
        logger.error("%s: cannot sync what was found - %s", log.directory, error)


def _segment_path(directory: str, first_offset: int) -> str:
    return os.path.join(directory, segment_name(first_offset))


def _identity(disk: Disk, directory: str, firsts: list[int], new_id_base: int) -> QueueIdentity:
    """What the identity file says or, when it is lost or damaged, the messages themselves."""
    path = os.path.join(directory, _IDENTITY_FILE)
    data = disk.read_file(path)
    if data is not None:
        try:
            identity = msgspec.json.decode(data, type=QueueIdentity)
            if _fits(disk, directory, firsts, identity.id_base):
                return identity
            logger.error("%s: is of another queue; taking the ids from the messages", path)
        except MALFORMED as error:
            logger.error("%s: %s; taking the ids from the messages", path, error)
    found = _id_base_of_messages(disk, directory, firsts)
    identity = QueueIdentity(new_id_base if found is None else found)
    disk.replace_file(path, msgspec.json.encode(identity))
    return identity


def _fits(disk: Disk, directory: str, firsts: list[int], id_base: int) -> bool:
    """Whether the messages have the ids that this base gives them.

    With a wrong one all of them would pass for another queue's, and be cut off.
    """
    if not firsts:
        return True
    file = disk.open(_segment_path(directory, firsts[0]))
    found = scan(file.read(0, _GLANCE_BYTES), firsts[0], id_base, more=True)
    file.close()
    if found.batches:
        return True
    return _id_base_of_messages(disk, directory, firsts) in (None, id_base)


def _id_base_of_messages(disk: Disk, directory: str, firsts: list[int]) -> int | None:
    for first in firsts:
        file = disk.open(_segment_path(directory, first))
        size = file.size
        found = scan(file.read(0, WINDOW_BYTES), first, more=size > WINDOW_BYTES)
        if not found.batches and size > WINDOW_BYTES:
            found = scan(file.read(0, size), first)
        file.close()
        if found.batches:
            return found.batches[0].first_id - found.batches[0].first_offset
    return None


def _recover(
    disk: Disk, segment: Segment, expected: int, following: int | None, report: RecoveryReport
) -> bool:
    """Take into the segment what its file holds behind what its index speaks of; whether there was
    any. ``following`` is the first offset of the next segment, None for the newest.
    """
    indexed = position = _load_index(disk, segment)
    expected = max(expected, segment.next_offset)
    while position < segment.size:
        position, expected = _take_window(disk, segment, position, expected, following, report)
    return position > indexed


def _load_index(disk: Disk, segment: Segment) -> int:
    """Take over the index file; the file position up to which it speaks."""
    data = disk.read_file(segment.index_path)
    if data is None:
        return 0
    try:
        index, size, next_offset, timestamp_ns = BlockIndex.decode(data)
    except CorruptBatchError as error:
        logger.warning("%s: %s, reading the segment instead", segment.index_path, error)
        return 0
    if size > segment.size:
        logger.error("%s is shorter than its index says (%d < %d bytes), reading all of it",
                     segment.file.path, segment.size, size)  # fmt: skip
        disk.remove(segment.index_path)  # it would be believed once the file has grown again
        return 0
    segment.index, segment.next_offset = index, next_offset
    segment.last_timestamp_ns = timestamp_ns
    return size


def _take_window(
    disk: Disk,
    segment: Segment,
    position: int,
    expected: int,
    following: int | None,
    report: RecoveryReport,
) -> tuple[int, int]:
    """Read on from a file position; the next position and expected offset."""
    nbytes = WINDOW_BYTES
    while True:
        data = segment.file.read(position, nbytes)
        last_window = position + len(data) >= segment.size
        found = scan(data, expected, segment.id_base, more=not last_window)
        if found.batches or last_window:
            break
        nbytes *= 2
    report.scanned += len(data)
    for batch, start in zip(found.batches, found.positions, strict=True):
        segment.note(batch, position + start)
        expected = batch.next_offset
    _judge_damage(disk, segment, position, data, found, last_window, following, report)
    return (segment.size if last_window else position + found.end), expected


def _judge_damage(
    disk: Disk,
    segment: Segment,
    position: int,
    data: bytes,
    found: Scan,
    last_window: bool,
    following: int | None,
    report: RecoveryReport,
) -> None:
    is_newest = following is None
    is_whole = following is None or segment.next_offset == following
    for damage in found.damage:
        behind_all = damage.start >= found.end
        if behind_all and not last_window:
            continue  # only cut by the window; the next one starts there
        start = position + damage.start
        if behind_all and is_whole and not data[damage.start :].strip(b"\0"):
            segment.file.truncate(start)  # it was reserved, and not used
            return
        if behind_all and is_newest:
            torn = segment.size - start
            report.torn += torn
            logger.warning("%s: cut off a torn tail of %d bytes", segment.file.path, torn)
            segment.file.truncate(start)
            return
        _quarantine(disk, segment, position, data, damage, report)


def _quarantine(
    disk: Disk, segment: Segment, position: int, data: bytes, damage: Damage, report: RecoveryReport
) -> None:
    directory = os.path.join(os.path.dirname(segment.file.path), QUARANTINE)
    name = f"{segment.first_offset:020d}-{position + damage.start}.bad"
    try:
        disk.make_directory(directory)
        disk.replace_file(os.path.join(directory, name), data[damage.start : damage.end])
    except StorageError as error:  # on a full disk, say; the segment keeps these bytes anyway
        logger.warning("cannot copy damaged bytes - %s", error)
    report.damaged += damage.end - damage.start
    report.damage.append(name)
    logger.error("%s: bytes %d to %d are damaged; copied to %s/%s and stepped over",
                 segment.file.path, position + damage.start, position + damage.end,
                 QUARANTINE, name)  # fmt: skip


def _keep_offsets_rising(disk: Disk, directory: str, segments: list[Segment]) -> None:
    """Start a new segment when damage cost the newest its name's place in the order."""
    newest = segments[-1]
    floor = max(segment.next_offset for segment in segments)
    if newest.next_offset < floor:
        segments.append(Segment.create(disk, directory, floor, newest.id_base))
