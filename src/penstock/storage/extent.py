"""The extent of a log, recorded outside the log so that lost data is noticed.

A log that was cut short, or lost a file, looks like one that never held more. Therefore the cursor
journal of its queue states with each record where the log started and ended.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple


class Extent(NamedTuple):
    """Offsets of a log: its oldest message, the end of the synced part, the end of the log."""

    start: int
    synced: int
    end: int


NOTHING: Final = Extent(0, 0, 0)


def missing(present: Iterable[tuple[int, int]], start: int, end: int) -> Iterator[tuple[int, int]]:
    """The ranges between ``start`` and ``end`` not covered by ``present``, which must ascend."""
    for first, next_ in present:
        if start < min(first, end):
            yield start, min(first, end)
        start = max(start, next_)
    if start < end:
        yield start, end
