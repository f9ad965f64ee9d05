"""The keys of the rows of the sums, the same from look to look unless topics come or go."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from penstock.admin.history.row_numbers import Key, Rows
from penstock.admin.history.sample import GROUP_MARK

Indices = NDArray[np.intp]
Mask = NDArray[np.bool_]

TOPICS: Final = "topics"
OVERVIEW: Final = "overview"
LEVELS: Final = ("", TOPICS, OVERVIEW)
_KEPT: Final = 256


class RowFilter(NamedTuple):
    """A choice of rows to see; an empty field leaves everything in."""

    topic: str = ""
    node: str = ""
    level: str = ""
    """``topics``: no channels and no groups; ``overview``: what the cluster as a whole is told
    by.
    """

    def wants(self, key: Key) -> bool:
        return (
            (not self.topic or key.topic == self.topic)
            and (not self.node or key.node == self.node)
            and not (self.level and key.channel)
        )


class Layout:
    """The rows as they are now."""

    def __init__(self, rows: Rows) -> None:
        self.version = rows.version
        self.keys = list(rows.keys)
        topics: list[int] = []
        channels: list[int] = []
        groups: list[int] = []
        others: list[int] = []
        for row, key in enumerate(self.keys):
            if key is None:
                continue
            kind = (
                others
                if not key.topic
                else topics
                if not key.channel
                else groups
                if key.channel.startswith(GROUP_MARK)
                else channels
            )
            kind.append(row)
        self.topics, self.channels = self.mask(topics), self.mask(channels)
        self.groups, self.others = np.array(groups, np.intp), np.array(others, np.intp)
        """``others`` are the cluster and its nodes."""
        self._topic_rows = {key.topic: row for row in topics if (key := self.keys[row])}
        self._known: dict[RowFilter, Indices] = {}

    def rows_of(self, row_filter: RowFilter) -> Indices:
        """The rows that are wished for."""
        if row_filter not in self._known:
            if len(self._known) >= _KEPT:
                self._known.clear()
            found = [row for row, key in enumerate(self.keys) if key and row_filter.wants(key)]
            self._known[row_filter] = np.array(found, np.intp)
        return self._known[row_filter]

    def read(self, groups: Iterable[int]) -> Mask:
        """The topics that these groups read."""
        keys = [key for row in groups if (key := self.keys[row])]
        return self.mask(
            [self._topic_rows[key.topic] for key in keys if key.topic in self._topic_rows]
        )

    def stays(self, before: Layout) -> Mask:
        """The mask of the rows that have the same keys as before."""
        if self.version == before.version:
            return np.ones(len(self.keys), bool)
        same = [old == new for old, new in zip(before.keys, self.keys, strict=False)]
        return self.mask(np.flatnonzero(same).tolist())

    def within(self, topic: str) -> Mask:
        """The rows of a topic: the topic, its channels and its groups."""
        return self.mask([row for row, key in enumerate(self.keys) if key and key.topic == topic])

    def mask(self, rows: list[int] | Indices) -> Mask:
        """True in these rows."""
        mask = np.zeros(len(self.keys), bool)
        mask[rows] = True
        return mask
