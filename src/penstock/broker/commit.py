"""A writer's batch on its way into the log of a topic: its parts are written as they are read, one
at a time is in memory, and readers see none before all are there.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from penstock.broker.records import Records
from penstock.broker.writers import encode_commit
from penstock.storage.batch import Batch
from penstock.storage.log import Log


def unplaced(records: Records, delay_ns: int) -> Batch:
    """A batch that has no place in a log yet, nor have its messages ids or a time."""
    frames, table = records.encode(0, 0)
    return Batch.build(0, 0, 0, records.count, records.stride, [frames], table=table,
                       delay_ns=delay_ns, dialect=records.dialect)  # fmt: skip


class Commit:
    """A commit that is being written; made by ``Topic.begin_commit``, filled in any thread.

    The caller writes ``next_id`` and ``timestamp_ns`` into the frames of each batch.
    """

    def __init__(
        self,
        log: Log,
        nbytes: int,
        timestamp_ns: int,
        next_queue: Callable[[], int],
        writer: str,
        batch: int,
    ) -> None:
        """``next_queue`` gives the queue of each batch. Raises StorageError."""
        self.log = log
        self.written = log.begin_append(nbytes)
        self.timestamp_ns = timestamp_ns
        self.writer = writer
        self.batch = batch
        self.first = self.end = log.append_offset
        self._next_queue = next_queue
        self._held: Batch | None = None

    @property
    def next_id(self) -> int:
        """The id of the first message of the next batch."""
        return self.log.id_base + self.end

    def add(self, batch: Batch) -> None:
        """Take the next batch, whose buffer is changed. Raises StorageError."""
        before, self._held = self._held, batch
        self.end += batch.count
        if before is not None:
            offset = self.end - batch.count - before.count
            self.written.write(
                before.moved(offset, self.log.id_base + offset, self.timestamp_ns,
                             self._next_queue(), goes_on=True, went_before=offset > self.first)
            )  # fmt: skip

    def finish(self) -> None:
        """Write the last batch, with the note that says whose commit this is. Raises StorageError.

        There is one at least.
        """
        last = self._held
        assert last is not None
        offset = self.end - last.count
        self.written.write(
            Batch.build(offset, self.log.id_base + offset, self.timestamp_ns, last.count, 0,
                        [last.frames], table=last.positions().astype(np.uint32),
                        delay_ns=last.delay_ns, dialect=last.dialect,
                        note=encode_commit(self.writer, self.batch), queue=self._next_queue(),
                        went_before=offset > self.first)
        )  # fmt: skip

    def cancel(self) -> None:
        """Leave nothing of it behind, in any thread."""
        self.log.cancel_append(self.written)
