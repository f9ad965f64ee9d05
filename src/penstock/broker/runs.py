"""Turning a list of offsets into the ranges they form."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

Offsets: TypeAlias = "npt.NDArray[np.int64] | list[int]"
"""A list when they are few: numpy would cost more than it saves."""


def runs(offsets: Offsets) -> list[tuple[int, int]]:
    """Half-open ranges that cover ``offsets``; one that stands twice gives two ranges.

    Consumers finish mostly in the order of delivery, so a thousand offsets are mostly one range.
    """
    if isinstance(offsets, list):
        return _few(offsets)
    count = len(offsets)
    if count == 0:
        return []
    first, last = int(offsets[0]), int(offsets[-1])
    steps = np.diff(offsets)
    if last - first == count - 1 and bool((steps == 1).all()):
        return [(first, last + 1)]
    ordered = np.sort(offsets)
    borders = np.flatnonzero(np.diff(ordered) != 1)
    firsts = ordered[np.concatenate(([0], borders + 1))].tolist()
    nexts = (ordered[np.concatenate((borders, [count - 1]))] + 1).tolist()
    return list(zip(firsts, nexts, strict=True))


def _few(offsets: list[int]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for offset in sorted(offsets):
        if found and found[-1][1] == offset:
            found[-1] = found[-1][0], offset + 1
        else:
            found.append((offset, offset + 1))
    return found
