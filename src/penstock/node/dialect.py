"""Queues and consumer groups of a dialect, in the form in which the others show them.

NSQ's HTTP API serves the log of any dialect (``/log``) and its groups (``/stats``, ``/metrics``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, TypeAlias

from penstock.broker.group_figures import ConsumerGroup, ProducerGroup
from penstock.broker.publish.commit import Stamp
from penstock.broker.topic import Topic
from penstock.core.errors import PenstockError
from penstock.storage.batch import Batch, Buffer
from penstock.storage.batch import Dialect as FrameKind

Extent: TypeAlias = tuple[int, int, int]
"""A queue's first offset, the one its next message will get, and about how many bytes it has."""


class LogView(Protocol):
    """The log as readers of one dialect see it: queues with dense offsets, messages in its form.

    Queues are numbered from 0 on; offsets are of queues.
    """

    @property
    def dialect(self) -> str: ...

    def queue_count(self, topic: Topic) -> int: ...

    def extent(self, topic: Topic, queue: int) -> Extent: ...

    def place(self, topic: Topic, queue: int, log_offset: int) -> int:
        """The offset of a queue's first message at or behind this offset of the log."""
        ...

    def read(self, topic: Topic, queue: int, offset: int, nbytes: int) -> Sequence[Buffer]:
        """Messages from an offset on, at least one unless it is the end.

        Raises OffsetOutOfRangeError, StorageError.
        """
        ...

    def offset_at(self, topic: Topic, queue: int, timestamp_ns: int) -> int:
        """The first offset published at or after a time. Raises StorageError."""
        ...

    def groups(self, topic: Topic) -> dict[str, dict[int, int]]:
        """The offsets of the topic's groups, by queue."""
        ...

    def commit(self, topic: Topic, group: str, offsets: Mapping[int, int]) -> int | None:
        """Take how far a group is; returns the offset to hold the log from, None: not moved.

        Raises ValueError for a name that no group can have.
        """
        ...

    def forget(self, topic: Topic, group: str) -> None:
        """The group is deleted."""
        ...


class StagingError(PenstockError):
    """A chunk that cannot be staged; ``code`` is one of NSQ's HTTP API."""

    def __init__(self, code: str, text: str = "") -> None:
        super().__init__(f"{code}: {text}" if text else code)
        self.code = code
        self.text = text


class Staging(Protocol):
    """Messages of one dialect that are staged and get their places with a commit."""

    @property
    def dialect(self) -> str: ...

    @property
    def frames(self) -> FrameKind: ...

    async def topic(self, name: str) -> Topic:
        """The topic of that name, made if need be. Raises StagingError, StorageError."""
        ...

    def read(self, topic: Topic, body: bytes) -> list[Batch]:
        """The messages of a chunk, without places. Raises StagingError, StorageError."""
        ...

    def stamp(self, topic: Topic) -> Stamp:
        """The function that writes places into a topic's messages, in any thread."""
        ...


class Dialect(Protocol):
    """A daemon whose dialect has queues and groups for the others to show."""

    @property
    def log_view(self) -> LogView: ...

    @property
    def staging(self) -> Staging: ...

    @property
    def port(self) -> int: ...

    @property
    def connection_count(self) -> int: ...

    def consumer_groups(self, topic: str) -> list[ConsumerGroup]:
        """The dialect's groups that consume a topic."""
        ...

    def producer_groups(self) -> list[ProducerGroup]:
        """The dialect's groups of producers, of whatever topics."""
        ...
