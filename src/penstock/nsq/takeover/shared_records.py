"""Finding the messages that several channel queues hold, so that each is stored once.

Go's nsqd gives every channel its own copy. Here the queues are read side by side, in the order of
the messages' timestamps, one chunk of each in memory. Messages that several queues hold are joined.
One that does not meet its copy, because the queues are too far out of step or out of order, is
stored for each channel by itself, which costs room and nothing else.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from penstock.nsq.takeover.data_file import Records

KINDS_MAX: Final = 64
"""Most different sets of channels that are told apart in one round."""


class SharedRecords(NamedTuple):
    """Messages that these lanes (numbers of queues) hold, all delivered ``attempts`` times."""

    lanes: tuple[int, ...]
    attempts: int
    records: Records


class _Lane:
    """One queue: its current chunk, and how far the time stamps had come at each record."""

    def __init__(self, number: int, chunks: Iterator[Records]) -> None:
        self.number = number
        self._chunks = chunks
        self._records: Records | None = None

    def fill(self) -> bool:
        """Have something to take; False at the end of the queue."""
        if self._records is None or not len(self._records):
            self._records = next(self._chunks, None)
            if self._records is not None:
                # Time stamps of a queue may go back; this is how far they had come at each record.
                self._reached = np.maximum.accumulate(self._records.timestamps())
        return self._records is not None

    @property
    def latest(self) -> int:
        """The latest time stamp at hand."""
        return int(self._reached[-1])

    def take(self, until: int) -> Records:
        """The records before the first that is later than ``until``."""
        assert self._records is not None
        count = int(np.searchsorted(self._reached, until, "right"))
        taken = self._records.take(slice(0, count))
        self._records = self._records.take(slice(count, None))
        self._reached = self._reached[count:]
        return taken


def merge(queues: list[Iterator[Records]]) -> Iterator[SharedRecords]:
    """All records of the queues; each record is in one share for every queue that holds it.

    Shares of one lane come in the order of its queue, but for those already delivered, which come
    behind their neighbours, and for the order of the groups within a round.
    """
    lanes = [_Lane(number, chunks) for number, chunks in enumerate(queues)]
    while lanes := [lane for lane in lanes if lane.fill()]:
        until = min(lane.latest for lane in lanes)
        taken = [(lane.number, lane.take(until)) for lane in lanes]
        yield from _join([(number, records) for number, records in taken if len(records)])


def _join(taken: list[tuple[int, Records]]) -> Iterator[SharedRecords]:
    first = taken[0][1]
    span = first.span()
    # Queues that are level hold the same bytes: the usual case, without a look at messages.
    if all(len(records) == len(first) and records.span() == span for _, records in taken[1:]):
        lanes = tuple(number for number, _ in taken)
        yield from _by_attempts(lanes, first)
        return
    fresh = []
    for number, records in taken:
        attempts = records.attempts()
        # What a channel has delivered before keeps its attempts, and so is stored for it alone.
        if attempts.any():
            yield from _by_attempts((number,), records.take(attempts > 0))
            records = records.take(attempts == 0)
        fresh.append((number, records))
    yield from _by_holders(fresh)


def _by_attempts(lanes: tuple[int, ...], records: Records) -> Iterator[SharedRecords]:
    attempts = records.attempts()
    for value in np.unique(attempts).tolist():
        yield SharedRecords(lanes, value, records.take(attempts == value))


def _by_holders(taken: list[tuple[int, Records]]) -> Iterator[SharedRecords]:
    """Join what is equal in all but its queue; a message twice in one queue stays twice."""
    holders: dict[bytes, int] = {}  # a bit for each queue
    indexes: dict[bytes, int] = {}  # in the first queue that holds it
    groups: defaultdict[tuple[int, int], list[int]] = defaultdict(list)  # by bits and source
    for place, (_, records) in enumerate(taken):
        bit = 1 << place
        for index, identity in enumerate(records.identities()):
            held = holders.get(identity, 0)
            if held & bit:
                groups[bit, place].append(index)
                continue
            holders[identity] = held | bit
            if not held:
                indexes[identity] = index
    # Each set of channels makes a share; messages of rarer sets are stored for each channel.
    kinds = {kind for kind, _ in Counter(holders.values()).most_common(KINDS_MAX)}
    for identity, bits in holders.items():
        source = _lowest(bits)
        for kind in (bits,) if bits in kinds else _each(bits):
            groups[kind, source].append(indexes[identity])
    for (bits, source), chosen in groups.items():
        lanes = tuple(taken[_lowest(bit)][0] for bit in _each(bits))
        yield SharedRecords(lanes, 0, taken[source][1].take(np.array(chosen, np.int64)))


def _lowest(bits: int) -> int:
    return (bits & -bits).bit_length() - 1


def _each(bits: int) -> Iterator[int]:
    while bits:
        yield bits & -bits
        bits &= bits - 1
