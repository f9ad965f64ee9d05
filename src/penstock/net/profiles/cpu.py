"""A profile of processor time: a look at all threads whenever 10 ms of it have been used.

The kernel's timer for processor time sends SIGPROF, as it does for Go's profiler, and Python runs
the handler in the main thread, where it finds the very function that was at work. (A thread that
looks by the clock comes mostly when the event loop waits, since only then it gets the interpreter.)
Each look charges a thread's stack with what that thread used since the last one, by its own clock;
so the sums are right, and a process that waits costs nothing.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Final

from penstock.core.clock import Clock, thread_cpu_ns
from penstock.core.units import SECOND
from penstock.net.profiles.call_stacks import DEPTH_MAX, FURTHER_STACKS, STACKS_MAX, Frame, frame
from penstock.net.profiles.pprof import Profile, ValueType

PERIOD_NS: Final = SECOND // 100
_CPU: Final = ValueType("cpu", "nanoseconds")

_Key = tuple[tuple[CodeType, int], ...]


class CpuProfile:
    """A sampler of the process between ``start`` and ``stop``, both called in the main thread."""

    def __init__(
        self, clock: Clock, thread_cpu: Callable[[int], int | None] = thread_cpu_ns
    ) -> None:
        self._clock = clock
        self._thread_cpu = thread_cpu
        self._counts: dict[tuple[str, _Key], list[int]] = {}
        self._modules: dict[CodeType, str] = {}
        self._seen: dict[int, int] = {}  # by native id: processor time at the last look
        self._looking = False
        self._started_ns = 0
        self._began_ns = 0
        self._duration_ns = 0

    def start(self) -> None:
        """Sample from now on. Raises ValueError outside of the main thread."""
        signal.signal(signal.SIGPROF, self._on_timer)
        self._started_ns = self._clock.wall_ns()
        self._began_ns = self._clock.monotonic_ns()
        for thread in threading.enumerate():
            if thread.native_id is not None:
                self._seen[thread.native_id] = self._thread_cpu(thread.native_id) or 0
        signal.setitimer(signal.ITIMER_PROF, PERIOD_NS / SECOND, PERIOD_NS / SECOND)

    def stop(self) -> None:
        """Sample no more."""
        signal.setitimer(signal.ITIMER_PROF, 0)
        # Not the default: a last signal may still be on its way, and the default is to end.
        signal.signal(signal.SIGPROF, signal.SIG_IGN)
        self._duration_ns = self._clock.monotonic_ns() - self._began_ns

    def pprof(self) -> bytes:
        """The profile for ``go tool pprof``."""
        profile = Profile(
            (ValueType("samples", "count"), _CPU),
            program=sys.argv[0],
            time_ns=self._started_ns,
            duration_ns=self._duration_ns,
            period=(_CPU, PERIOD_NS),
            default="cpu",
        )
        for (name, key), values in self._counts.items():
            profile.add(self._frames(key), values, {"thread": name})
        return profile.encode()

    def folded(self) -> str:
        """One line a stack: frames from the outermost on, then microseconds (flame graphs)."""
        lines = []
        for (name, key), (_, nanoseconds) in self._counts.items():
            path = [name, *(each.function for each in reversed(self._frames(key)))]
            lines.append(f"{';'.join(path)} {nanoseconds // 1000}\n")
        return "".join(sorted(lines))

    def _frames(self, key: _Key) -> tuple[Frame, ...]:
        if not key:
            return (FURTHER_STACKS,)
        return tuple(frame(code, line, self._modules[code]) for code, line in key)

    def _on_timer(self, number: int, at: FrameType | None) -> None:
        if self._looking:  # the look before took longer than it should
            return
        self._looking = True
        try:
            self._look(at)
        finally:
            self._looking = False

    def _look(self, at: FrameType | None) -> None:
        """``at`` is where the main thread was when it was interrupted for this."""
        standing = sys._current_frames()
        main = threading.main_thread()
        for thread in threading.enumerate():
            if thread.native_id is None or thread.ident is None:
                continue
            spent = self._take_spent(thread.native_id, thread is main)
            if spent > 0:
                innermost = at if thread is main else standing.get(thread.ident)
                self._charge(thread.name, innermost, spent)

    def _take_spent(self, native_id: int, is_main: bool) -> int:
        """Processor time of a thread since the last look; all is the main one's if none tells."""
        now = self._thread_cpu(native_id)
        if now is None:
            return PERIOD_NS if is_main else 0
        spent = now - self._seen.get(native_id, 0)
        self._seen[native_id] = now
        return spent

    def _charge(self, name: str, at: FrameType | None, spent: int) -> None:
        places: list[tuple[CodeType, int]] = []
        while at is not None and len(places) < DEPTH_MAX:
            code = at.f_code
            places.append((code, at.f_lineno or 0))
            if code not in self._modules:
                self._modules[code] = str(at.f_globals.get("__name__", "?"))
            at = at.f_back
        key = (name, tuple(places))
        if key not in self._counts and len(self._counts) >= STACKS_MAX:
            key = (name, ())
        count = self._counts.setdefault(key, [0, 0])
        count[0] += 1
        count[1] += spent
