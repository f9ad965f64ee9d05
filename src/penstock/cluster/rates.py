"""From counts to rates: what each topic and reader of each node counted at the last looks."""

from __future__ import annotations

from collections import deque
from itertools import pairwise
from typing import Final, NamedTuple

from penstock.cluster.figures import NodeFigures
from penstock.core.units import SECOND

LOOKS: Final = 60
_TREND_LOOKS: Final = 5

Key = tuple[str, str, str]
"""Node, topic, and the reader's ``key``; empty for the topic itself."""


class Look(NamedTuple):
    """Counts at one moment (monotonic ns); ``lag`` is what was left to do."""

    at_ns: int
    came: int
    went: int
    lag: int


class Series:
    """The last looks at one thing."""

    def __init__(self) -> None:
        self._looks: deque[Look] = deque(maxlen=LOOKS)

    def add(self, look: Look) -> None:
        """One more; one of the same moment is no news."""
        if not self._looks or look.at_ns > self._looks[-1].at_ns:
            self._looks.append(look)

    def rates_in(self) -> list[float]:
        """Messages a second that came between each two looks."""
        return [_rate(now.came - then.came, then, now) for then, now in self._pairs()]

    @property
    def rate_in(self) -> float | None:
        """The last of them; None before the second look."""
        return self._last("came")

    @property
    def rate_out(self) -> float | None:
        """Messages a second that were finished between the last two looks."""
        return self._last("went")

    @property
    def trend(self) -> int:
        """1 when the lag has grown over the last looks and at none of them shrunk, -1 the reverse.

        A lag that goes up and down is 0: that is how busy consumers look.
        """
        lags = [look.lag for look in self._looks][-_TREND_LOOKS:]
        steps = [after - before for before, after in pairwise(lags)]
        if len(steps) < 2 or not any(steps):
            return 0
        if min(steps) >= 0:
            return 1
        return -1 if max(steps) <= 0 else 0

    def _last(self, field: str) -> float | None:
        if len(self._looks) < 2:
            return None
        then, now = self._looks[-2], self._looks[-1]
        return _rate(getattr(now, field) - getattr(then, field), then, now)

    def _pairs(self) -> list[tuple[Look, Look]]:
        return list(pairwise(self._looks))


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
            done = 0
            for reader in topic.readers:
                key = (node.address, topic.name, reader.key)
                seen.add(key)
                look = Look(node.at_ns, reader.done + reader.lag, reader.done, reader.lag)
                self._add(key, look)
                done += reader.done
            key = (node.address, topic.name, "")
            seen.add(key)
            self._add(key, Look(node.at_ns, topic.messages, done, topic.lag))
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

    def _add(self, key: Key, look: Look) -> None:
        self._series.setdefault(key, Series()).add(look)


def _rate(count: int, then: Look, now: Look) -> float:
    """The rate a second; 0 where a count became smaller, as it belongs to a thing made again."""
    return max(0, count) * SECOND / (now.at_ns - then.at_ns)


def summed(many: list[list[float]]) -> list[float]:
    """Several lists of rates as one, the newest of each at the end."""
    length = max(map(len, many), default=0)
    total = [0.0] * length
    for rates in many:
        for place, rate in enumerate(rates, length - len(rates)):
            total[place] += rate
    return total
