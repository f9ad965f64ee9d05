"""Appending more than should be in memory at once.

Batches are written one by one, in any thread, behind the end of a log's newest segment, where no
reader looks; then ``Log.end_append`` makes all of them part of the log at once. Each says whether
others of the same commit stand beside it, so a start after a crash cuts off what is not whole
(``torn_commit``).
"""

from __future__ import annotations

from typing import Final

from penstock.storage.batch import Batch
from penstock.storage.files.disk import LogFile

KEPT_BYTES_MAX: Final = 4 * 1024 * 1024
"""Up to this size the batches are kept as they are, for consumers that keep up."""


class LongAppend:
    """An append of batches one by one; made by ``Log.begin_append``."""

    def __init__(self, file: LogFile) -> None:
        self.batches: list[Batch] = []
        """The batches that were written; beyond ``KEPT_BYTES_MAX`` only their heads."""
        self._file = file
        self._start = self._end = file.size

    def write(self, batch: Batch) -> None:
        """Write one more batch, whose buffer may be used again.

        Raises StorageError; then nothing is left of any.
        """
        self._end = self._file.write(self._end, batch.raw)
        if self._end - self._start <= KEPT_BYTES_MAX:
            self.batches.append(Batch.parse(bytes(batch.raw), verify=False))
            return
        if self.batches and not self.batches[-1].is_head:
            self.batches = [each.head() for each in self.batches]
        self.batches.append(batch.head())

    def drop(self) -> None:
        """Cut off what was written, durably: else it could come back after a power cut and
        complete another commit. Raises StorageError.
        """
        if self._end > self._start:
            self._file.truncate(self._start)
            self._file.sync()
