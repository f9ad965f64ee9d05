"""The only place that draws random numbers; the rest is handed a ``Chance``, so runs repeat."""

from __future__ import annotations

import random
from typing import Protocol


class Chance(Protocol):
    """Randomness for the brokers: sampling, jitter, choosing a peer."""

    def below(self, limit: int) -> int:
        """A whole number in [0, limit); limit must be positive."""
        ...

    def fraction(self) -> float:
        """A number in [0, 1)."""
        ...


class SystemChance:
    """A pseudo-random source; the same seed gives the same draws."""

    __slots__ = ("_random", "fraction")

    def __init__(self, seed: int | None = None) -> None:
        self._random = random.Random(seed)
        self.fraction = self._random.random

    def below(self, limit: int) -> int:
        return self._random.randrange(limit)
