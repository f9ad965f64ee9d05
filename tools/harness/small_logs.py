"""Small logs to test on. A frame here is just its body: storage does not look into frames."""

from __future__ import annotations

import os
from collections.abc import Iterable

import numpy as np

from penstock.storage.batch import Batch
from penstock.storage.cache import BlockCache
from penstock.storage.durability import Durability
from penstock.storage.log import Log, LogOptions
from penstock.storage.memory_log import MemoryLog
from penstock.storage.recovery.opening import RecoveryReport, open_log
from penstock.storage.segment import segment_name
from penstock.testing.disk import FaultyDisk

DIRECTORY = "/data/queue"
ID_BASE = 0x0123_4567_0000
SEGMENT = f"{DIRECTORY}/{segment_name(0)}"
INDEX = SEGMENT.removesuffix(".log") + ".index"
NO_MEMORY = 0  # mem_queue_size of a log that reads all but its newest batch from the disk


def make(
    first: int, *bodies: bytes, timestamp_ns: int | None = None, id_base: int = ID_BASE
) -> Batch:
    """A batch of these bodies from offset ``first`` on, published at ``first`` nanoseconds."""
    sizes = [len(body) for body in bodies]
    stride = sizes[0] if len(set(sizes)) == 1 else 0
    table = None if stride else np.cumsum([0, *sizes]).astype(np.uint32)
    return Batch.build(
        first,
        id_base + first,
        first if timestamp_ns is None else timestamp_ns,
        len(bodies),
        stride,
        bodies,
        table=table,
    )


def make_all(groups: Iterable[Iterable[bytes]], first: int = 0) -> list[Batch]:
    """A batch of each group, dense from ``first`` on."""
    made = []
    for group in groups:
        made.append(make(first, *group))
        first = made[-1].next_offset
    return made


def bodies_of(batches: Iterable[Batch]) -> dict[int, bytes]:
    """Body by offset."""
    return {
        offset: bytes(batch.slice(offset, offset + 1))
        for batch in batches
        for offset in range(batch.first_offset, batch.next_offset)
    }


def new_disk() -> FaultyDisk:
    return FaultyDisk("/data")


def open_at(
    disk: FaultyDisk,
    *,
    new_id_base: int = ID_BASE,
    directory: str = DIRECTORY,
    max_bytes_per_file: int = 100_000_000,
    mem_queue_size: int = 10_000,
    durability: Durability = Durability.WRITE,
    cache: BlockCache | None = None,
) -> tuple[Log, RecoveryReport]:
    options = LogOptions(max_bytes_per_file, mem_queue_size, durability)
    return open_log(disk, directory, new_id_base, cache or BlockCache(), options)


def publish(log: Log | MemoryLog, *bodies: bytes, timestamp_ns: int | None = None) -> Batch:
    """Append one batch of these bodies."""
    batch = make(log.next_offset, *bodies, timestamp_ns=timestamp_ns, id_base=log.id_base)
    log.append([batch])
    return batch


def read_from(log: Log | MemoryLog, offset: int) -> dict[int, bytes]:
    """All bodies from ``offset`` on, as a channel reads them: run by run."""
    found: dict[int, bytes] = {}
    while True:
        batches, place = log.batches_at(offset)
        if place >= len(batches):
            return found
        assert batches[place].next_offset > offset, "a run must end behind the offset asked for"
        found.update(bodies_of(batches[place:]))
        offset = batches[-1].next_offset


def segment_path(first: int) -> str:
    return os.path.join(DIRECTORY, segment_name(first))
