"""How far a log reaches, as it is written down beside it: what makes a loss noticed.

A log that was cut short, or lost a file, looks like one that never held more. So the journal of its
queue says with each record from where to where the log went.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple


class Extent(NamedTuple):
    """Offsets of a log: the oldest that is kept, the end of what was synced, the end."""

    start: int
    synced: int
    end: int


NOTHING: Final = Extent(0, 0, 0)


def missing(present: Iterable[tuple[int, int]], start: int, end: int) -> Iterator[tuple[int, int]]:
    """The ranges from ``start`` to ``end`` that no range of ``present``, which ascend, covers."""
    for first, next_ in present:
        if start < min(first, end):
            yield start, min(first, end)
        start = max(start, next_)
    if start < end:
        yield start, end
