"""Numbers for what is sampled: each (topic, channel, node) that is there has a separate row.

A row that was not seen for an hour is free again, and so is one that is needed when there are too
many; a row knows since when it is its key's, so that no key gets the past of another.
"""

from __future__ import annotations

from typing import NamedTuple


class Key(NamedTuple):
    """The topic, channel and node of a row; an empty part stands for all of them."""

    topic: str = ""
    channel: str = ""
    node: str = ""


class Rows:
    """The rows of one table; ``capacity`` is how many there may be. Times in seconds."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._index: dict[Key, int] = {}
        self._free: list[int] = []
        self.keys: list[Key | None] = []
        """The key of each row."""
        self.born: list[float] = []
        """Since when a row is its key's."""
        self.version = 0
        """Another one as soon as a row is somebody else's."""
        self.refused = 0
        """Keys that found no room since the last release."""

    def __len__(self) -> int:
        """Rows that have ever been in use: the width of a table."""
        return len(self.keys)

    def find(self, key: Key) -> int | None:
        """The row of a key."""
        return self._index.get(key)

    def row(self, key: Key, now: float) -> int:
        """The row of a key, given to it now if it had none; -1 when there is no room."""
        row = self._index.get(key)
        if row is not None:
            return row
        if self._free:
            row = self._free.pop()
            self.keys[row], self.born[row] = key, now
        elif len(self.keys) < self.capacity:
            row = len(self.keys)
            self.keys.append(key)
            self.born.append(now)
        else:
            self.refused += 1
            return -1
        self._index[key] = row
        self.version += 1
        return row

    def turn_back(self, now: float) -> None:
        """The clock was set back to this time: no row is its key's from later on."""
        self.born = [min(each, now) for each in self.born]

    def release(self, rows: list[int]) -> None:
        """Free rows."""
        for row in rows:
            key = self.keys[row]
            if key is not None:
                del self._index[key]
                self.keys[row] = None
                self._free.append(row)
        self.version += 1
        self.refused = 0
