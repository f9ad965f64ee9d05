"""Nodes that do not answer any more: their last figures, until they answer or are given up.

What waits on such a node is not gone: without it a sum would fall as if somebody had read it.
Rates and consumers are of the nodes that answer. What is kept is bounded, by ``LOST_MAX`` nodes and
by room: nodes that answer go before those that do not.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from penstock.admin.history.node_rows import NodeRows
from penstock.admin.history.sample import Sample

logger = logging.getLogger("penstock.nsqadmin")

GIVEN_UP_S: Final = 3600.0
"""The seconds without an answer after which a node's last figures are dropped."""
LOST_MAX: Final = 100
_LOSSES_MAX: Final = 64


class LostNode(Struct, eq=False):
    """A node that does not answer; ``at`` is when its figures were taken, in unix seconds."""

    node: str
    at: float
    sample: Sample
    places: NodeRows

    @property
    def until(self) -> float:
        """The time at which it is given up."""
        return self.at + GIVEN_UP_S

    @property
    def depth(self) -> float:
        """The messages that waited there."""
        return float(self.sample.depth.sum())


class GivenUp(NamedTuple):
    """A node whose last figures are dropped, and how many messages waited there."""

    node: str
    at: float
    dropped_at: float
    depth: float


class _LostRows(Struct, eq=False):
    """Rows that had last figures of a node in them, and when."""

    since: float
    rows: NDArray[np.intp]
    until: float = np.inf


class LostNodes:
    """The nodes that do not answer, and for an hour those that were given up."""

    def __init__(self) -> None:
        self.given_up: list[GivenUp] = []
        self._nodes: dict[str, LostNode] = {}
        self._open: dict[str, _LostRows] = {}
        self._losses: deque[_LostRows] = deque(maxlen=_LOSSES_MAX)

    def __iter__(self) -> Iterator[LostNode]:
        return iter(self._nodes.values())

    def __contains__(self, node: str) -> bool:
        return node in self._nodes

    def add(self, lost: LostNode) -> None:
        """A node that answered before and does not now."""
        self._nodes[lost.node] = lost

    def back(self, time: float, node: str) -> None:
        """The node answers again."""
        if self._nodes.pop(node, None) is not None:
            self._close(time, node)
        self.given_up = [each for each in self.given_up if each.node != node]

    def mark(self, time: float, node: str, rows: NDArray[np.intp]) -> None:
        """Note that these rows have figures of the node in them, from this time on."""
        loss = self._open.get(node)
        if loss is None:
            loss = self._open[node] = _LostRows(time, rows)
            self._losses.append(loss)
        loss.rows = rows

    def give_up(self, time: float, *, is_full: bool) -> None:
        """Drop those that were away for too long, or that are too many; one more for room."""
        by_age = sorted(self, key=lambda each: each.at)
        spare = max(len(by_age) - LOST_MAX, int(is_full))
        for number, each in enumerate(by_age):
            if number < spare or time >= each.until:
                self._drop(time, each)
        self.given_up = [each for each in self.given_up if time < each.dropped_at + GIVEN_UP_S]
        del self.given_up[:-LOST_MAX]

    def turn_back(self, time: float) -> None:
        """The clock was set back to this time: nothing was later."""
        for each in self:
            each.at = min(each.at, time)
        self.given_up = [
            each._replace(at=min(each.at, time), dropped_at=min(each.dropped_at, time))
            for each in self.given_up
        ]
        for loss in self._losses:
            loss.since = min(loss.since, time)

    def partial(self, row: int, times: list[float]) -> list[int]:
        """The flag of each time: 1 where last figures of some node were in the row."""
        spans = [(each.since, each.until) for each in self._losses if row in each.rows]
        return [int(any(since <= time < until for since, until in spans)) for time in times]

    def _drop(self, time: float, lost: LostNode) -> None:
        del self._nodes[lost.node]
        self._close(time, lost.node)
        self.given_up.append(GivenUp(lost.node, lost.at, time, lost.depth))
        logger.warning(
            "history: gives up %s, silent for %d s: %d messages that waited there are "
            "counted no more",
            lost.node,
            time - lost.at,
            lost.depth,
        )

    def _close(self, time: float, node: str) -> None:
        if (loss := self._open.pop(node, None)) is not None:
            loss.until = time
