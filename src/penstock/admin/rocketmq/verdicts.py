"""Verdicts in RocketMQ's sense: one rule for the overview, the lists and the pages.

A verdict has a `kind`, a `level` (bad, warn), a `weight` (the greater, the worse), and the figures
that words are made of. Kinds of groups: `unattended` (messages wait, and no member is online),
`backlog` (it grows, or takes long to empty), `disabled`, `letters`. Kinds of servers: `silent`,
`disk`.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from penstock.admin.history.limits import LIMITS
from penstock.admin.rocketmq.paces import Pace

BAD: Final = "bad"
WARN: Final = "warn"
DISK_WARN: Final = 0.75
"""The share of the disk from which on brokers delete files before their time."""
DISK_BAD: Final = 0.85
"""The share from which on they delete files that have not come of age."""
_MOST: Final = float(1 << 53)
"""The weight of a server that does not answer: JSON has no infinity."""
_BROADCASTING: Final = "BROADCASTING"

Verdict = dict[str, Any]


class Facts(NamedTuple):
    """A group as it is now; None is what is not known."""

    lag: int
    members: int | None
    model: str = ""
    pace: Pace | None = None
    consumes: bool = True
    letters: int = 0
    letter_ms: int = 0
    """When the newest dead letter was stored."""


def of_group(facts: Facts) -> list[Verdict]:
    """The verdicts on a group, the worst first."""
    found = [*_of_lag(facts)]
    if facts.letters:
        letters = {"letters": facts.letters, "last_ms": facts.letter_ms}
        found.append(_verdict("letters", WARN, facts.letters, **letters))
    return found


def _of_lag(facts: Facts) -> list[Verdict]:
    """Of broadcasting groups brokers have no offsets: members keep them."""
    lag = facts.lag
    if not lag or facts.model == _BROADCASTING:
        return []
    is_deep = lag >= LIMITS.backlog
    came, out = (facts.pace.came, facts.pace.out) if facts.pace else (None, None)
    growth = came - out if came is not None and out is not None else None
    figures = {"depth": lag, "growth": growth}
    if not facts.consumes:
        return [_verdict("disabled", WARN, lag, **figures)]
    if facts.members == 0:
        return [_verdict("unattended", BAD if is_deep else WARN, lag, **figures)]
    if not is_deep:
        return []
    if growth is None or came is None:
        return [_verdict("backlog", WARN, lag, **figures, seconds=None)]
    if growth > LIMITS.growth * came:
        return [_verdict("backlog", BAD, lag, **figures, seconds=None)]
    seconds = lag / -growth if growth < 0 else None
    if seconds is not None and seconds <= LIMITS.empties_in:
        return []
    return [_verdict("backlog", WARN, lag, **figures, seconds=seconds)]


def of_server(*, answers: bool) -> list[Verdict]:
    """The verdict on a broker or name server that is registered or configured."""
    return [] if answers else [_verdict("silent", BAD, _MOST)]


def of_disk(share: float | None) -> list[Verdict]:
    """The verdict on a broker's disk, of which this share is full."""
    if share is None or share < DISK_WARN:
        return []
    return [_verdict("disk", BAD if share >= DISK_BAD else WARN, share, share=share)]


def _verdict(kind: str, level: str, weight: float, **figures: Any) -> Verdict:
    return {"kind": kind, "level": level, "weight": weight, **figures}
