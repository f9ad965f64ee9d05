"""Campaigns say how far they are, and end with a row of a table."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

EVERY_S = 5.0
"""Least time between two lines of progress."""


@dataclass(frozen=True)
class Result:
    """One row. It holds where there is no fault."""

    attack: str
    size: str
    found: str
    faults: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        verdict = "holds" if not self.faults else f"{len(self.faults)} faults"
        row = f"| {self.attack} | {self.size} | {self.found} | {verdict} |"
        return "\n".join([row, *(f"  fault: {fault}" for fault in self.faults)])


def progress(rounds: int, state: Callable[[], object] = lambda: "") -> Iterator[int]:
    """Numbers from 1 to the number of rounds, with a line now and then on how far it is."""
    start = shown = time.monotonic()
    for number in range(1, rounds + 1):
        yield number
        now = time.monotonic()
        if now - shown >= EVERY_S or number == rounds:
            shown = now
            left = (now - start) / number * (rounds - number)
            say(f"{number} of {rounds} rounds, {left:.0f} s to go; {state()}")


def say(line: str) -> None:
    """A line of progress."""
    print(line, file=sys.stderr, flush=True)
