"""A log with an index of its queues, filled and looked at."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from penstock.storage.batch import Batch
from penstock.storage.cache import BlockCache
from penstock.storage.files.disk import OsDisk
from penstock.storage.log import Log, LogOptions
from penstock.storage.queues.queue_index import QueueIndex
from penstock.storage.recovery.opening import open_log
from penstock.storage.retention import Retention


def open_at(path: Path, **options: Any) -> Log:
    return open_log(OsDisk(), str(path), 0, BlockCache(), LogOptions(**options))[0]


def index_of(path: Path, log: Log) -> QueueIndex:
    return QueueIndex(OsDisk(), str(path / "queues"), log)


def indexed(path: Path, **options: Any) -> tuple[Log, QueueIndex]:
    log = open_at(path, **options)
    return log, index_of(path, log)


def stop(index: QueueIndex, log: Log) -> None:
    index.close()
    log.close()


def put(log: Log, index: QueueIndex, queue: int, count: int) -> int:
    """Append a batch; the queue offset of its first message."""
    batch = Batch.build(log.next_offset, log.next_id, 1, count, 4, [b"body" * count], queue=queue)
    log.append([batch])
    return index.append(batch)


def content(index: QueueIndex, queues: int) -> dict[int, list[int]]:
    """Log offsets by queue, as ``locate`` gives them."""
    found = {}
    for queue in range(queues):
        low, high = index.bounds(queue)
        offsets: list[int] = []
        while low + len(offsets) < high:
            offsets += index.locate(queue, low + len(offsets), 7)
        found[queue] = offsets
    return found


def stated(batch: Batch) -> int:
    """The queue offset that bodies of these tests state, as RocketMQ's messages do."""
    return int(bytes(batch.slice(batch.first_offset, batch.first_offset + 1)))


def put_stated(log: Log, index: QueueIndex, queue: int, count: int) -> None:
    first = index.bounds(queue)[1]
    bodies = [b"%08d" % (first + number) for number in range(count)]
    log.append([Batch.build(log.next_offset, log.next_id, 1, count, 8, bodies, queue=queue)])
    index.append(log.batches_at(log.next_offset - count)[0][-1])


def let_go(log: Log, index: QueueIndex, before: int) -> None:
    log.trim(before, 10**18, Retention(), about_to=index.secure)
    index.trim()


def places(log: Log, index: QueueIndex) -> dict[int, dict[int, int]]:
    found: dict[int, dict[int, int]] = {}
    for queue in range(3):
        low, high = index.bounds(queue)
        found[queue] = {-1: high}
        for offset in range(low, high):
            (place,) = index.locate(queue, offset, 1)
            found[queue][place] = offset
            assert index.search(queue, place) == offset
    return found


def reopened(path: Path, *, states: bool = True) -> tuple[Log, QueueIndex]:
    log = open_at(path, max_bytes_per_file=600)
    directory = str(path / "queues")
    if not states:
        return log, QueueIndex(OsDisk(), directory, log)
    return log, QueueIndex(OsDisk(), directory, log, stated)


def files_of(path: Path) -> list[Path]:
    return sorted((path / "queues").iterdir())
