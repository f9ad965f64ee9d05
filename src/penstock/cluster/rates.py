"""From counts to rates: what each topic and reader of each node counted at the last looks."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from penstock.cluster.figures import NodeFigures
from penstock.core.units import SECOND

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Figures = TypeVar("Figures", float, "NDArray[np.float64]")
"""A number, or a column of numbers of many topics and channels."""

LOOKS: Final = 60
_TREND_LOOKS: Final = 5

Key = tuple[str, str, str]
"""Node, topic, and the reader's ``key``; empty for the topic itself."""


def rates(then: Iterable[Figures], now: Iterable[Figures], seconds: float) -> list[Figures]:
    """The rates a second of counters, of which the first counts what came.

    A counter that went back has none. If that is the first, the topic or channel was made again,
    and nothing is known of the others.
    """
    came, *others = (after - before for before, after in zip(then, now, strict=True))
    is_same = came >= 0
    # (x + |x|) / 2 is max(x, 0), for numbers and for columns alike.
    return [(each + abs(each)) / 2 * is_same / seconds for each in (came, *others)]


class Counts(NamedTuple):
    """Counts at one moment (monotonic ns); ``lag`` is what was left to do. Of a topic nothing
    ``went``: its readers say that.
    """

    at_ns: int
    came: int
    went: int
    lag: int


class Series:
    """The last looks at one thing."""

    def __init__(self) -> None:
        self._look: Counts | None = None
        self._rates: deque[list[float]] = deque(maxlen=LOOKS - 1)
        self._lags: deque[int] = deque(maxlen=_TREND_LOOKS)

    def add(self, look: Counts) -> None:
        """One more; one of the same moment is not news."""
        then = self._look
        if then is not None:
            if look.at_ns <= then.at_ns:
                return
            seconds = (look.at_ns - then.at_ns) / SECOND
            counts = (then.came, then.went), (look.came, look.went)
            self._rates.append(rates(*counts, seconds))
        self._look = look
        self._lags.append(look.lag)

    def rates_in(self) -> list[float]:
        """Messages a second that came between each two looks."""
        return [came for came, _ in self._rates]

    @property
    def rate_in(self) -> float | None:
        """The last of them; None before the second look."""
        return self._rates[-1][0] if self._rates else None

    @property
    def rate_out(self) -> float | None:
        """Messages a second that were finished between the last two looks."""
        return self._rates[-1][1] if self._rates else None

    @property
    def trend(self) -> int:
        """1 when the lag has grown over the last looks and at none of them shrunk, -1 the reverse.

        A lag that goes up and down is 0: that is how busy consumers look.
        """
        steps = [after - before for before, after in pairwise(self._lags)]
        if len(steps) < 2 or not any(steps):
            return 0
        if min(steps) >= 0:
            return 1
        return -1 if max(steps) <= 0 else 0


class History:
    """The series of everything that nodes have now."""

    def __init__(self) -> None:
        self._series: dict[Key, Series] = {}

    def add(self, node: NodeFigures) -> None:
        """A node's figures; what it has no more is forgotten, unless it only did not answer."""
        if node.error:
            return
        seen = set()
        for topic in node.topics:
            for reader in topic.readers:
                key = (node.address, topic.name, reader.key)
                seen.add(key)
                look = Counts(node.at_ns, reader.done + reader.lag, reader.done, reader.lag)
                self._add(key, look)
            key = (node.address, topic.name, "")
            seen.add(key)
            self._add(key, Counts(node.at_ns, topic.messages, 0, topic.lag))
        gone = [key for key in self._series if key[0] == node.address and key not in seen]
        for key in gone:
            del self._series[key]

    def of(self, node: str, topic: str, reader: str = "") -> Series:
        """A series; an empty one for what was never seen."""
        return self._series.get((node, topic, reader)) or Series()

    def forget(self, node: str) -> None:
        """A node that is gone for good."""
        for key in [key for key in self._series if key[0] == node]:
            del self._series[key]

    def _add(self, key: Key, look: Counts) -> None:
        self._series.setdefault(key, Series()).add(look)


def summed(many: list[list[float]]) -> list[float]:
    """Several lists of rates as one, the newest of each at the end."""
    length = max(map(len, many), default=0)
    total = [0.0] * length
    for rates in many:
        for place, rate in enumerate(rates, length - len(rates)):
            # Those of newer topics are shorter: they join at the end, not at the beginning.
            total[place] += rate
    return total
