"""Ctrl-C for work that must not be cut in the middle of a step."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from types import FrameType
from typing import Any, Final

from penstock.core.clock import SYSTEM_CLOCK, Clock
from penstock.core.units import SECOND

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
_NAP_S: Final = 0.1

INTERRUPTED: Final = 130
"""The exit code of a command that was asked to end before its end."""


class Stop:
    """Within its block the first SIGINT or SIGTERM asks for an end, a later one is Ctrl-C.

    Its echo within a second counts as the same, as ``timeout`` and some shells send it.
    """

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._asked_ns: int | None = None
        self._before: dict[int, Callable[[int, FrameType | None], Any] | int | None] = {}

    def __enter__(self) -> Stop:
        for number in _SIGNALS:
            self._before[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    @property
    def asked(self) -> bool:
        """True once an end is asked for."""
        return self._asked_ns is not None

    def sleep_until(self, due_ns: int) -> None:
        """Sleep until a monotonic time, or the end is asked for."""
        while not self.asked and (left := due_ns - self._clock.monotonic_ns()) > 0:
            time.sleep(min(_NAP_S, left / SECOND))

    def _on_signal(self, *_: object) -> None:
        now = self._clock.monotonic_ns()
        if self._asked_ns is None:
            self._asked_ns = now
        elif now - self._asked_ns >= SECOND:
            raise KeyboardInterrupt
