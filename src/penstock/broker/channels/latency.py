"""Latencies of a channel's messages, from publish to finish (NSQ spec 3.13).

The last ``window_ns`` are covered by two windows of half that time: while one fills, the one before
it still counts, so the figures reach back between half the time and all of it. A channel has this
object only when somebody asked for latencies. It is paid for per range of messages, not per
message.
"""

from __future__ import annotations

from penstock.broker.channels.consumer import Delivery
from penstock.broker.channels.delivery_observer import DeliveryObserver
from penstock.broker.channels.publish_times import InFlight, PublishTimes
from penstock.core.clock import Clock
from penstock.core.quantiles import Quantiles, Summary


class Latency(DeliveryObserver):
    """The measured times of one channel, in nanoseconds.

    ``count`` and ``total_ns`` are of all finished messages since the start, not of the window.
    """

    __slots__ = ("_before", "_clock", "_half_ns", "_now", "_publish_times", "_turned_ns", "count",
                 "total_ns")  # fmt: skip

    def __init__(self, window_ns: int, clock: Clock, in_flight: InFlight) -> None:
        assert window_ns > 0
        self.count = 0
        self.total_ns = 0
        self._clock = clock
        self._half_ns = max(1, window_ns // 2)
        self._turned_ns = clock.monotonic_ns()
        self._now = Quantiles()
        self._before = Quantiles()
        self._publish_times = PublishTimes(in_flight)

    def delivered(self, deliveries: list[Delivery]) -> None:
        """Note that messages went to a consumer, for the first time or again."""
        self._publish_times.learn(deliveries)

    def finished(self, first: int, next_: int) -> None:
        """A consumer has finished ``[first, next_)``, all of which were delivered."""
        self._turn()
        now = self._clock.wall_ns()
        for published, count in self._publish_times.of(first, next_):
            elapsed = max(0, now - published)  # the wall clock may have been set back
            self._now.add(elapsed, count)
            self.count += count
            self.total_ns += elapsed * count

    def emptied(self) -> None:
        """The channel was emptied: nothing is in flight, and the measuring starts again."""
        self._publish_times.clear()
        self._now = Quantiles()
        self._before = Quantiles()

    def summary(self) -> Summary:
        """The times measured in the window."""
        self._turn()
        return Summary.merged([self._before.summary(), self._now.summary()])

    def _turn(self) -> None:
        turns = (self._clock.monotonic_ns() - self._turned_ns) // self._half_ns
        if turns > 0:
            self._turned_ns += turns * self._half_ns
            self._before = self._now if turns == 1 else Quantiles()
            self._now = Quantiles()
