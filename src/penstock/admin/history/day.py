"""The last day of the sums, with a point every five minutes, kept by a file over a restart."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from penstock.admin.history.history_file import HistoryFile, Point
from penstock.admin.history.ring import DAY_S, Ring, Table
from penstock.admin.history.row_numbers import Rows

DAY_POINT_S: Final = 300.0
"""The seconds between two points of the day."""


class Day:
    """The day of the sums, from what is looked at: means of the rates, the last of the rest."""

    def __init__(self, rows: Rows, rates: list[int], file: HistoryFile | None) -> None:
        """``rates`` are the figures of which the mean counts."""
        self.ring = Ring(int(DAY_S / DAY_POINT_S), DAY_S)
        self._rows, self._rates, self._file = rows, rates, file
        self._gathered: NDArray[np.float64] = np.empty((0, 0))
        self._count, self._since = 0, 0.0

    def take(self, time: float, now: Table, quantiles: list[float]) -> None:
        """A look; with the first after five minutes there is a point."""
        self._since = min(self._since, time) or time
        before, self._gathered = self._gathered, now.astype(np.float64)
        self._count += 1
        for figure in self._rates if len(before) else ():
            old = before[figure]
            new = self._gathered[figure, : len(old)]
            np.add(new, old, out=new, where=~np.isnan(old))
        if time - self._since < DAY_POINT_S:
            return
        table = self._gathered.astype(np.float32)
        table[self._rates] /= self._count
        self._gathered, self._count, self._since = np.empty((0, 0)), 0, time
        self.ring.add(time, table)
        if self._file is not None:
            used = [row for row, key in enumerate(self._rows.keys) if key is not None]
            used = [row for row in used if row < table.shape[1]]
            keys = [key for row in used if (key := self._rows.keys[row]) is not None]
            self._file.append(Point(time, list(quantiles), keys, table[:, used]))

    def restore(self, time: float) -> list[Point]:
        """The points of the file's last day, each with rows for what it has."""
        points = self._file.load(time - DAY_S) if self._file is not None else []
        points = [point for point in points if point.time < time]
        for point in points:
            self.ring.add(point.time, self.placed(point))
        return points

    def placed(self, point: Point) -> Table:
        """The figures of a point in today's rows; what finds no room is left out."""
        rows = np.array([self._rows.row(key, point.time) for key in point.keys], np.intp)
        table = np.full((len(point.table), len(self._rows)), np.nan, np.float32)
        table[:, rows[rows >= 0]] = point.table[:, rows >= 0]
        return table
