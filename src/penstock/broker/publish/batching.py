"""From the publishes of one pass of the loop to the batches of one write."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, cast

import numpy as np
from msgspec import Struct

from penstock.broker.publish.records import PlacedRecords, Records
from penstock.core.errors import StorageError
from penstock.storage.batch import Batch, Buffer, Positions
from penstock.storage.queues.one_queue import Queues

Outcome = Callable[[StorageError | None], None]

BATCH_BYTES_MAX: Final = 1024 * 1024
"""Publishes are joined into batches up to this size; a larger one gets a batch to itself."""
ONE_BYTES_MAX: Final = 64 * 1024
"""A single message of more costs more to copy twice than the choices of ``Batch.build`` do."""


class Staged(Struct):
    """A publish that waits for the next commit; ``done`` is told how it went."""

    records: Records
    delay_ns: int
    done: Outcome
    queue: int = 0


def batches_of(
    staged: list[Staged],
    queues: Queues,
    first_offset: int,
    id_base: int,
    timestamp_ns: int,
    ahead: dict[int, int] | None = None,
) -> list[Batch]:
    """The batches that hold these publishes in their order, the first at ``first_offset``.

    Neighbours of one queue with the same delay share a batch when they are all single messages, or
    all of one frame size, and have no note. ``ahead`` counts, by queue, the messages that are not
    in ``queues`` yet; the messages of these batches are added to it.
    """
    groups = []
    taken = {} if ahead is None else ahead
    start = 0
    while start < len(staged):
        group = staged[start : _group_end(staged, start)]
        groups.append((group, first_offset))
        first, queue = group[0].records, group[0].queue
        count = len(group) if first.count == 1 else sum([item.records.count for item in group])
        before = taken.get(queue, 0)
        # Frames of NSQ, whose dialect is 0, say nothing of their place in a queue.
        if first.dialect:
            _place(group, queues.end(queue) + before)
        taken[queue] = before + count
        first_offset += count
        start += len(group)
    return [_batch(group, first_offset, id_base, timestamp_ns) for group, first_offset in groups]


def _place(group: list[Staged], queue_offset: int) -> None:
    """Tell records their places in the queue."""
    for item in group:
        records = cast(PlacedRecords, item.records)
        records.queue_offset = queue_offset
        queue_offset += records.count


def _group_end(staged: list[Staged], start: int) -> int:
    """The index behind the last publish that shares a batch with the one at ``start``."""
    first, delay_ns, queue = staged[start].records, staged[start].delay_ns, staged[start].queue
    end = start + 1
    if first.note:
        return end
    single, stride, nbytes = first.count == 1, first.stride, first.nbytes
    while end < len(staged) and staged[end].queue == queue:
        records = staged[end].records
        nbytes += records.nbytes
        if nbytes > BATCH_BYTES_MAX or staged[end].delay_ns != delay_ns:
            break
        if records.dialect != first.dialect or single != (records.count == 1):
            break
        if not single and (not stride or records.stride != stride):
            break
        # Records with a note have no stride, so that few are asked for one.
        if not records.stride and records.note:
            break
        end += 1
    return end


def batch_of(item: Staged, first_offset: int, first_id: int, timestamp_ns: int) -> Batch:
    """The batch of a publish that shares it with no other."""
    records = item.records
    frames, table = records.encode(first_id, timestamp_ns)
    if records.count == 1 and not item.delay_ns and 0 < records.stride <= ONE_BYTES_MAX:
        return Batch.of_one(
            first_offset, first_id, timestamp_ns, frames, records.dialect, item.queue
        )
    return Batch.build(first_offset, first_id, timestamp_ns, records.count, records.stride,
                       (frames,), table=table, delay_ns=item.delay_ns, dialect=records.dialect,
                       note=records.note, queue=item.queue)  # fmt: skip


def _batch(group: list[Staged], first_offset: int, id_base: int, timestamp_ns: int) -> Batch:
    first = group[0].records
    if len(group) == 1:
        return batch_of(group[0], first_offset, id_base + first_offset, timestamp_ns)
    stride = first.stride
    frames: list[Buffer] = []
    table: Positions | None = None
    next_id = first_id = id_base + first_offset
    for item in group:
        records = item.records
        encoded, table = records.encode(next_id, timestamp_ns)
        frames.append(encoded)
        next_id += records.count
        if records.stride != stride:
            stride = 0
    # Single messages of different sizes: the stride of each is the size of its one frame.
    if not stride:
        table = np.cumsum([0, *(item.records.stride for item in group)], dtype=np.uint32)
    return Batch.build(first_offset, first_id, timestamp_ns, next_id - first_id, stride, frames,
                       table=table, delay_ns=group[0].delay_ns, dialect=first.dialect,
                       queue=group[0].queue)  # fmt: skip
