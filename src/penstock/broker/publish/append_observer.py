"""A dialect that takes part in what is appended to the topics of a broker."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from penstock.broker.publish.records import PlacedRecords
from penstock.storage.batch import Batch


class AppendObserver(Protocol):
    """An observer of all topics of a broker, called once for each commit or sync."""

    def placed(self, records: Sequence[tuple[PlacedRecords, int]], timestamp_ns: int) -> None:
        """Records of a commit have got their places. Each comes with the id of its first message;
        they are encoded one after the other afterwards. The time is the commit's. A single record
        that is appended by itself is encoded without that.
        """
        ...

    def appended(self, topic: str, batches: Sequence[Batch]) -> None:
        """Batches of a topic became visible to readers."""
        ...
