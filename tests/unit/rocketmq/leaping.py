"""A real clock that a test puts forward."""

from __future__ import annotations

from penstock.core.clock import SYSTEM_CLOCK


class Leaping:
    """A clock that goes as the system's does, ``ahead_ns`` before it."""

    def __init__(self) -> None:
        self.ahead_ns = 0

    def monotonic_ns(self) -> int:
        return SYSTEM_CLOCK.monotonic_ns() + self.ahead_ns

    def wall_ns(self) -> int:
        return SYSTEM_CLOCK.wall_ns() + self.ahead_ns
