"""Topics and channels that an operator should look at: found by thresholds, the worst first."""

from __future__ import annotations

import math
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from penstock.admin.history.layout import Layout, Mask
from penstock.admin.history.limits import LIMITS

STEADY_S: Final = 30.0
"""The seconds over which rates are averaged, a newer look counting more: without jumps."""
ITEMS_MAX: Final = 200

Values = NDArray[np.float64]


class Steady:
    """The rates of rows without the jumps from look to look."""

    def __init__(self) -> None:
        self.rates: Values = np.empty((0, 0))
        """NaN in rows that are not there."""
        self._time = 0.0

    def take(self, time: float, rates: Values, stays: Mask) -> None:
        """The rates at this time in unix seconds; `stays`: which rows are of what they were of."""
        width = self.rates.shape[1]
        before = np.full_like(rates, np.nan)
        if width:
            before[:, :width] = np.where(stays[:width], self.rates, np.nan)
        weight = -math.expm1((self._time - time) / STEADY_S)
        self.rates = np.where(np.isnan(before), rates, before + weight * (rates - before))
        self._time = time


class Figures(NamedTuple):
    """The present figures of each row; the rates are steady ones."""

    depth: Values
    clients: Values
    paused: Values
    channels: Values
    came: Values
    out: Values
    requeues: Values
    timeouts: Values


class _Kind(NamedTuple):
    """Rows that have the same the matter with them."""

    name: str
    rows: Mask
    is_bad: Mask
    weight: Values
    """The greater, the worse."""


@np.errstate(invalid="ignore", divide="ignore")
def attention(figures: Figures, layout: Layout) -> tuple[list[dict[str, Any]], int]:
    """The worst items, and how many there are.

    An item has `kind`, `level` (bad, warn), `names` (topic, channel), `weight`, and the figures
    that words are made of: `depth`, `growth` and `rate` (a second), `share` of what consumers get,
    `seconds` until the depth is gone.
    """
    growth = figures.came - figures.out
    seconds = np.where(growth < 0, figures.depth / -growth, np.inf)
    kinds = _kinds(figures, layout, growth, seconds)
    rows = [np.flatnonzero(kind.rows) for kind in kinds]
    numbers = np.repeat(np.arange(len(kinds)), [len(each) for each in rows])
    weight = np.concatenate([kind.weight[each] for kind, each in zip(kinds, rows, strict=True)])
    is_bad = np.concatenate([kind.is_bad[each] for kind, each in zip(kinds, rows, strict=True)])
    found = np.concatenate(rows)
    tried = figures.out + figures.requeues + figures.timeouts
    items = []
    for at in np.lexsort((-weight, ~is_bad))[:ITEMS_MAX].tolist():
        row, key = found[at], layout.keys[found[at]]
        items.append({
            "kind": kinds[numbers[at]].name,
            "level": "bad" if is_bad[at] else "warn",
            "names": [name for name in key[:2] if name] if key else [],
            "weight": float(weight[at]),
            "depth": float(figures.depth[row]),
            "growth": float(growth[row]),
            "rate": float(weight[at]),
            "share": float(weight[at] / tried[row]),
            "seconds": float(seconds[row]),
        })  # fmt: skip
    return items, len(found)


def _kinds(figures: Figures, layout: Layout, growth: Values, seconds: Values) -> list[_Kind]:
    depth = figures.depth
    paused = (layout.topics | layout.channels) & (figures.paused > 0)
    there = layout.groups[~np.isnan(depth[layout.groups])]
    unchannelled = layout.topics & ~paused & (figures.channels == 0) & (depth > 0)
    is_deep = depth >= LIMITS.backlog
    unattended = layout.channels & ~paused & (figures.clients == 0) & (depth > 0)
    deep = layout.channels & ~paused & ~unattended & is_deep
    growing = deep & (growth > LIMITS.growth * figures.came)
    lasting = deep & (growing | (seconds > LIMITS.empties_in))
    never = np.zeros(len(depth), bool)
    return [
        _Kind("paused", paused, never, depth),
        _Kind("unchannelled", unchannelled & ~layout.read(there.tolist()), never, depth),
        _Kind("unattended", unattended, is_deep, depth),
        _Kind("backlog", lasting, growing, depth),
        *(_Kind(name, _is_storm(rate, figures) & layout.channels, never, rate)
          for name, rate in (("requeues", figures.requeues), ("timeouts", figures.timeouts))),
    ]  # fmt: skip


def _is_storm(rate: Values, figures: Figures) -> Mask:
    tried = figures.out + figures.requeues + figures.timeouts
    storm: Mask = (rate >= LIMITS.storm) & (rate / tried >= LIMITS.storm_share)
    return storm
