"""Holding back what comes too quickly (``--rate``); the clock is the caller's."""

from __future__ import annotations


class Throttle:
    """A limit of ``rate`` records a second, evenly; after a pause a second's worth is caught up."""

    def __init__(self, rate: int, now: float) -> None:
        self._rate = rate
        self._allowed = 1.0
        self._seen = now

    def grant(self, wanted: int, now: float) -> int:
        """The number of these that may go now; at 0, ask again after ``wait`` seconds."""
        earned = (now - self._seen) * self._rate
        self._allowed = min(self._allowed + earned, max(1.0, self._rate))
        self._seen = now
        granted = min(wanted, int(self._allowed + 1e-9))
        self._allowed -= granted
        return granted

    @property
    def wait(self) -> float:
        """Seconds until the next one may go."""
        return max(0.0, 1.0 - self._allowed) / self._rate
