"""A consumer's rates by topic, as its ``statusTable`` has them for tools (RocketMQ spec 10).

The figures are those of Java's ConsumerStatsManager: sums are sampled every ten seconds and every
ten minutes, and a rate is what lies between the oldest of seven samples and now.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import Any, Final, TypeAlias

from penstock.core.clock import Clock
from penstock.core.units import MILLISECOND, SECOND
from penstock.rocketmq.client.network.runtime import Runtime

SAMPLE_S: Final = 10.0
_SAMPLES: Final = 7
_OF_HOUR: Final = 60
"""Samples of a minute for one of an hour."""


@dataclass(slots=True)
class _Sums:
    """All that happened with one topic; times are ns in total."""

    pulls: int = 0
    pull_ns: int = 0
    pulled: int = 0
    units: int = 0
    unit_ns: int = 0
    handled: int = 0
    failed: int = 0

    def since(self, before: _Sums) -> _Sums:
        """The sums of what happened after these."""
        return _Sums(
            *(getattr(self, each.name) - getattr(before, each.name) for each in fields(self))
        )


_Sample: TypeAlias = tuple[int, dict[str, _Sums]]
_NOTHING: Final = _Sums()


class HandlingRates:
    """The counts of what one consumer pulls and handles."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._sums: dict[str, _Sums] = {}
        self._minute: deque[_Sample] = deque(maxlen=_SAMPLES)
        self._hour: deque[_Sample] = deque(maxlen=_SAMPLES)
        self._until_hour = 0
        self.sample()

    def pulled(self, topic: str, took_ns: int, messages: int) -> None:
        """A pull has found messages; the time is that of its request."""
        sums = self._of(topic)
        sums.pulls += 1
        sums.pull_ns += took_ns
        sums.pulled += messages

    def handled(self, topic: str, took_ns: int, messages: int, *, succeeded: bool) -> None:
        """Messages that are handled together have been, or failed."""
        sums = self._of(topic)
        sums.units += 1
        sums.unit_ns += took_ns
        if succeeded:
            sums.handled += messages
        else:
            sums.failed += messages

    def _of(self, topic: str) -> _Sums:
        sums = self._sums.get(topic)
        if sums is None:
            sums = self._sums[topic] = _Sums()
        return sums

    def sample(self) -> None:
        """Note the sums as they are now."""
        now = self._clock.monotonic_ns(), {name: replace(each) for name, each in self._sums.items()}
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
        handled = minute if minute.unit_ns else hour  # as Java, where a minute says nothing
        return {
            "pullRT": _average_ms(minute.pull_ns, minute.pulls),
            "pullTPS": _rate(minute.pulled, seconds),
            "consumeRT": _average_ms(handled.unit_ns, handled.units),
            "consumeOKTPS": _rate(minute.handled, seconds),
            "consumeFailedTPS": _rate(minute.failed, seconds),
            "consumeFailedMsgs": hour.failed,
        }

    def _since(self, topic: str) -> Iterator[tuple[int, _Sums]]:
        """The start of the last minute and what has been since, then those of the hour."""
        sums = self._sums.get(topic, _NOTHING)
        for samples in (self._minute, self._hour):
            began_ns, before = samples[0]
            yield began_ns, sums.since(before.get(topic, _NOTHING))


def _average_ms(total_ns: int, count: int) -> float:
    return total_ns / MILLISECOND / count if count else 0.0


def _rate(count: int, seconds: float) -> float:
    """By the second; what is younger than one counts as one."""
    return count / max(1.0, seconds)
