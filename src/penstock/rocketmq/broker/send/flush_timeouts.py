"""Sends that wait for a slow disk: after a while their producers are told so (RocketMQ spec 7.3).

The message is stored all the same, and the answer says where: FLUSH_DISK_TIMEOUT is a success that
is not on stable storage yet.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Protocol

from penstock.core.clock import Clock
from penstock.core.units import MILLISECOND, SECOND


class Sending(Protocol):
    """A send that is not answered yet, or was."""

    is_answered: bool

    def flush_timed_out(self) -> None:
        """Answer it."""
        ...


class FlushTimeouts:
    """All sends that wait for a sync, in the order of their deadlines."""

    def __init__(self, clock: Clock, timeout_ms: int) -> None:
        self._clock = clock
        self._timeout_ns = timeout_ms * MILLISECOND
        self._waiting: deque[tuple[int, Sending]] = deque()
        self._timer: asyncio.TimerHandle | None = None

    def watch(self, sending: Sending) -> None:
        """Answer this send when its sync takes too long."""
        waiting = self._waiting
        # Here, too, as a fast disk answers thousands before the first deadline, and each would stay
        # till then.
        while waiting and waiting[0][1].is_answered:
            waiting.popleft()
        # One time-out for all, so the deadlines ascend and a deque does what a heap would.
        waiting.append((self._clock.monotonic_ns() + self._timeout_ns, sending))
        if self._timer is None:
            self._wait()

    def _wait(self) -> None:
        deadline = self._waiting[0][0]
        seconds = max(0.0, (deadline - self._clock.monotonic_ns()) / SECOND)
        self._timer = asyncio.get_running_loop().call_later(seconds, self._look)

    def _look(self) -> None:
        self._timer = None
        now = self._clock.monotonic_ns()
        waiting = self._waiting
        while waiting and (waiting[0][1].is_answered or waiting[0][0] <= now):
            _, sending = waiting.popleft()
            if not sending.is_answered:
                sending.flush_timed_out()
        if waiting:
            self._wait()
