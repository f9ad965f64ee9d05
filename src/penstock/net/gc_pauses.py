"""Pauses of the garbage collector, in the figures of Go's runtime."""

from __future__ import annotations

import gc
from collections import deque
from typing import Final

from penstock.core.clock import Clock

_KEPT: Final = 256


class GcPauses:
    """The durations of the last collections in this process, in nanoseconds.

    Between ``start`` and ``stop`` every collection is timed, which costs about a microsecond each.
    """

    def __init__(self, clock: Clock) -> None:
        self.count = 0
        self.total_ns = 0
        self._clock = clock
        self._began: int | None = None
        self._last: deque[int] = deque(maxlen=_KEPT)

    def start(self) -> None:
        gc.callbacks.append(self._note)

    def stop(self) -> None:
        if self._note in gc.callbacks:
            gc.callbacks.remove(self._note)

    def _note(self, phase: str, info: dict[str, int]) -> None:
        now = self._clock.monotonic_ns()
        if phase == "start":
            self._began = now
        elif self._began is not None:
            self._last.append(now - self._began)
            self.count += 1
            self.total_ns += now - self._began
            self._began = None

    def percentile(self, percent: float) -> int:
        """A percentile of the last 256 pauses, by Go's rule for this figure; 0 without a pause."""
        if not self._last:
            return 0
        index = int(percent / 100 * len(self._last) + 0.5)
        return sorted(self._last)[min(index, len(self._last) - 1)]
