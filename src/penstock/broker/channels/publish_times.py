"""The publish times of the messages in flight on a channel.

A batch has one time for all its messages, so this is a short list of spans of offsets. It learns
them from what is delivered, since a finish knows offsets only and the batch may be far from memory
by then. Spans of finished messages are forgotten whenever the list has doubled.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from penstock.broker.channels.consumer import Delivery

_FEW: Final = 1024  # spans that are not worth tidying up

InFlight = Callable[[], Iterable[tuple[int, int]]]


class PublishTimes:
    """Spans of offsets in order, each with the wall clock (ns) of its publish.

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
        """Note the batches of these deliveries, which are in flight by now."""
        firsts = self._firsts
        for batch in [delivery.batch for delivery in deliveries]:
            first = batch.first_offset
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
