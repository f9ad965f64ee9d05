"""A dialect that takes part in what is appended to the topics of a broker."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from penstock.storage.batch import Batch


class AppendObserver(Protocol):
    """An observer of all topics of a broker, called once for each commit or sync."""

    def appended(self, topic: str, batches: Sequence[Batch]) -> None:
        """Batches of a topic became visible to readers."""
        ...
