"""Brokers that failed or were slow, left alone for a while; and whose turn it is.

The numbers are Java's (``MQFaultStrategy``): a send that took half a second rests its broker for
30 seconds, one that failed for ten minutes. When all rest, the one that is back first is taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from penstock.core.chance import Chance
from penstock.core.clock import Clock
from penstock.core.units import SECOND
from penstock.rocketmq.protocol.message_queue import MessageQueue

RESTS: Final = ((15.0, 600.0), (3.0, 180.0), (2.0, 120.0), (1.0, 60.0), (0.55, 30.0))
"""Seconds that a send took, and how long its broker rests then."""
_FAILED_S: Final = 30.0
"""A failed send counts as one that took this time."""


class Faults:
    """The latest successes and failures of brokers."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._rests_until: dict[str, int] = {}

    def report(self, broker: str, seconds: float, *, failed: bool = False) -> None:
        """A send to this broker has ended."""
        took = _FAILED_S if failed else seconds
        rest = next((rest for least, rest in RESTS if took >= least), 0.0)
        if rest:
            self._rests_until[broker] = self._clock.monotonic_ns() + int(rest * SECOND)
        elif not failed:
            self._rests_until.pop(broker, None)

    def rests(self, broker: str) -> bool:
        """True while it is left alone."""
        return self._rests_until.get(broker, 0) > self._clock.monotonic_ns()

    def back_first(self, brokers: Sequence[str]) -> str:
        """The one of them that is back first."""
        return min(brokers, key=lambda broker: self._rests_until.get(broker, 0))


class QueueChoice:
    """Queues of a topic in turn, but not of a broker that rests or has just failed."""

    def __init__(self, faults: Faults | None, chance: Chance) -> None:
        """Choose without rests of brokers if there are no ``faults``."""
        self._faults = faults
        self._chance = chance
        self._next: dict[str, int] = {}

    def choose(self, queues: Sequence[MessageQueue], avoided: str = "") -> MessageQueue:
        """The next one; of another broker than ``avoided`` if there is one."""
        topic, count = queues[0].topic, len(queues)
        start = self._next.get(topic)
        if start is None:
            # Anywhere, or all producers of a fleet would send their first messages to the same
            # queue.
            start = self._chance.below(1 << 16)
        faults = self._faults
        for ahead in range(count):
            queue = queues[(start + ahead) % count]
            broker = queue.brokerName
            if broker != avoided and (faults is None or not faults.rests(broker)):
                self._next[topic] = start + ahead + 1
                return queue
        # All rest, or there is one broker only: the one that is back first is as good as any.
        self._next[topic] = start + 1
        if faults is not None:
            broker = faults.back_first([queue.brokerName for queue in queues])
            queues = [queue for queue in queues if queue.brokerName == broker]
        return queues[start % len(queues)]
