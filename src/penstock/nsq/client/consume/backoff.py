"""A consumer's backoff: slowing down when messages fail, and coming back (NSQ spec 7.4).

The state is a level and perhaps a period that runs. Each failure outside a period raises the level
by one, each success lowers it by one; while the level is above 0 every outcome starts a period, in
which nothing is received and outcomes do not count. After it one message tests the waters.
"""

from __future__ import annotations

from enum import Enum, auto

from penstock.core.chance import Chance
from penstock.core.units import SECOND
from penstock.nsq.client.config import Config


class Step(Enum):
    """The meaning of an outcome for the connections."""

    NONE = auto()
    """No change."""
    PAUSE = auto()
    """A period begins: RDY 0 for all."""
    RESUME = auto()
    """The backoff is over: all get their share."""


class Backoff:
    """The state machine; times in nanoseconds, of any clock that never goes back."""

    __slots__ = ("_chance", "_full_jitter", "_longest", "_unit", "level", "period", "until")

    def __init__(self, config: Config, chance: Chance) -> None:
        self.level = 0
        self.period = 0
        """The length that was set for the last period."""
        self.until: int | None = None
        """The end of the period that runs."""
        self._unit = int(config.backoff_multiplier * SECOND)
        self._longest = int(config.max_backoff_duration * SECOND)
        self._full_jitter = config.backoff_strategy == "full_jitter"
        self._chance = chance

    @property
    def is_on(self) -> bool:
        """True if messages come slower than they could."""
        return self.level > 0

    def length(self, level: int) -> int:
        """The length of a period at this level: twice that of the level before."""
        whole = self._unit << level
        return int(whole * self._chance.fraction()) if self._full_jitter else whole

    def succeeded(self, now: int) -> Step:
        """A message was finished."""
        # As in go-nsq outcomes in a period do not count: one a period, however many fail.
        if self.until is not None or not self.level:
            return Step.NONE
        self.level -= 1
        return self._begin(now) if self.level else Step.RESUME

    def failed(self, now: int) -> Step:
        """A message was requeued because it could not be handled."""
        if self.until is not None or not self._longest:
            return Step.NONE
        # go-nsq raises the level only if its period fits below the longest one.
        if self.length(self.level + 1) <= self._longest:
            self.level += 1
        return self._begin(now) if self.level else Step.NONE

    def continued(self, now: int) -> Step:
        """A message was requeued, and it says nothing about how things are."""
        if self.until is not None or not self.level:
            return Step.NONE
        # As in go-nsq a requeue without backoff starts another period, but only in a backoff.
        return self._begin(now)

    def is_due(self, now: int) -> bool:
        """True if a period runs and is over."""
        return self.until is not None and now >= self.until

    def test_the_waters(self) -> None:
        """The period is over: the next outcome counts."""
        self.until = None

    def wait_on(self, now: int) -> None:
        """Wait another second, as there was nobody to test the waters with."""
        # go-nsq waits one second more when nobody is connected.
        self.period = SECOND
        self.until = now + SECOND

    def _begin(self, now: int) -> Step:
        self.period = min(self.length(self.level), self._longest)
        self.until = now + self.period
        return Step.PAUSE
