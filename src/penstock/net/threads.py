"""Short blocking work beside the loop, for a third of what ``asyncio.to_thread`` costs.

A sync of a file takes some 0.2 ms. A task, two futures and a context around it took as much again.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Final

Work = Callable[[], None]
Done = Callable[[Exception | None], None]

THREADS_MAX: Final = 8
"""Threads of the process; further work waits for one of them."""
SWITCH_S: Final = 0.0002
"""A thread that has done its work waits no longer than this for a busy loop to let it tell so;
Python's own 5 ms are many times what a sync takes."""


class Threads:
    """Threads that are started when all others are busy, and stay."""

    def __init__(self, threads_max: int = THREADS_MAX) -> None:
        self._threads_max = threads_max
        self._waiting: SimpleQueue[tuple[Work, Done, asyncio.AbstractEventLoop]] = SimpleQueue()
        self._lock = threading.Lock()
        self._threads = 0
        self._under_way = 0

    def run(self, work: Work, done: Done) -> None:
        """Do it in a thread; ``done`` is called in the loop with None or the error that it met.

        When the loop is closed before, nobody is told.
        """
        with self._lock:
            self._under_way += 1
            more = self._threads < min(self._under_way, self._threads_max)
            self._threads += more
        if more:
            sys.setswitchinterval(SWITCH_S)
            name = f"penstock-work-{self._threads}"
            threading.Thread(target=self._work, name=name, daemon=True).start()
        self._waiting.put((work, done, asyncio.get_running_loop()))

    def _work(self) -> None:
        while True:
            work, done, loop = self._waiting.get()
            error = _outcome(work)
            with self._lock:
                self._under_way -= 1
            try:
                loop.call_soon_threadsafe(done, error)
            except RuntimeError:
                assert loop.is_closed()
            del work, done, loop, error  # a thread that waits keeps nothing alive


def run_here(work: Work, done: Done) -> None:
    """Do it now, as ``Threads.run`` does elsewhere."""
    done(_outcome(work))


def _outcome(work: Work) -> Exception | None:
    """None, or the error that it met."""
    try:
        work()
    except Exception as error:
        return error
    return None


_shared = Threads()
run = _shared.run
"""Run work in the threads of the process."""
