"""Finding a commit of several batches of which a crash has left only a part.

Each batch of a commit says whether others of it stand before and behind it, so a part is recognised
by itself: the log ends, or goes on with something else, where a batch of the same commit should be.
"""

from __future__ import annotations

from typing import NamedTuple

from penstock.storage.batch import Batch


class CommitStart(NamedTuple):
    """The place in a segment where something begins, and how far the segment had come there."""

    position: int
    next_offset: int
    last_timestamp_ns: int
    blocks: int


class TornCommit:
    """A look at the batches of one segment in order, beginning between two commits.

    It need not see batches that are not part of a commit while none ``is_open``.
    """

    def __init__(self) -> None:
        self.found: CommitStart | None = None
        """The place behind the last whole commit, if what follows is a part of one."""
        self._next_offset = 0
        self.is_open = False
        """True if the next batch should belong to the same commit as the last."""
        self._whole: CommitStart | None = None

    def look(self, batch: Batch, place: CommitStart) -> None:
        """Take the next batch; ``place`` is where the batch before it ended."""
        if not self.is_open or self._whole is None:
            self._whole = place
        follows = self.is_open and batch.first_offset == self._next_offset
        if (self.is_open or batch.went_before) and not (follows and batch.went_before):
            self.found = self.found or self._whole
            self._whole = place
        self.is_open = batch.goes_on
        self._next_offset = batch.next_offset

    def end(self) -> CommitStart | None:
        """The segment ends; where the first commit began that is not whole, None if all are."""
        if self.is_open:
            self.found = self.found or self._whole
        return self.found
