"""Small logs to take apart: batches whose bodies tell their offset, on a disk in memory."""

from __future__ import annotations

import numpy as np

from penstock.storage.batch import Batch, iter_batches
from penstock.storage.cache import BlockCache
from penstock.storage.log import Log, LogOptions
from penstock.storage.recovery.opening import RecoveryReport, open_log
from penstock.testing.disk import FaultyDisk

ID_BASE = 5000
DIRECTORY = "/data/q"


def body(offset: int, size: int = 12) -> bytes:
    if size > 1000:
        return b"%d." % offset + bytes(size)
    return b"%d." % offset + bytes((offset * 31 + i) % 256 for i in range(size))


def batch(
    first: int, count: int = 1, *, size: int = 12, timestamp: int = 0, mixed: bool = False
) -> Batch:
    """A batch whose frames are just the bodies. ``mixed``: of different sizes, with a table."""
    if mixed:
        bodies = [body(o, size + o % 3) for o in range(first, first + count)]
        table = np.cumsum([0, *map(len, bodies)], dtype=np.uint32)
        return Batch.build(first, ID_BASE + first, timestamp, count, 0, bodies, table=table)
    bodies = [body(o, size).ljust(size + 8, b"_") for o in range(first, first + count)]
    return Batch.build(first, ID_BASE + first, timestamp, count, size + 8, bodies)


def new_disk() -> FaultyDisk:
    return FaultyDisk("/data")


def reopen(
    disk: FaultyDisk, options: LogOptions | None = None, id_base: int = ID_BASE
) -> tuple[Log, RecoveryReport]:
    return open_log(disk, DIRECTORY, id_base, BlockCache(), options or LogOptions())


def new_log(disk: FaultyDisk, **options: object) -> Log:
    return reopen(disk, LogOptions(**options))[0]  # type: ignore[arg-type]


def fill(log: Log, *counts: int, size: int = 12, mixed: bool = False) -> list[Batch]:
    """Append one batch for each count; timestamps are 1000, 1001 ... in the order of offsets."""
    batches = []
    for count in counts:
        one = batch(
            log.append_offset, count, size=size, timestamp=1000 + log.append_offset, mixed=mixed
        )
        log.append([one])
        batches.append(one)
    return batches


def frames(batches: list[Batch]) -> dict[int, bytes]:
    return {
        o: bytes(b.slice(o, o + 1)) for b in batches for o in range(b.first_offset, b.next_offset)
    }


def everything(log: Log) -> dict[int, bytes]:
    """All that can be read, by offset."""
    found: dict[int, bytes] = {}
    offset = log.start_offset
    while pieces := log.read_raw(offset, 1 << 30):
        batches = [b for piece in pieces for b in iter_batches(piece)]
        found |= frames(batches)
        offset = batches[-1].next_offset
    return found
