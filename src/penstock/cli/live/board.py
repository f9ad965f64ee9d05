"""The state of a live display, apart from how it is drawn."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from penstock.core.clock import SYSTEM_CLOCK, Clock

_RATE_WINDOW_NS = 3_000_000_000


@dataclass(slots=True)
class Service:
    """One program or part: ``state`` is a word (starting, ready, stopped), ``detail`` the rest."""

    name: str
    state: str = "waiting"
    detail: str = ""


class Gauge:
    """A count that grows towards a total, and how fast it has grown in the last seconds."""

    def __init__(self, name: str, total: int | None = None, clock: Clock = SYSTEM_CLOCK) -> None:
        self.name = name
        self.total = total
        self.done = 0
        self._clock = clock
        self._seen: deque[tuple[int, int]] = deque()

    def set(self, done: int) -> None:
        """Note the count as it is now."""
        self.done = done
        now = self._clock.monotonic_ns()
        self._seen.append((now, done))
        while len(self._seen) > 2 and self._seen[1][0] < now - _RATE_WINDOW_NS:
            self._seen.popleft()

    @property
    def rate(self) -> float:
        """Counts a second over the last seconds; 0 when nothing came in them."""
        if len(self._seen) < 2:
            return 0.0
        first, last = self._seen[0], self._seen[-1]
        elapsed_ns = max(self._clock.monotonic_ns(), last[0]) - first[0]
        return (last[1] - first[1]) * 1e9 / elapsed_ns if elapsed_ns else 0.0

    @property
    def complete(self) -> bool:
        return self.total is not None and self.done >= self.total


@dataclass(slots=True)
class Board:
    """Everything a display shows."""

    title: str
    services: list[Service] = field(default_factory=list)
    gauges: list[Gauge] = field(default_factory=list)
    facts: dict[str, str] = field(default_factory=dict)
    doing: str = ""

    def service(self, name: str) -> Service:
        return next(each for each in self.services if each.name == name)
