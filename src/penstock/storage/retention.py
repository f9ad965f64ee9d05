"""Retention: the time or size for which consumed messages stay for replay."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Retention:
    """The rule by which a segment that every channel and group has passed may go.

    ``time_ns`` keeps it for that long after its last message, ``nbytes`` keeps that much of the
    queue; 0 sets no such rule. With neither, a segment goes as soon as it is consumed, as in NSQ.
    Messages that somebody still waits for are kept whatever these say.
    """

    time_ns: int = 0
    nbytes: int = 0

    def expired(self, age_ns: int, nbytes_without: int) -> bool:
        """True if a consumed segment of this age goes from a queue of this size without it."""
        if not self.time_ns and not self.nbytes:
            return True
        too_old = bool(self.time_ns) and age_ns > self.time_ns
        too_much = bool(self.nbytes) and nbytes_without >= self.nbytes
        return too_old or too_much
