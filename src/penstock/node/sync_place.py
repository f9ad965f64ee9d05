"""The place of a sync: a thread, or the loop while syncs are short.

The way to a thread and back takes longer than the sync of a fast disk. A disk that stalls holds
the loop up once, for as long as patience lasts.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Final

from penstock.core.clock import Clock
from penstock.core.errors import DiskHangsError
from penstock.core.units import MILLISECOND, SECOND
from penstock.net import threads
from penstock.storage.files.patient_disk import Hand

SHORT_NS: Final = MILLISECOND
"""The mean time of syncs up to which they may run in the loop."""
_MEAN_OF: Final = 8  # syncs, about; two threads at once may lose one of them, which does no harm


class SyncPlace:
    """The place where syncs run, which knows how long they take."""

    def __init__(self, clock: Clock, hand: Hand | None = None) -> None:
        self._clock = clock
        self._hand = hand
        self._mean_ns = SECOND  # none is known yet
        self._loop_is_owed = 0  # as long for other things as the last sync in it took: until then

    def run(self, work: threads.Work, done: threads.Done, *, may_wait: bool) -> None:
        """Do it; ``done`` is called in the loop with None or the error that it met: before this
        returns if the loop ``may_wait`` for it, syncs are short, and the loop is not owed time.
        """
        timed = partial(self._run, work)
        began_ns = self._clock.monotonic_ns()
        if may_wait and self._mean_ns <= SHORT_NS and began_ns >= self._loop_is_owed:
            self._run_here(timed, done)
            ended_ns = self._clock.monotonic_ns()
            # So syncs in the loop take half of its time at most.
            self._loop_is_owed = ended_ns + (ended_ns - began_ns)
        else:
            threads.run(timed, done)

    def _run_here(self, work: threads.Work, done: threads.Done) -> None:
        """Do it while the loop waits; if patience ends before, ``done`` is called afterwards."""
        hand = self._hand
        if hand is None or not hand.spares:
            threads.run_here(work, done)
        elif hand.hangs_ns:
            threads.run(work, done)
        else:
            loop, outcome = asyncio.get_running_loop(), list[Exception | None]()
            try:
                hand.do(
                    "sync",
                    lambda: threads.run_here(work, outcome.append),
                    lambda: loop.call_soon_threadsafe(done, outcome[0]),
                )
            except DiskHangsError:
                return  # the hand tells, when it has ended
            done(outcome[0])

    def _run(self, work: threads.Work) -> None:
        began_ns = self._clock.monotonic_ns()
        work()
        took_ns = self._clock.monotonic_ns() - began_ns
        self._mean_ns += (took_ns - self._mean_ns) // _MEAN_OF
