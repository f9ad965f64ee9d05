"""Quantiles of a stream of weighted numbers, in bounded memory.

A ``Summary`` keeps some of the numbers and, for each, bounds of its rank: the weight that is surely
below it and the weight that is at most below it (the "weighted quantile summary" of Greenwald and
Khanna, 2001, and of Chen and Guestrin's XGBoost, 2016). Merging adds the bounds, so windows and
channels merge without losing anything. ``Quantiles`` collects numbers and drops the middle one of
three neighbours only while what would be unknown between the outer two stays small.

The error of a rank is at most 0.01 of the total weight, and less towards both ends: about 0.0004 at
the quantile 0.99. Up to ``EXACT`` different numbers, all are kept and every answer is exact.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

EXACT: Final = 1024
"""The most different numbers that are kept before any is dropped."""
RANK_ERROR: Final = 0.01
# A merge by numpy costs about the same for one number as for these.
_BUFFER: Final = 512
_STEP: Final = 8 * RANK_ERROR  # in the middle it is worth 2 * RANK_ERROR of the weight: see _scale
_TAIL: Final = 20_000  # the ends are told apart down to this part of the weight

Numbers: TypeAlias = "npt.NDArray[np.float64]"
Weights: TypeAlias = "npt.NDArray[np.int64]"


class Summary:
    """Some of the numbers, ascending, with what is known of their ranks. Never changes."""

    __slots__ = ("_high", "_low", "_own", "_values", "count")

    def __init__(self, values: Numbers, low: Weights, own: Weights, high: Weights) -> None:
        """``own`` is the weight of the number itself; the weight of smaller ones is at least
        ``low`` and at most ``high``. The largest number is always among them.
        """
        self._values = values
        self._low = low
        self._own = own
        self._high = high
        self.count = int(low[-1] + own[-1]) if len(values) else 0

    @classmethod
    def exact(cls, values: Sequence[float], weights: Sequence[int]) -> Summary:
        """All of these numbers, each as often as its weight (at least 1) says."""
        unique, places = np.unique(np.asarray(values, np.float64), return_inverse=True)
        own = np.zeros(len(unique), np.int64)
        np.add.at(own, places, np.asarray(weights, np.int64))
        low = np.cumsum(own) - own
        return cls(unique, low, own, low)

    @staticmethod
    def merged(parts: Sequence[Summary]) -> Summary:
        """The summary of all numbers of the parts together."""
        parts = [part for part in parts if part.count]
        if len(parts) < 2:
            return parts[0] if parts else no_numbers()
        values = np.unique(np.concatenate([part._values for part in parts]))
        low, own, high = np.zeros((3, len(values)), np.int64)
        for part in parts:
            place = np.searchsorted(part._values, values)
            last = np.minimum(place, len(part._values) - 1)
            known = part._values[last] == values
            # A number that the part does not know lies between two that it knows.
            above = np.where(place < len(part._values), part._high[last], part.count)
            below = np.where(place > 0, part._low[place - 1] + part._own[place - 1], 0)
            low += np.where(known, part._low[last], below)
            high += np.where(known, part._high[last], above)
            own += np.where(known, part._own[last], 0)
        return Summary(values, low, own, high)

    def __len__(self) -> int:
        """The number of numbers that are kept."""
        return len(self._values)

    def quantile(self, q: float) -> float:
        """The smallest number that at least the share ``q`` (0 to 1) does not exceed; 0 if empty.

        Of those kept, it is the one whose rank can be off by the least.
        """
        if not self.count:
            return 0.0
        rank = max(1, math.ceil(q * self.count))
        worst = np.maximum(rank - self._low - self._own, self._high + 1 - rank)
        return float(self._values[np.argmin(worst)])

    def pruned(self) -> Summary:
        """A summary of the same numbers with as few kept as the promised error allows."""
        starts = self._scale(self._low + self._own)
        ends = self._scale(self._high)
        place, last = 0, len(starts) - 1
        kept = [0]
        while place < last:
            place = max(place + 1, bisect_right(ends, starts[place] + _STEP, place + 1) - 1)
            kept.append(place)
        return Summary(self._values[kept], self._low[kept], self._own[kept], self._high[kept])

    def _scale(self, ranks: Weights) -> list[float]:
        """Ranks on a scale on which a step is worth less weight the nearer it is to an end.

        It is the logit of the share: a step of s in the middle is a quarter of s of the weight.
        More weight on either side makes distances shorter, so what was near enough stays so.
        """
        tail = 1 + self.count / _TAIL
        scaled: list[float] = np.log((ranks + tail) / (self.count - ranks + tail)).tolist()
        return scaled


@cache
def no_numbers() -> Summary:
    """The summary of nothing."""
    none = np.zeros(0, np.int64)
    return Summary(np.zeros(0, np.float64), none, none, none)


class Quantiles:
    """Quantiles of collected numbers, each with the weight of how often it came."""

    __slots__ = ("_summary", "_values", "_weights")

    def __init__(self) -> None:
        self._summary = no_numbers()
        self._values: list[float] = []
        self._weights: list[int] = []

    def add(self, value: float, weight: int = 1) -> None:
        """The number came ``weight`` times (at least 1)."""
        self._values.append(value)
        self._weights.append(weight)
        if len(self._values) >= _BUFFER:
            summary = self.summary()
            self._summary = summary if len(summary) <= EXACT else summary.pruned()
            self._values.clear()
            self._weights.clear()

    def summary(self) -> Summary:
        """The summary of all numbers up to now."""
        if not self._values:
            return self._summary
        return Summary.merged([self._summary, Summary.exact(self._values, self._weights)])
