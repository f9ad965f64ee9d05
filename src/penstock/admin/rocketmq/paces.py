"""The pace of each group: messages a second that come and that it consumes, between looks."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from penstock.admin.rocketmq.lags import Reading

STEADY_S: Final = 30.0
"""The seconds over which rates are averaged, a newer look counting more."""
APART_S: Final = 1.0
"""The least time between two looks that make a rate."""


@dataclass(slots=True)
class Pace:
    """Messages a second; None before there were two looks."""

    time_s: float
    end: int
    consumed: int
    came: float | None = None
    out: float | None = None

    def at(self, time_s: float, end: int, consumed: int) -> Pace:
        """The pace after another look. Offsets that went back make it unknown."""
        seconds = time_s - self.time_s
        if seconds < APART_S:
            return self
        came, out = (end - self.end) / seconds, (consumed - self.consumed) / seconds
        if came < 0 or out < 0:
            return Pace(time_s, end, consumed)
        weight = -math.expm1(-seconds / STEADY_S)
        return Pace(
            time_s, end, consumed, _mean(self.came, came, weight), _mean(self.out, out, weight)
        )


def _mean(before: float | None, now: float, weight: float) -> float:
    return now if before is None else before + weight * (now - before)


class Paces:
    """The paces of all groups, as the looks of all pages together tell."""

    def __init__(self) -> None:
        self._of: dict[str, Pace] = {}

    def take(self, time_s: float, readings: Iterable[Reading]) -> None:
        """A look at all groups; those that are gone are forgotten."""
        found = {}
        for each in readings:
            before = self._of.get(each.group)
            now = Pace(time_s, each.end, each.consumed)
            found[each.group] = before.at(time_s, now.end, now.consumed) if before else now
        self._of = found

    def of(self, group: str) -> Pace | None:
        return self._of.get(group)
