"""The only place that reads a clock; the rest is handed a ``Clock``, so tests can hold time."""

from __future__ import annotations

import time
from typing import Protocol

from penstock.core.units import MILLISECOND


class Clock(Protocol):
    """Two clocks in nanoseconds: one for deadlines, one for timestamps that users see."""

    def monotonic_ns(self) -> int:
        """Nanoseconds that never go back; only differences mean something."""
        ...

    def wall_ns(self) -> int:
        """Nanoseconds since 1970-01-01 UTC; may jump when the system's time is set."""
        ...


class SystemClock:
    """The machine's clocks."""

    __slots__ = ()

    # Static so that a call goes straight to C: clocks are read on hot paths.
    monotonic_ns = staticmethod(time.monotonic_ns)
    wall_ns = staticmethod(time.time_ns)


SYSTEM_CLOCK: Clock = SystemClock()


def wall_ms(clock: Clock) -> int:
    """Milliseconds since 1970-01-01 UTC, by the clock that may jump."""
    return clock.wall_ns() // MILLISECOND


def process_cpu_ns() -> int:
    """Processor time that this process has taken, in nanoseconds."""
    return time.process_time_ns()


def thread_cpu_ns(native_id: int) -> int | None:
    """Processor time that a thread of this process has taken, in nanoseconds.

    None when there is no such thread any more, or no such clock: it is one of Linux's. Its number
    is made of the thread's (``pthread_getcpuclockid`` would crash on a thread that has ended).
    """
    try:
        return time.clock_gettime_ns((~native_id << 3) | 6)
    except (OSError, OverflowError, TypeError):  # the last for too long a number, in Python 3.14
        return None
