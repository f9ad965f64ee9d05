"""A writer's batch on its way into the log of a topic: its parts are written as they are read, one
at a time is in memory, and readers see none before all are there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from penstock.broker.publish.records import Records
from penstock.broker.publish.writers import encode_commit
from penstock.storage.batch import Batch
from penstock.storage.log import Log


class BatchPlace(NamedTuple):
    """The place that a batch gets: its first message's id and queue offset, and the time (ns)."""

    first_id: int
    queue: int
    queue_offset: int
    timestamp_ns: int


Stamp: TypeAlias = Callable[[Batch, BatchPlace], int]
"""A function that writes a place into a batch's frames; it returns the bytes of their bodies."""


def unplaced(records: Records, delay_ns: int, shard: int = 0) -> Batch:
    """A batch that has no place in a log yet, nor have its messages ids or a time.

    Batches of one ``shard`` go to one queue, those of shard 0 to any.
    """
    frames, table = records.encode(0, 0)
    return Batch.build(0, 0, 0, records.count, records.stride, [frames], table=table,
                       delay_ns=delay_ns, dialect=records.dialect, queue=shard)  # fmt: skip


class Commit:
    """A commit that is being written; made by ``Topic.begin_commit``, filled in any thread."""

    def __init__(
        self,
        log: Log,
        nbytes: int,
        timestamp_ns: int,
        queue_ends: Sequence[int],
        first_queue: int,
        writer: str,
        batch: int,
    ) -> None:
        """``queue_ends`` are the next offsets of the queues, over which batches take turns from
        ``first_queue`` on. Raises StorageError.
        """
        self.log = log
        self.written = log.begin_append(nbytes)
        self.timestamp_ns = timestamp_ns
        self.writer = writer
        self.batch = batch
        self.first = self.end = log.append_offset
        self._queue_ends = list(queue_ends)
        self._turn = first_queue
        self._held: tuple[Batch, int] | None = None

    @property
    def next_id(self) -> int:
        """The id of the first message of the next batch."""
        return self.log.id_base + self.end

    def add(self, batch: Batch, stamp: Stamp) -> int:
        """Stamp and take the next batch; the bytes of its bodies. Raises StorageError."""
        queue = self._queue_of(batch)
        nbytes = stamp(
            batch, BatchPlace(self.next_id, queue, self._queue_ends[queue], self.timestamp_ns)
        )
        self._queue_ends[queue] += batch.count
        # One batch is held back: only ``finish`` knows which is the last and gets the note.
        if self._held is not None:
            before, its_queue = self._held
            offset = self.end - before.count
            self.written.write(
                before.moved(
                    offset,
                    self.log.id_base + offset,
                    self.timestamp_ns,
                    its_queue,
                    goes_on=True,
                    went_before=offset > self.first,
                )
            )
        self.end += batch.count
        self._held = batch, queue
        return nbytes

    def _queue_of(self, batch: Batch) -> int:
        """The queue of an unplaced batch, which has its shard there."""
        count = len(self._queue_ends)
        # The same shard, the same queue: this is what keeps the messages of one key in order.
        if batch.queue:
            return (batch.queue - 1) % count
        queue = self._turn % count
        self._turn = queue + 1
        return queue

    def finish(self) -> None:
        """Write the last batch, with the note that says whose commit this is. Raises StorageError.

        There is one at least.
        """
        assert self._held is not None
        last, queue = self._held
        offset = self.end - last.count
        self.written.write(
            Batch.build(offset, self.log.id_base + offset, self.timestamp_ns, last.count, 0,
                        [last.frames], table=last.positions().astype(np.uint32),
                        delay_ns=last.delay_ns, dialect=last.dialect,
                        note=encode_commit(self.writer, self.batch), queue=queue,
                        went_before=offset > self.first)
        )  # fmt: skip

    def cancel(self) -> None:
        """Leave nothing of it behind, in any thread."""
        self.log.cancel_append(self.written)
