"""A consumer's rates by topic, as its ``statusTable`` has them for tools (RocketMQ spec 10).

The figures are those of Java's ConsumerStatsManager: sums are sampled every ten seconds and every
ten minutes, and a rate is what lies between the oldest of seven samples and now.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from penstock.core.clock import Clock
from penstock.core.units import MILLISECOND, SECOND
from penstock.rocketmq.client.network.runtime import Runtime

SAMPLE_S: Final = 10.0
_SAMPLES: Final = 7
_OF_HOUR: Final = 60
"""Samples of a minute for one of an hour."""


class Sums(NamedTuple):
    """All that happened with one topic; times are ms in total."""

    pulls: int = 0
    pull_ms: int = 0
    pulled: int = 0
    units: int = 0
    unit_ms: int = 0
    handled: int = 0
    failed: int = 0

    def plus(self, *more: int) -> Sums:
        return Sums(*(one + other for one, other in zip(self, more, strict=True)))

    def minus(self, before: Sums) -> Sums:
        return Sums(*(one - other for one, other in zip(self, before, strict=True)))


class HandlingRates:
    """The counts of what one consumer pulls and handles."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._sums: dict[str, Sums] = {}
        self._minute: deque[tuple[int, dict[str, Sums]]] = deque(maxlen=_SAMPLES)
        self._hour: deque[tuple[int, dict[str, Sums]]] = deque(maxlen=_SAMPLES)
        self._until_hour = 0
        self.sample()

    def pulled(self, topic: str, took_ns: int, messages: int) -> None:
        """A pull has found messages; the time is that of its request."""
        found = self._sums.get(topic, Sums())
        self._sums[topic] = found.plus(1, took_ns // MILLISECOND, messages, 0, 0, 0, 0)

    def handled(self, topic: str, took_ns: int, messages: int, *, succeeded: bool) -> None:
        """Messages that are handled together have been, or failed."""
        found = self._sums.get(topic, Sums())
        counts = (messages, 0) if succeeded else (0, messages)
        self._sums[topic] = found.plus(0, 0, 0, 1, took_ns // MILLISECOND, *counts)

    def sample(self) -> None:
        """Note the sums as they are now."""
        now = self._clock.monotonic_ns(), dict(self._sums)
        self._minute.append(now)
        if not self._until_hour:
            self._until_hour = _OF_HOUR
            self._hour.append(now)
        self._until_hour -= 1

    async def watch(self, runtime: Runtime) -> None:
        """Sample for ever."""
        while True:
            await runtime.sleep(SAMPLE_S)
            self.sample()

    def status(self, topic: str) -> dict[str, Any]:
        """The rates of a topic as Java's ConsumeStatus: times in ms, the failures of an hour."""
        (began_ns, minute), (_, hour) = self._since(topic)
        seconds = (self._clock.monotonic_ns() - began_ns) / SECOND
        handled = minute if minute.unit_ms else hour  # as Java, where a minute says nothing
        return {
            "pullRT": _average(minute.pull_ms, minute.pulls),
            "pullTPS": _rate(minute.pulled, seconds),
            "consumeRT": _average(handled.unit_ms, handled.units),
            "consumeOKTPS": _rate(minute.handled, seconds),
            "consumeFailedTPS": _rate(minute.failed, seconds),
            "consumeFailedMsgs": hour.failed,
        }

    def _since(self, topic: str) -> Iterator[tuple[int, Sums]]:
        """The start of the last minute and what has been since, then those of the hour."""
        sums = self._sums.get(topic, Sums())
        for samples in (self._minute, self._hour):
            began_ns, before = samples[0]
            yield began_ns, sums.minus(before.get(topic, Sums()))


def _average(total: int, count: int) -> float:
    return total / count if count else 0.0


def _rate(count: int, seconds: float) -> float:
    """By the second; what is younger than one counts as one."""
    return count / max(1.0, seconds)
