"""Verdicts on RocketMQ's groups and servers.

A verdict is as ``penstock.admin.verdicts.rule`` has it. Kinds of groups are those of the rule,
``disabled`` and ``letters``. Kinds of servers: ``silent``, ``disk``.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from penstock.admin.rocketmq.group_rates import GroupRate
from penstock.admin.verdicts.rule import BAD, WARN, Verdict, verdict

DISK_WARN: Final = 0.75
"""The share of the disk in use at which brokers delete files that have not expired."""
DISK_BAD: Final = 0.85
"""The share at which they delete files that have not expired."""
_MOST: Final = float(1 << 53)
"""The weight of a server that does not answer: JSON has no infinity."""
_BROADCASTING: Final = "BROADCASTING"


class GroupFacts(NamedTuple):
    """A group as it is now; None is what is not known."""

    lag: int
    members: int | None
    model: str = ""
    rate: GroupRate | None = None
    consumes: bool = True
    letters: int = 0
    letter_ms: int = 0
    """The time at which the newest dead letter was stored."""


def of_group(facts: GroupFacts) -> list[Verdict]:
    """The verdicts on a group, the worst first."""
    found = [*_of_lag(facts)]
    if facts.letters:
        letters = {"letters": facts.letters, "last_ms": facts.letter_ms}
        found.append(_verdict("letters", WARN, facts.letters, **letters))
    return found


def _of_lag(facts: GroupFacts) -> list[Verdict]:
    """The verdict on a lag. Of broadcasting groups brokers have no offsets: members keep them."""
    if not facts.lag or facts.model == _BROADCASTING:
        return []
    growth, out = (facts.rate.growth, facts.rate.out) if facts.rate else (None, None)
    found = verdict(facts.lag, growth, out, facts.members)
    if not facts.consumes:
        return [found | {"kind": "disabled", "level": WARN}]
    return [found] if found["level"] else []


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
