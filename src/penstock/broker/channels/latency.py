"""Latencies of a channel's messages, from publish to finish (NSQ spec 3.13).

The last ``window_ns`` are covered by two windows of half that time: while one fills, the one before
it still counts, so the figures reach back between half the time and all of it. A channel has this
object only when somebody asked for latencies. It is paid for per range of messages, not per
message.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from penstock.broker.channels.consumer import Delivery
from penstock.core.clock import Clock
from penstock.core.quantiles import Quantiles, Summary

InFlight = Callable[[], Iterable[tuple[int, int]]]

_FEW: Final = 1024  # spans that are not worth tidying up


class Latency:
    """The measured times of one channel, in nanoseconds.

    ``count`` and ``total_ns`` are of all finished messages since the start, not of the window.
    """

    __slots__ = (
        "_before",
        "_clock",
        "_half_ns",
        "_now",
        "_publish_times",
        "_turned_ns",
        "count",
        "total_ns",
    )

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
            # After more than one turn the window before is too old as well.
            self._before = self._now if turns == 1 else Quantiles()
            self._now = Quantiles()


class PublishTimes:
    """Spans of offsets in order, each with the wall clock (ns) of its publish.

    A batch has one time for all its messages, so this is a short list. It is learnt from what is
    delivered, since a finish knows offsets only and the batch may be far from memory by then. Spans
    of finished messages are forgotten whenever the list has doubled.

    ``in_flight`` tells the ranges ``(first, next)`` whose times are still wanted.
    """

    __slots__ = ("_firsts", "_in_flight", "_limit", "_nexts", "_times")

    def __init__(self, in_flight: InFlight) -> None:
        self._in_flight = in_flight
        self._firsts: list[int] = []
        self._nexts: list[int] = []
        self._times: list[int] = []
        self._limit = _FEW

    def __len__(self) -> int:
        return len(self._firsts)

    def learn(self, deliveries: list[Delivery]) -> None:
        """Note the batches of these deliveries, which are now in flight."""
        firsts = self._firsts
        for batch in [delivery.batch for delivery in deliveries]:
            first = batch.first_offset
            # Nearly always the newest batch, which goes to the end without a search.
            place = len(firsts) if not firsts or firsts[-1] < first else bisect_right(firsts, first)
            if place and firsts[place - 1] == first:
                continue
            firsts.insert(place, first)
            self._nexts.insert(place, batch.next_offset)
            self._times.insert(place, batch.timestamp_ns)
        if len(firsts) > self._limit:
            self._tidy()

    def of(self, first: int, next_: int) -> Iterator[tuple[int, int]]:
        """Messages ``[first, next_)``, which are in flight: (wall ns, how many) for each batch."""
        firsts, nexts = self._firsts, self._nexts
        for place in range(max(0, bisect_right(firsts, first) - 1), len(firsts)):
            if firsts[place] >= next_:
                return
            count = min(next_, nexts[place]) - max(first, firsts[place])
            if count > 0:
                yield self._times[place], count

    def clear(self) -> None:
        """Forget everything, as nothing is in flight any more."""
        self._keep([])

    def _tidy(self) -> None:
        wanted: set[int] = set()
        for first, next_ in self._in_flight():
            low = bisect_right(self._firsts, first) - 1
            wanted.update(range(max(0, low), bisect_right(self._firsts, next_ - 1)))
        self._keep(sorted(wanted))

    def _keep(self, places: list[int]) -> None:
        self._firsts = [self._firsts[place] for place in places]
        self._nexts = [self._nexts[place] for place in places]
        self._times = [self._times[place] for place in places]
        self._limit = max(_FEW, 2 * len(places))
