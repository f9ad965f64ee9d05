"""The letters that are still to be dealt with, as runs of offsets."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple


class Run(NamedTuple):
    """Offsets ``[first, next)``."""

    first: int
    next: int


def joined(offsets: Iterable[int]) -> list[Run]:
    """The runs of these offsets, which ascend."""
    runs: list[Run] = []
    for offset in offsets:
        if runs and runs[-1].next == offset:
            runs[-1] = Run(runs[-1].first, offset + 1)
        else:
            runs.append(Run(offset, offset + 1))
    return runs


def first(runs: Sequence[Run]) -> list[Run]:
    """The first offset of these."""
    return [Run(runs[0].first, runs[0].first + 1)] if runs else []


def newest(runs: Sequence[Run], count: int) -> list[Run]:
    """The last ``count`` offsets of these."""
    taken: list[Run] = []
    for run in reversed(runs):
        if count <= 0:
            break
        taken.append(Run(max(run.first, run.next - count), run.next))
        count -= run.next - run.first
    return taken[::-1]


def count(runs: Sequence[Run]) -> int:
    """The number of offsets."""
    return sum(run.next - run.first for run in runs)
