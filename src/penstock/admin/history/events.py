"""Server-sent events: what changed since the last refresh, for everybody who watches.

A watcher gets an event `state` with all rows, then after every refresh one named `refresh` with the
rows that changed and the keys that went. A row is topic, channel, node (empty: all of them) and the
figures that `figures` names. Nodes that were there within the hour and are not now are `missing`. A
watcher may ask for one topic, one node, or no channels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec
import numpy as np

from penstock.admin.history.facts import FACTS
from penstock.admin.history.history import FIGURES, History
from penstock.admin.history.ring import Table
from penstock.admin.history.rows import Key
from penstock.net.http import Stream

WATCHERS_MAX: Final = 256
_HEADERS: Final = (("Cache-Control", "no-store"), ("X-Accel-Buffering", "no"))
LEVELS: Final = ("", "topics")
_NUMBERS_KEPT: Final = 3
_encode = msgspec.json.Encoder().encode  # NaN becomes null


class Wish(NamedTuple):
    """What a watcher wants to see; empty: everything."""

    topic: str = ""
    node: str = ""
    level: str = ""
    """`topics`: no channels and no groups."""

    def wants(self, key: Key) -> bool:
        return (
            (not self.topic or key.topic == self.topic)
            and (not self.node or key.node == self.node)
            and not (self.level and key.channel)
        )


class Events:
    """The watchers of one history."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._watchers: dict[Stream, Wish] = {}
        self._shown: Table = np.empty((0, 0), np.float32)
        self._keys: list[Key | None] = []
        self._time, self._message = 0.0, ""
        self._missing: list[str] = []

    def __len__(self) -> int:
        return len(self._watchers)

    def watch(self, wish: Wish) -> Stream | None:
        """A new watcher's stream; None when there are too many."""
        if len(self._watchers) >= WATCHERS_MAX:
            return None

        def closed() -> None:
            self._watchers.pop(stream, None)

        stream = Stream("text/event-stream", _HEADERS, closed=closed)
        self._watchers[stream] = wish
        rows = np.flatnonzero(~np.isnan(self._shown[:1]).all(axis=0)).tolist()
        stream.send(self._event("state", wish, rows, ()))
        return stream

    def refreshed(self, time: float, message: str) -> None:
        """The history has new figures, at this time in unix seconds; `message` are warnings."""
        before, old_keys = self._shown, self._keys
        self._shown, self._keys = _shown(self._history), list(self._history.sums.keys)
        self._time, self._message = time, message
        self._missing = _missing(self._shown, self._keys)
        if not self._watchers:
            return
        changed, gone = _changes(before, old_keys, self._shown, self._keys)
        made: dict[Wish, bytes] = {}
        for stream, wish in list(self._watchers.items()):
            if wish not in made:
                made[wish] = self._event("refresh", wish, changed, gone)
            stream.send(made[wish])

    def _event(self, name: str, wish: Wish, rows: Sequence[int], gone: Sequence[Key]) -> bytes:
        everything = wish == Wish()
        wanted = [row for row in rows if everything or self._wanted(wish, row)]
        figures = self._shown[:, wanted].astype(np.float64).round(_NUMBERS_KEPT).T
        data = {
            "time": round(self._time, _NUMBERS_KEPT),
            "message": self._message,
            "figures": FIGURES + FACTS,
            "quantiles": self._history.quantiles,
            "rows": [
                [*(self._keys[row] or ()), *values]
                for row, values in zip(wanted, figures.tolist(), strict=True)
            ],
            "gone": [list(key) for key in gone if wish.wants(key)],
            "missing": self._missing,
        }
        return b"event: %s\ndata: %s\n\n" % (name.encode(), _encode(data))

    def _wanted(self, wish: Wish, row: int) -> bool:
        key = self._keys[row]
        return key is not None and wish.wants(key)


def _shown(history: History) -> Table:
    """What is known of each row: figures, facts, latencies."""
    figures, latencies = np.split(history.now, [len(FIGURES)])
    return np.concatenate((figures, history.facts, latencies))


def _missing(shown: Table, keys: list[Key | None]) -> list[str]:
    """The nodes that have rows but no figures."""
    gone = np.isnan(shown[0]).tolist()
    return sorted(
        key.node
        for key, is_gone in zip(keys, gone, strict=True)
        if key is not None and key.node and is_gone
    )


def _changes(
    before: Table, old_keys: list[Key | None], now: Table, keys: list[Key | None]
) -> tuple[list[int], list[Key]]:
    """The rows that are others than before, and the keys that are no more."""
    there = ~np.isnan(now[0]) if len(now) else np.zeros(0, bool)
    was_there = ~np.isnan(before[0]) if len(before) else np.zeros(0, bool)
    same = np.zeros(now.shape[1], bool)
    width, figures = min(before.shape[1], now.shape[1]), min(len(before), len(now))
    if width and len(before) == len(now):
        equal = (before[:figures, :width] == now[:figures, :width]) | (
            np.isnan(before[:figures, :width]) & np.isnan(now[:figures, :width])
        )
        same[:width] = equal.all(axis=0)
    moved = [row for row in range(width) if old_keys[row] != keys[row]]
    same[moved] = False
    changed = np.flatnonzero(there & ~same).tolist()
    left = set(np.flatnonzero(was_there[:width] & ~there[:width]).tolist()) | {
        row for row in moved if was_there[row]
    }
    gone = [key for row in sorted(left) if (key := old_keys[row]) is not None]
    return changed, gone
