"""The tables of figures of the last hour or day, one for each point in time, up to a maximum."""

from __future__ import annotations

from collections import deque
from typing import Final

import numpy as np
from numpy.typing import NDArray

Table = NDArray[np.float32]
"""Figures by rows; NaN where nothing is known. Tables of a ring grow with time, never shrink."""

HOUR_S: Final = 3600.0
DAY_S: Final = 24 * HOUR_S


class Ring:
    """Up to ``points`` tables of the last ``span_s``, with their times in unix seconds."""

    def __init__(self, points: int, span_s: float = HOUR_S) -> None:
        self._span_s = span_s
        self._tables: deque[tuple[float, Table]] = deque(maxlen=points)

    def add(self, time: float, table: Table) -> None:
        """The newest table, which is the ring's from now on.

        The clock may have been set: what is later than this goes, and so does what is too old.
        """
        while self._tables and self._tables[-1][0] >= time:
            self._tables.pop()
        while self._tables and self._tables[0][0] < time - self._span_s:
            self._tables.popleft()
        self._tables.append((time, table))

    def series(self, row: int, since: float) -> tuple[list[float], list[list[float]]]:
        """The times from ``since`` on and, for each figure, the values of a row at these times."""
        found = [(time, table) for time, table in self._tables if time >= since]
        figures = max((len(table) for _, table in found), default=0)
        values = np.full((figures, len(found)), np.nan, np.float32)
        for point, (_, table) in enumerate(found):
            if row < table.shape[1]:
                values[: len(table), point] = table[:, row]
        return [time for time, _ in found], values.tolist()

    def figure(
        self, number: int, rows: NDArray[np.intp], born: NDArray[np.float64], since: float
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The times from ``since`` on, and at each of them this figure of the rows.

        NaN before the time at which a row was ``born``.
        """
        found = [(time, table) for time, table in self._tables if time >= since]
        values = np.full((len(found), len(rows)), np.nan)
        for point, (time, table) in enumerate(found):
            there = (rows < table.shape[1]) & (born <= time)
            values[point, there] = table[number, rows[there]]
        return np.array([time for time, _ in found], np.float64), values

    @property
    def since(self) -> float:
        """The time of the oldest table; 0 without one."""
        return self._tables[0][0] if self._tables else 0.0

    @property
    def nbytes(self) -> int:
        """Memory of all tables."""
        return sum(table.nbytes for _, table in self._tables)
