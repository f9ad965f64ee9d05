"""The reports of campaigns: lines of progress, and a row of a table at the end."""

from __future__ import annotations

import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

_ending: list[int] = []
EVERY_S = 5.0
"""Least time between two lines of progress."""


@dataclass(frozen=True)
class Result:
    """One row of the table. The campaign has passed if there is no fault."""

    attack: str
    size: str
    found: str
    faults: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        verdict = "holds" if not self.faults else f"{len(self.faults)} faults"
        row = f"| {self.attack} | {self.size} | {self.found} | {verdict} |"
        return "\n".join([row, *(f"  fault: {fault}" for fault in self.faults)])


def progress(rounds: int, state: Callable[[], object] = lambda: "") -> Iterator[int]:
    """Numbers from 1 to the number of rounds, fewer after Ctrl-C, with a line now and then on how
    far it is.
    """
    start = shown = time.monotonic()
    for number in range(1, rounds + 1):
        if _ending:
            return
        yield number
        now = time.monotonic()
        if now - shown >= EVERY_S or number == rounds:
            shown = now
            left = (now - start) / number * (rounds - number)
            say(f"{number} of {rounds} rounds, {left:.0f} s to go; {state()}")


def end_at_interrupt() -> None:
    """From now on Ctrl-C ends the rounds, and what was done so far is judged."""
    signal.signal(signal.SIGINT, lambda number, _: _ending.append(number))


def explained(error: BaseException) -> list[str]:
    """A line for each error, with its place; groups of errors are split up."""
    if isinstance(error, BaseExceptionGroup):
        return [line for each in error.exceptions for line in explained(each)]
    place = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{Path(place.filename).name}:{place.lineno}: {place.line}"
    return [f"{where}: {type(error).__name__}: {error}"]


def say(line: str) -> None:
    """Print a line of progress."""
    print(line, file=sys.stderr, flush=True)
