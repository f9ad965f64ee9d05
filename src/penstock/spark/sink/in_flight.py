"""Requests under way: a bounded number at a time, each in a thread."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType


class InFlight:
    """A send under way while the caller prepares what comes next; use as a context manager."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._pool = ThreadPoolExecutor(limit)
        self._waiting: deque[Future[int]] = deque()
        self.done = 0
        """The sum of what the finished calls gave back."""

    def __enter__(self) -> InFlight:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._pool.shutdown(cancel_futures=True)

    def submit(self, call: Callable[[], int]) -> None:
        """Start a call once there is room. Raises the error of an earlier one."""
        self.await_room()
        self._waiting.append(self._pool.submit(call))

    def await_room(self) -> None:
        """Wait until another call may start. Raises the error of an earlier one."""
        while len(self._waiting) >= self._limit:
            self._wait_for_first()

    def finish(self) -> None:
        """Wait for all calls; raises the first of their errors."""
        while self._waiting:
            self._wait_for_first()

    def _wait_for_first(self) -> None:
        self.done += self._waiting.popleft().result()
