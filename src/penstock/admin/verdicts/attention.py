"""Topics, channels and groups that an operator should look at, the worst first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from penstock.admin.history.layout import Indices, Layout, Mask
from penstock.admin.verdicts.limits import LIMITS
from penstock.admin.verdicts.rule import BAD, KINDS, WARN, Outlook, Waiting, outlook

ITEMS_MAX: Final = 200

Values = NDArray[np.float64]


class Figures(NamedTuple):
    """The present figures of each row; the rates are steady ones, ``growth`` is known of groups."""

    depth: Values
    clients: Values
    paused: Values
    channels: Values
    came: Values
    out: Values
    requeues: Values
    timeouts: Values
    growth: Values


class _Kind(NamedTuple):
    """Rows that have the same the matter with them."""

    name: str
    rows: Mask
    is_bad: Mask
    weight: Values
    """The greater, the worse."""


class Attention:
    """Everything that something is the matter with, as it was at one look."""

    @np.errstate(invalid="ignore")
    def __init__(
        self,
        figures: Figures,
        layout: Layout,
        dialects: Mapping[tuple[str, str], str] | None = None,
    ) -> None:
        """``dialects`` are those of groups, by topic and name."""
        self._figures, self._layout, self._dialects = figures, layout, dialects or {}
        self._growth = np.where(
            layout.mask(layout.groups), figures.growth, figures.came - figures.out
        )
        paused = (layout.topics | layout.channels) & (figures.paused > 0)
        waiting = Waiting(figures.depth, self._growth, figures.out, figures.clients)
        self._outlook = outlook(waiting)
        kinds = [
            *_about_topics(figures, layout, paused),
            *_of_rule(figures, layout, self._outlook, paused),
            *_storms(figures, layout),
        ]
        rows = [np.flatnonzero(kind.rows) for kind in kinds]
        self._names = [kind.name for kind in kinds]
        self._kinds = np.repeat(np.arange(len(kinds)), [len(each) for each in rows])
        self._rows: Indices = np.concatenate(rows)
        self._weights, self._are_bad = (
            np.concatenate([each[at] for each, at in zip(columns, rows, strict=True)])
            for columns in ([kind.weight for kind in kinds], [kind.is_bad for kind in kinds])
        )

    def items(self, topic: str = "") -> tuple[list[dict[str, Any]], int]:
        """The worst items, of one topic if it is named, and how many there are.

        An item has ``kind``, ``level`` (bad, warn), ``names`` (topic, channel), ``dialect`` (of a
        group, else None), ``weight``, and the figures that words are made of: ``depth``, ``growth``
        and ``rate`` (a second), ``share`` of what consumers get, ``seconds`` until nothing waits.
        """
        found = np.arange(len(self._rows))
        if topic:
            found = found[self._layout.within(topic)[self._rows]]
        # The last key of `lexsort` counts first: the bad ones, then by weight.
        order = np.lexsort((-self._weights[found], ~self._are_bad[found]))
        return [self._item(at) for at in found[order][:ITEMS_MAX].tolist()], len(found)

    def _item(self, at: int) -> dict[str, Any]:
        figures, row = self._figures, int(self._rows[at])
        key, weight = self._layout.keys[row], float(self._weights[at])
        tried = figures.out[row] + figures.requeues[row] + figures.timeouts[row]
        return {
            "kind": self._names[self._kinds[at]],
            "level": BAD if self._are_bad[at] else WARN,
            "names": [name for name in key[:2] if name] if key else [],
            "dialect": self._dialects.get(key[:2]) if key else None,
            "weight": weight,
            "depth": float(figures.depth[row]),
            "growth": float(self._growth[row]),
            "rate": weight,
            "share": float(weight / tried) if tried else None,
            "seconds": float(self._outlook.seconds[row]),
        }


def _about_topics(figures: Figures, layout: Layout, paused: Mask) -> list[_Kind]:
    depth = figures.depth
    there = layout.groups[~np.isnan(depth[layout.groups])]
    unchannelled = layout.topics & ~paused & (figures.channels == 0) & (depth > 0)
    never = np.zeros(len(depth), bool)
    return [
        _Kind("paused", paused, never, depth),
        _Kind("unchannelled", unchannelled & ~layout.read(there.tolist()), never, depth),
    ]


def _of_rule(figures: Figures, layout: Layout, found: Outlook, paused: Mask) -> list[_Kind]:
    """The verdicts on channels that are not paused, and on groups."""
    judged = (layout.channels & ~paused) | layout.mask(layout.groups)
    judged = judged & (found.is_bad | found.is_warned)
    return [
        _Kind(name, judged & (found.kinds == number), found.is_bad, figures.depth)
        for number, name in enumerate(KINDS)
    ]


def _storms(figures: Figures, layout: Layout) -> list[_Kind]:
    tried = figures.out + figures.requeues + figures.timeouts
    never = np.zeros(len(tried), bool)
    with np.errstate(divide="ignore"):
        return [
            _Kind(
                name,
                layout.channels & (rate >= LIMITS.storm) & (rate / tried >= LIMITS.storm_share),
                never,
                rate,
            )
            for name, rate in (("requeues", figures.requeues), ("timeouts", figures.timeouts))
        ]
