"""Growth of figures: steady rates of counters, slopes of lags.

A channel's messages are counted one by one as they come and go, so that half a minute of rates
tells where it is heading. A group may commit in batches, minutes apart: its lag is looked at for
longer, and a change that is smaller than the scatter of the points does not count.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]
Mask = NDArray[np.bool_]

STEADY_S: Final = 30.0
"""The seconds over which rates are averaged, a newer look counting more: without jumps."""
WINDOW_S: Final = 300.0
"""The seconds of which a slope is made."""
_POINTS_MIN: Final = 3
_SPAN_MIN_S: Final = 5.0
_SURE: Final = 2.0
"""A slope of fewer standard errors than this counts as 0."""


class Steady:
    """The rates of rows without the jumps from look to look."""

    def __init__(self) -> None:
        self.rates: Values = np.empty((0, 0))
        """NaN in rows that are not there, or were not at the look before."""
        self._there: Mask = np.empty(0, bool)
        self._time = 0.0

    def take(self, time: float, rates: Values, stays: Mask) -> None:
        """The rates at this time in unix seconds; ``stays``: which rows are of what they were
        of.
        """
        width = len(self._there)
        before, was_there = np.full_like(rates, np.nan), np.zeros(rates.shape[1], bool)
        if width:
            before[:, :width] = np.where(stays[:width], self.rates, np.nan)
            was_there[:width] = stays[:width] & self._there
        first = np.where(was_there, rates, np.nan)
        passed = max(time - self._time, 0.0)  # the clock may be set back
        # 1 - e^(-t/T): the average does not depend on the interval between looks.
        weight = -math.expm1(-passed / STEADY_S)
        self.rates = np.where(np.isnan(before), first, before + weight * (rates - before))
        self._there = ~np.isnan(rates[0])
        self._time = time


@np.errstate(invalid="ignore", divide="ignore")
def slopes(times: Values, values: Values) -> Values:
    """The change of each column of ``values``, a second; a row is at each of the ``times``.

    NaN where there are too few points; 0 where they scatter more than they change.
    """
    known = ~np.isnan(values)
    count = known.sum(axis=0)
    # Counted from the last point: squares of unix seconds would lose the digits that matter.
    x = np.where(known, times[:, None] - times[-1], 0.0) if len(times) else np.zeros_like(values)
    y = np.where(known, values, 0.0)
    x_mean, y_mean = x.sum(axis=0) / count, y.sum(axis=0) / count
    x, y = np.where(known, x - x_mean, 0.0), np.where(known, y - y_mean, 0.0)
    both, alone = (x * y).sum(axis=0), (x * x).sum(axis=0)
    slope = both / alone
    left = np.maximum((y * y).sum(axis=0) - slope * both, 0.0)
    # A line has two parameters, so two points tell nothing about the scatter.
    error = np.sqrt(left / np.maximum(count - 2, 1) / alone)
    slope = np.where(np.abs(slope) > _SURE * error, slope, 0.0)
    span = x.max(axis=0, initial=0.0) - x.min(axis=0, initial=0.0)
    found: Values = np.where((count >= _POINTS_MIN) & (span >= _SPAN_MIN_S), slope, np.nan)
    return found
