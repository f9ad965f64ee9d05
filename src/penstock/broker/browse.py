"""Looking at the messages of a topic or a channel without taking any.

The work for one page is bounded: each place of the log may cost reading a block of a file, so the
number of places is limited. A page that ends early says where the next one starts.
"""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections.abc import Iterator
from enum import Enum
from operator import attrgetter
from typing import Final, NamedTuple

from penstock.broker.channels.channel_state import ChannelState
from penstock.storage.batch import Batch
from penstock.storage.log import BatchRun, ReadableLog

PLACES_MAX: Final = 16
_FIRST_OFFSET = attrgetter("first_offset")
_FIRST = attrgetter("first")
_NEXT = attrgetter("next")


class State(Enum):
    """The state of a message in a channel."""

    WAITING = "waiting"
    IN_FLIGHT = "in_flight"
    REQUEUED = "requeued"
    DEFERRED = "deferred"
    SPENT = "spent"


class StateRange(NamedTuple):
    """Messages ``[first, next)`` in the same state. ``deadline`` is monotonic ns, of deferred
    ones.
    """

    first: int
    next: int
    state: State
    attempts: int
    deadline: int | None = None


def oldest(state: ChannelState, low: int, limit: int) -> list[StateRange]:
    """The first ``limit`` messages from offset ``low`` on that the channel needs, in order."""
    # Not among the stretches: there may be millions, of which numpy picks the nearest.
    deferred = state.deferred.nearest(low, limit)
    stretches = [s for s in _stretches(state) if s.next > low and s.next > s.first]
    stretches += [
        StateRange(e.first, e.next, State.DEFERRED, e.attempts, e.deadline) for e in deferred
    ]
    found = []
    for stretch in heapq.nsmallest(limit, stretches, key=_FIRST):
        first = max(stretch.first, low)
        found.append(stretch._replace(first=first, next=min(stretch.next, first + limit)))
        limit -= found[-1].next - first
        if limit <= 0:
            break
    return found


def newest(state: ChannelState, limit: int) -> list[StateRange]:
    """The last ``limit`` messages that the channel needs, in order."""
    deferred = state.deferred.newest(limit)
    stretches = [s for s in _stretches(state) if s.next > s.first]
    stretches += [
        StateRange(e.first, e.next, State.DEFERRED, e.attempts, e.deadline) for e in deferred
    ]
    found: list[StateRange] = []
    for stretch in heapq.nlargest(limit, stretches, key=_NEXT):
        found.append(stretch._replace(first=max(stretch.first, stretch.next - limit)))
        limit -= stretch.next - found[-1].first
        if limit <= 0:
            break
    return found[::-1]


def _stretches(state: ChannelState) -> Iterator[StateRange]:
    """All but the deferred."""
    for first, next_, attempts in state.flying():
        yield StateRange(first, next_, State.IN_FLIGHT, attempts)
    for entry in state.requeued:
        yield StateRange(entry.first, entry.next, State.REQUEUED, entry.attempts)
    for spent in state.spent:
        yield StateRange(spent.first, spent.next, State.SPENT, spent.attempts)
    for first, next_ in state.backlog():
        yield StateRange(first, next_, State.WAITING, 0)


class PageEndError(Exception):
    """Enough was read for one page."""


class PageReader:
    """A reader of single messages' batches, in any order; it remembers the places it has read."""

    def __init__(self, log: ReadableLog, places_max: int = PLACES_MAX) -> None:
        self._log = log
        self._left = places_max
        self._runs: list[BatchRun] = []

    def batch(self, offset: int) -> Batch | None:
        """The batch that holds ``offset``; None when it is not there any more or damaged.

        Raises PageEndError, StorageError.
        """
        for batches, _ in self._runs:
            if batches[0].first_offset <= offset < batches[-1].next_offset:
                return _holding(
                    batches[bisect_right(batches, offset, key=_FIRST_OFFSET) - 1], offset
                )
        if not self._left:
            raise PageEndError
        self._left -= 1
        batches, place = self._log.batches_at(offset)
        if place >= len(batches):
            return None
        self._runs.append((batches, place))
        return _holding(batches[place], offset)


def _holding(batch: Batch, offset: int) -> Batch | None:
    return batch if batch.first_offset <= offset < batch.next_offset else None
