"""The queues of a topic as others see them, and those of a topic with one: its offsets are the
log's, so that nothing is kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from penstock.storage.batch import Batch
from penstock.storage.queues.queue_rebuild import IndexedLog


class Queues(Protocol):
    """The queues of a topic. Queue offsets are dense and start at 0."""

    def bounds(self, queue: int) -> tuple[int, int]:
        """The first queue offset whose message is still kept, and the next one to be given."""
        ...

    def end(self, queue: int) -> int:
        """The next queue offset to be given."""
        ...

    @property
    def firsts(self) -> dict[int, int] | None:
        """The first queue offset that is kept of each queue; None where there is one queue only."""
        ...

    def locate(self, queue: int, offset: int, count: int) -> Sequence[int]:
        """The log offsets of up to ``count`` messages from a queue offset on; when that is no
        longer known, from the first one that is.
        """
        ...

    def search(self, queue: int, log_offset: int) -> int:
        """The first queue offset whose message is at or behind a log offset."""
        ...

    def append(self, batch: Batch) -> int:
        """Take a batch that was appended to the log; the queue offset of its first message."""
        ...

    def pass_over(self, queue: int, offset: int, lost: int) -> None:
        """Let the queue go on at ``offset``: messages before it are lost, and stand at the log
        offset ``lost``.
        """
        ...

    def at_least(self, queue: int, offset: int) -> None:
        """Consumers have committed this queue offset. Where damage has left nothing else to tell
        how many messages the queue has had, it goes on there.
        """
        ...

    def secure(self, start: int) -> None:
        """Write down and sync what is below ``start``, as the log will let go of it."""
        ...

    def trim(self) -> None:
        """Forget what the log has let go."""
        ...

    def flush(self) -> None:
        """Write down what is in memory only."""
        ...

    def close(self) -> None: ...

    def abandon(self) -> None:
        """Close without another word in the files: the log is deleted."""
        ...


class OneQueue:
    """The index of a topic with one queue: its offsets are the log's."""

    def __init__(self, log: IndexedLog) -> None:
        self._log = log

    def bounds(self, queue: int) -> tuple[int, int]:
        return (self._log.start_offset, self._log.next_offset) if queue == 0 else (0, 0)

    def end(self, queue: int) -> int:
        return 0 if queue else self._log.next_offset

    @property
    def firsts(self) -> dict[int, int] | None:
        return None

    def locate(self, queue: int, offset: int, count: int) -> Sequence[int]:
        if queue:
            return ()
        first = max(offset, self._log.start_offset)
        return range(first, min(first + count, self._log.next_offset))

    def search(self, queue: int, log_offset: int) -> int:
        low, high = self.bounds(queue)
        return min(max(low, log_offset), high)

    def append(self, batch: Batch) -> int:
        return batch.first_offset

    def pass_over(self, queue: int, offset: int, lost: int) -> None:
        """The log tells where it goes on."""

    def at_least(self, queue: int, offset: int) -> None:
        """The log tells how many messages there were."""

    def secure(self, start: int) -> None:
        """Do nothing: there is nothing to write."""

    def trim(self) -> None:
        """Do nothing: there is nothing to forget."""

    def flush(self) -> None:
        """Do nothing: there is nothing to write."""

    def close(self) -> None:
        """Do nothing: there is nothing to close."""

    def abandon(self) -> None:
        """Do nothing: there is nothing to close."""
