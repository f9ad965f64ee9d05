"""Records: messages that a dialect hands to a topic to be published."""

from __future__ import annotations

from typing import Protocol

from penstock.storage.batch import Buffer, Positions


class Records(Protocol):
    """The messages of one publish, not encoded yet: their ids are known only when they are
    appended.
    """

    @property
    def dialect(self) -> int:
        """Whose frames they are (``storage.batch.Dialect``)."""
        ...

    @property
    def count(self) -> int:
        """Messages, at least 1."""
        ...

    @property
    def nbytes(self) -> int:
        """Bytes of their bodies."""
        ...

    @property
    def stride(self) -> int:
        """Bytes of every frame; 0 when they differ."""
        ...

    @property
    def note(self) -> bytes:
        """Bytes to store behind their frames, mostly none. Records with a note share their batch
        with no others, and their ``stride`` is 0.
        """
        ...

    def encode(self, first_id: int, timestamp_ns: int) -> tuple[Buffer, Positions | None]:
        """The frames back to back, and ``count + 1`` positions of them when ``stride`` is 0."""
        ...


class PlacedRecords(Records, Protocol):
    """Records whose frames tell their place in the queue; it is set before ``encode``."""

    queue_offset: int
    """The queue offset of the first message."""
