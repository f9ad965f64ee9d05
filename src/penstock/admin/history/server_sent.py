"""Server-sent events: what changed since the last refresh, for everybody who watches.

A watcher gets an event ``state`` with all rows, then after every refresh one named ``refresh`` with
the rows that changed and the keys that went. A row is topic, channel, node (empty: all of them) and
the figures that ``figures`` names. ``since`` is from when on there are figures. ``missing`` are the
nodes that do not answer now, with the time of their last figures (``at``) and that at which they
are given up (``until``); ``given_up`` those that were. ``attention`` lists topics, channels and
groups that need it, the worst first, and ``attention_more`` is the number that did not fit. A
watcher may ask for one topic, one node, or no channels.

The overview is an event ``state`` each time, which is short: the cluster, its nodes, groups and
busiest topics.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from penstock.admin.history.facts import FACTS
from penstock.admin.history.history import FIGURES, History
from penstock.admin.history.layout import OVERVIEW, Indices, Layout, Mask, RowFilter
from penstock.admin.history.lost_nodes import GivenUp, LostNode
from penstock.admin.history.ring import Table
from penstock.admin.history.row_numbers import Key, Rows
from penstock.admin.history.sample import GROUP_MARK
from penstock.admin.verdicts.attention import Attention, Figures
from penstock.admin.verdicts.trend import WINDOW_S, Steady, slopes
from penstock.net.http.server.service import StreamingResponse

WATCHERS_MAX: Final = 256
BUSIEST: Final = 10
"""The number of busiest topics in an overview."""
# nginx in front would hold events back until its buffer is full.
_HEADERS: Final = (("Cache-Control", "no-store"), ("X-Accel-Buffering", "no"))
_NUMBERS_KEPT: Final = 3
_NAMES: Final = FIGURES + FACTS
_RATES: Final = [FIGURES.index(name) for name in ("in", "out", "requeues", "timeouts")]
_encode = msgspec.json.Encoder().encode  # NaN becomes null


class Events:
    """The watchers of one history."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._watchers: dict[StreamingResponse, RowFilter] = {}
        self._layout = Layout(Rows(0))
        self._shown: Table = np.empty((len(_NAMES), 0), np.float32)
        """The values known of each row: figures, facts, latencies."""
        self._steady = Steady()
        self._growth: NDArray[np.float64] = np.empty(0)
        """The growth of each group's lag; NaN in other rows."""
        self._attention: Attention | None = None
        self._time, self._message = 0.0, ""

    def __len__(self) -> int:
        return len(self._watchers)

    def watch(self, row_filter: RowFilter) -> StreamingResponse | None:
        """A new watcher's stream; None when there are too many."""
        if len(self._watchers) >= WATCHERS_MAX:
            return None

        def closed() -> None:
            self._watchers.pop(stream, None)

        stream = StreamingResponse("text/event-stream", _HEADERS, closed=closed)
        self._watchers[stream] = row_filter
        stream.send(self._state(row_filter))
        return stream

    def refreshed(self, time: float, message: str) -> None:
        """The history has new figures, at this time in unix seconds; ``message`` are warnings."""
        before, old = self._shown, self._layout
        if old.version != self._history.sums.version:
            self._layout = Layout(self._history.sums)
        figures, latencies = np.split(self._history.now, [len(FIGURES)])
        self._shown = np.concatenate((figures, self._history.facts, latencies))
        self._time, self._message = time, message
        stays = self._layout.stays(old)
        self._steady.take(time, self._shown[_RATES].astype(np.float64), stays)
        self._growth = self._growth_of_groups()
        self._attention = None
        if self._watchers:
            self._tell(*_changes(before, self._shown, stays), old.keys)

    def _tell(self, changed: Mask, gone: list[int], old_keys: Sequence[Key | None]) -> None:
        left = [key for row in gone if (key := old_keys[row]) is not None]
        # Watchers with the same filter share the bytes.
        made: dict[RowFilter, bytes] = {}
        for stream, row_filter in list(self._watchers.items()):
            if row_filter not in made:
                made[row_filter] = (
                    self._state(row_filter)
                    if row_filter.level == OVERVIEW
                    else (self._refresh(row_filter, changed, left))
                )
            stream.send(made[row_filter])

    def _state(self, row_filter: RowFilter) -> bytes:
        if row_filter.level == OVERVIEW:
            return self._overview()
        rows = self._layout.rows_of(row_filter)
        return self._event("state", self._there(rows), [], row_filter)

    def _refresh(self, row_filter: RowFilter, changed: Mask, gone: list[Key]) -> bytes:
        rows = self._layout.rows_of(row_filter)
        left = [key for key in gone if row_filter.wants(key)]
        return self._event("refresh", rows[changed[rows]], left, row_filter)

    def _overview(self) -> bytes:
        shown, layout = self._shown, self._layout
        topics = self._there(np.flatnonzero(layout.topics))
        traffic = shown[FIGURES.index("in"), topics] + shown[FIGURES.index("out"), topics]
        busiest = topics[np.argsort(-traffic, kind="stable")[:BUSIEST]]
        rows = np.concatenate((self._there(layout.others), self._there(layout.groups), busiest))
        return self._event("state", rows, [], RowFilter(level=OVERVIEW))

    def growth(self, topic: str, group: str) -> float | None:
        """The growth of the lag of a group, in messages a second; None if it is not known."""
        row = self._history.sums.find(Key(topic, GROUP_MARK + group))
        growth = self._growth[row] if row is not None and row < len(self._growth) else np.nan
        return None if np.isnan(growth) else float(growth)

    def _growth_of_groups(self) -> NDArray[np.float64]:
        growth = np.full(self._shown.shape[1], np.nan)
        groups = self._layout.groups
        if len(groups):
            growth[groups] = slopes(*self._history.lags(groups, self._time - WINDOW_S))
        return growth

    def _judged(self) -> Attention:
        """The verdicts on the figures of nodes that answer; made once for all watchers."""
        if self._attention is None:
            clients, paused, channels = (
                self._shown[_NAMES.index(name)].astype(np.float64)
                for name in ("clients", "paused", "channels")
            )
            depth = self._history.answered if self._time else np.empty(0)
            came, out, requeues, timeouts = (
                self._steady.rates if len(depth) else np.empty((len(_RATES), 0))
            )
            figures = Figures(
                depth, clients, paused, channels, came, out, requeues, timeouts, self._growth
            )
            self._attention = Attention(figures, self._layout, self._history.dialects())
        return self._attention

    def _there(self, rows: Indices) -> Indices:
        there: Indices = rows[~np.isnan(self._shown[0, rows])]
        return there

    def _event(self, name: str, rows: Indices, gone: Sequence[Key], row_filter: RowFilter) -> bytes:
        figures = self._shown[:, rows].astype(np.float64).round(_NUMBERS_KEPT).T
        keys = self._layout.keys
        items, count = ([], 0) if row_filter.node else self._judged().items(row_filter.topic)
        data = {
            "time": round(self._time, _NUMBERS_KEPT),
            "since": round(self._history.since, _NUMBERS_KEPT),
            "message": self._message,
            "figures": _NAMES,
            "quantiles": self._history.quantiles,
            "rows": [
                [*(keys[row] or ()), *values]
                for row, values in zip(rows.tolist(), figures.tolist(), strict=True)
            ],
            "gone": [list(key) for key in gone],
            "missing": [_told(each, each.until) for each in self._history.lost],
            "given_up": [_told(each, each.dropped_at) for each in self._history.lost.given_up],
            "attention": items,
            "attention_more": count - len(items),
        }
        return b"event: %s\ndata: %s\n\n" % (name.encode(), _encode(data))


def _told(node: LostNode | GivenUp, until: float) -> dict[str, Any]:
    times = {"at": round(node.at, _NUMBERS_KEPT), "until": round(until, _NUMBERS_KEPT)}
    return {"node": node.node, **times, "depth": node.depth}


def _changes(before: Table, now: Table, stays: Mask) -> tuple[Mask, list[int]]:
    """The mask of rows that changed, and the indices of rows whose former key is gone."""
    there, was_there = ~np.isnan(now[0]), ~np.isnan(before[0])
    width = before.shape[1]
    same = np.zeros(now.shape[1], bool)
    if len(before) == len(now):
        new = now[:, :width]
        same[:width] = ((before == new) | (np.isnan(before) & np.isnan(new))).all(axis=0)
    gone = was_there & ~(there & stays)[:width]
    return there & ~(same & stays), np.flatnonzero(gone).tolist()
