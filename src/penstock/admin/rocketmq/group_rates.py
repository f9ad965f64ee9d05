"""The rates of each group: how fast its lag grows and how fast it consumes, between looks."""

from __future__ import annotations

import operator
from collections import deque
from collections.abc import Iterable
from typing import Final

import numpy as np

from penstock.admin.rocketmq.lags import Reading
from penstock.admin.verdicts.trend import WINDOW_S, slopes

APART_S: Final = 3.0
"""The least time between two looks that count."""


class GroupRate:
    """The looks at one group in the last minutes. What cannot be compared begins another past:
    offsets or a clock that went back, queues that came or went with their broker.
    """

    def __init__(self) -> None:
        self._looks: deque[tuple[float, int, int]] = deque()
        self._queues = 0

    def take(self, time_s: float, end: int, consumed: int, queues: int = 0) -> None:
        """A look: the ends of all its queues, and its offsets in them, summed."""
        looks, look = self._looks, (time_s, end, consumed)
        if looks and (queues != self._queues or any(map(operator.lt, look, looks[-1]))):
            looks.clear()
        self._queues = queues
        if not looks or time_s - looks[-1][0] >= APART_S:
            looks.append(look)
        while looks[0][0] < time_s - WINDOW_S:
            looks.popleft()

    @property
    def growth(self) -> float | None:
        """Messages a second by which the lag grows; None before there were enough looks."""
        times, ends, consumed = np.array(self._looks, np.float64).T
        slope = float(slopes(times, (ends - consumed)[:, None])[0])
        return None if np.isnan(slope) else slope

    @property
    def out(self) -> float | None:
        """Messages a second that it consumes; None before there were two looks."""
        (began, _, before), (ended, _, now) = self._looks[0], self._looks[-1]
        return (now - before) / (ended - began) if ended > began else None


class GroupRates:
    """The rates of all groups, as the looks of all pages together tell."""

    def __init__(self) -> None:
        self._of: dict[str, GroupRate] = {}

    def take(self, time_s: float, readings: Iterable[Reading]) -> None:
        """A look at all groups; those that are gone are forgotten."""
        found = {}
        for each in readings:
            rate = found[each.group] = self._of.get(each.group) or GroupRate()
            rate.take(time_s, each.end, each.consumed, each.queues)
        self._of = found

    def of(self, group: str) -> GroupRate | None:
        """The rates of a group; None if no look has met it."""
        return self._of.get(group)
