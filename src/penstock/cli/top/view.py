"""The state of the view and its changes by keys: no terminal, no network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from penstock.cli.top.all_nodes import Cluster
from penstock.cli.top.table import Row, reader_rows, topic_rows, total

SORTS: Final = ("name", "lag", "in", "out", "in flight", "clients")
_FILTER_MAX: Final = 64


class View:
    """The page, the order and filter of its rows, and the position of the cursor."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.topic = ""
        """The topic whose readers are shown; empty on the page of topics."""
        self.sort = "name"
        self.filter = ""
        self.editing = False
        self.by_node = False
        self.help = False
        self.quit = False
        self.reversed = False
        self._cursor = 0
        self._topics_cursor = 0

    def rows(self) -> list[Row]:
        """The page's rows in their order."""
        nodes, history = self.cluster.all(), self.cluster.history
        if self.topic:
            rows = reader_rows(nodes, self.topic, history, by_node=self.by_node)
        else:
            rows = topic_rows(nodes, history, by_node=self.by_node)
            rows = [row for row in rows if self.filter.lower() in row.name.lower()]
        rows.sort(key=lambda row: (row.name, row.kind, row.node))
        # Names go up and figures down, unless the order is turned round.
        rows.sort(key=self._sort_key, reverse=(self.sort != "name") != self.reversed)
        return rows

    def total(self, rows: Sequence[Row]) -> Row:
        """All rows added up. What comes to a topic's readers are copies of what comes to the topic:
        of these the topic's own counts.
        """
        added = total(rows)
        if not self.topic:
            return added
        nodes, history = self.cluster.all(), self.cluster.history
        own = [
            each for each in topic_rows(nodes, history, by_node=False) if each.name == self.topic
        ]
        return replace(added, rate_in=total(own).rate_in, rates=total(own).rates)

    def _sort_key(self, row: Row) -> float | str:
        values: dict[str, float | str] = {
            "name": row.name,
            "lag": row.lag,
            "in": row.rate_in or 0.0,
            "out": row.rate_out or 0.0,
            "in flight": row.in_flight,
            "clients": row.clients,
        }
        return values[self.sort]

    def cursor(self, rows: Sequence[Row]) -> int:
        """The row the cursor is on; -1 if there are no rows."""
        return min(self._cursor, len(rows) - 1)

    def chosen(self, rows: Sequence[Row]) -> Row | None:
        """The row the cursor is on."""
        return rows[self.cursor(rows)] if rows else None

    def press(self, key: str) -> None:
        """One key: a character, or the name of a key such as ``up``."""
        if self.editing:
            self._edit(key)
        elif self.help:
            self.help = False
            self.quit = key == "q"
        elif key in _MOVES:
            self._move(key)
        elif key in _ACTIONS:
            _ACTIONS[key](self)

    def _edit(self, key: str) -> None:
        if key == "enter":
            self.editing = False
        elif key == "escape":
            self.editing, self.filter = False, ""
        elif key == "backspace":
            self.filter = self.filter[:-1]
        elif len(key) == 1 and key.isprintable() and len(self.filter) < _FILTER_MAX:
            self.filter += key
        self._cursor = 0

    def _move(self, key: str) -> None:
        rows = len(self.rows())
        self._cursor = min(max(0, min(self._cursor, rows - 1) + _MOVES[key]), max(0, rows - 1))

    def _open(self) -> None:
        row = self.chosen(self.rows())
        if row is not None and not self.topic:
            self._topics_cursor, self._cursor = self._cursor, 0
            self.topic = row.name

    def _back(self) -> None:
        if self.topic:
            self.topic, self._cursor = "", self._topics_cursor
        else:
            self.filter = ""

    def _search(self) -> None:
        if not self.topic:
            self.editing = True

    def _next_sort(self) -> None:
        self.sort = SORTS[(SORTS.index(self.sort) + 1) % len(SORTS)]
        self.reversed = False

    def _turn_round(self) -> None:
        self.reversed = not self.reversed

    def _toggle_nodes(self) -> None:
        self.by_node = not self.by_node

    def _hold(self) -> None:
        self.cluster.held = not self.cluster.held

    def _show_help(self) -> None:
        self.help = True

    def _quit(self) -> None:
        self.quit = True


_FAR = 1 << 30
_MOVES = {
    "up": -1,
    "down": 1,
    "k": -1,
    "j": 1,
    "page up": -10,
    "page down": 10,
    "home": -_FAR,
    "end": _FAR,
}
_ACTIONS = {
    "q": View._quit,
    "enter": View._open,
    "right": View._open,
    "escape": View._back,
    "left": View._back,
    "/": View._search,
    "s": View._next_sort,
    "r": View._turn_round,
    "n": View._toggle_nodes,
    " ": View._hold,
    "?": View._show_help,
    "h": View._show_help,
}
