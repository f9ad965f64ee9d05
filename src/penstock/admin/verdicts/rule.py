"""The one rule about messages that wait: a channel's backlog or a group's lag, of either dialect.

The overview, all lists and all pages show its verdicts, so that nobody reads two about one group.
It looks at what waits, how that grows, what readers take, and whether there are any. Columns have
a value for each channel or group; NaN is what is not known.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from penstock.admin.verdicts.limits import LIMITS

Column = NDArray[np.float64]
Mask = NDArray[np.bool_]
Verdict = dict[str, Any]

GOOD: Final = ""
WARN: Final = "warn"
BAD: Final = "bad"
KINDS: Final = (
    "caught_up",
    "unattended",
    "keeps_up",
    "unknown",
    "catching_up",
    "stopped",
    "growing",
    "level",
)
"""The verdicts in the order in which they are tried; the last fits whatever the others do not."""
_CAUGHT_UP, _UNATTENDED, _KEEPS_UP, _UNKNOWN, _CATCHING_UP, _STOPPED, _GROWING, _LEVEL = range(8)


class Waiting(NamedTuple):
    """Messages that wait, and what changes their number."""

    depth: Column
    growth: Column
    """Messages a second; less than 0 where they become fewer."""
    out: Column
    """Messages a second that readers take."""
    readers: Column
    """Connected consumers; not known of groups whose readers ask over HTTP."""


class Outlook(NamedTuple):
    """The verdicts: indices of ``KINDS``, whether each is bad or a warning, seconds until the
    end.
    """

    kinds: NDArray[np.intp]
    is_bad: Mask
    is_warned: Mask
    seconds: Column
    """The seconds until nothing waits, at this rate; of an unknown growth if nothing new comes."""


@np.errstate(invalid="ignore", divide="ignore")
def outlook(waiting: Waiting) -> Outlook:
    """The verdicts on what waits."""
    depth, growth, out, readers = waiting
    is_known = ~np.isnan(growth)
    seconds = np.where(growth < 0, depth / -growth, np.nan)
    kinds = np.select(
        [
            depth <= 0,
            (readers == 0) & (depth > 0),
            depth <= out * LIMITS.near_s,
            ~is_known,
            seconds <= LIMITS.ever_s,
            out < LIMITS.still,
            growth > LIMITS.growth * (out + growth),
        ],
        range(_LEVEL),
        _LEVEL,
    )
    is_deep = depth >= LIMITS.backlog
    is_bad = is_deep & np.isin(kinds, (_UNATTENDED, _STOPPED, _GROWING))
    is_warned = ~is_bad & (
        (kinds == _UNATTENDED)
        | (
            is_deep
            & (
                np.isin(kinds, (_UNKNOWN, _LEVEL))
                | ((kinds == _CATCHING_UP) & (seconds > LIMITS.empties_in))
            )
        )
    )
    read = np.where((kinds == _UNKNOWN) & (out > 0), depth / out, np.nan)
    seconds = np.where(kinds == _CATCHING_UP, seconds, read)
    return Outlook(kinds, is_bad, is_warned, seconds)


def verdict(
    depth: float, growth: float | None, out: float | None, readers: int | None = None
) -> Verdict:
    """The verdict on one channel or group, as the API tells it; None is what is not known.

    It has a ``kind`` of ``KINDS``, a ``level`` (bad, warn, or empty), a ``weight`` (the greater,
    the worse), and the figures that words are made of: ``depth``, ``growth`` a second, ``seconds``.
    """
    columns = (
        np.array([np.nan if each is None else each], np.float64)
        for each in (depth, growth, out, readers)
    )
    found = outlook(Waiting(*columns))
    seconds = float(found.seconds[0])
    return {
        "kind": KINDS[found.kinds[0]],
        "level": BAD if found.is_bad[0] else WARN if found.is_warned[0] else GOOD,
        "weight": depth,
        "depth": depth,
        "growth": growth,
        "seconds": None if np.isnan(seconds) else seconds,
    }
