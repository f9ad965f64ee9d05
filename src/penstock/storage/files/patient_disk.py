"""A disk that may hang without the event loop: its writes are made in a thread, with patience.

A write to a file system that is frozen, or whose device does not answer, returns when the disk
answers again, and nothing ends it before. So the loop hands a write to a thread and waits for it,
as a disk that is well answers in microseconds. When that takes longer than ``PATIENCE_S``, the loop
goes on: the write counts as failed, and what it leaves behind the end of the file is cut off by the
thread. Until then whatever would touch the disk is refused with a DiskHangsError.

The way to the thread and back takes as long as a publish that comes alone, and a busy node's
clients need the processor. So the loop itself makes writes of up to ``SMALL_BYTES`` that follow one
another within ``BUSY_NS``, and what is rare, as opening a file. A disk that hangs then holds the
loop up, and ``penstock.net.vitals.stand_in`` answers for it meanwhile.

Between ``watch`` and ``rest`` only the loop's thread is spared; other threads wait for themselves.
"""

from __future__ import annotations

import os
import threading
from _thread import LockType, allocate_lock
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, Final

from penstock.core.clock import SYSTEM_CLOCK
from penstock.core.errors import DiskHangsError
from penstock.core.units import MILLISECOND, SECOND
from penstock.storage.files.disk import LogFile, OsDisk, OsLogFile

PATIENCE_S: Final = 0.25
"""The time that the loop waits for a write."""
BUSY_NS: Final = 5 * MILLISECOND
SMALL_BYTES: Final = 256 * 1024
LOOK_NS: Final = SECOND
"""The time without a write after which the disk is looked at when somebody asks how it is."""
SILENT_NS: Final = 2 * SECOND
"""The time after which a disk that does not answer is a fault."""


class Hand:
    """A thread that works for the one that made it, which stays only as long as patience lasts."""

    def __init__(self) -> None:
        self.answers: list[Callable[[], None]] = []
        """Called in the thread when work that nobody waited for any more has ended."""
        self.last_ns = 0
        """The time of the last work that ended."""
        self.small_ns = 0
        """The time of the last small write that the loop has asked for."""
        self.held_up_since_ns = 0
        """The time since which the loop itself writes; 0 while it does not."""
        self._owner = 0
        self._began_ns: int | None = None
        """The time since which work hangs; None while none does."""
        self._go, self._done, self._deciding = allocate_lock(), allocate_lock(), allocate_lock()
        self._ended = threading.Condition(self._deciding)
        """Notified when work that nobody waited for any more has ended."""
        self._work: Callable[[], Any] = _nothing
        self._undo: list[Callable[[], object]] = []
        """Work behind the work that nobody waits for any more."""
        self._outcome: tuple[Any, BaseException | None] = None, None
        self._is_left = False
        self._thread: threading.Thread | None = None

    def watch(self) -> None:
        """Spare the thread that calls this, from now on."""
        self._owner = threading.get_ident()

    def rest(self) -> None:
        """Spare nobody any more, and let the thread end."""
        with self._deciding:
            self._owner = 0
            # A thread whose work hangs sees it when that has ended.
            if self._thread is not None and not self._is_left:
                self._thread = None
                self._go.release()

    @property
    def spares(self) -> bool:
        """True in the thread that is spared."""
        return self._owner != 0 and threading.get_ident() == self._owner

    @property
    def hangs_ns(self) -> int:
        """The time for which the work under way has hung; 0 if none does."""
        began_ns = self._began_ns
        return 0 if began_ns is None else max(1, SYSTEM_CLOCK.monotonic_ns() - began_ns)

    def held_up_ns(self) -> int:
        """The time that a write of the loop has taken; 0 while it does not write."""
        since_ns = self.held_up_since_ns
        return SYSTEM_CLOCK.monotonic_ns() - since_ns if since_ns else 0

    def check(self, path: str) -> None:
        """Raise DiskHangsError while work hangs."""
        if self._began_ns is not None:
            raise self.hangs(path)

    @contextmanager
    def held_up(self, path: str) -> Iterator[None]:
        """Let the loop itself work for as long as that takes; other threads as they like.

        Raises DiskHangsError while work hangs.
        """
        if not self.spares:
            yield
            return
        self.check(path)
        before_ns = self.held_up_since_ns
        self.held_up_since_ns = before_ns or SYSTEM_CLOCK.monotonic_ns()
        try:
            yield
        finally:
            self.held_up_since_ns = before_ns

    def wait(self) -> None:
        """Wait until nothing hangs, in a thread that is not spared: what is left behind the end of
        a file is cut off then.
        """
        if self._began_ns is not None:
            with self._ended:
                self._ended.wait_for(lambda: self._began_ns is None)

    def leave(self, work: Callable[[], object]) -> bool:
        """Do it behind the work that hangs; False if none does, and nothing is done."""
        with self._deciding:
            if self._is_left:
                self._undo.append(work)
            return self._is_left

    def hangs(self, path: str) -> DiskHangsError:
        """The error of a disk that hangs."""
        seconds = max(self.hangs_ns, self.held_up_ns()) / SECOND
        return DiskHangsError(f"{path}: the disk has not answered for {seconds:.1f} s")

    def do(
        self,
        path: str,
        work: Callable[[], Any],
        undo: Callable[[], object],
        patience_s: float = PATIENCE_S,
    ) -> Any:
        """The result of the work, or the error that it met. Raises DiskHangsError when patience
        ends; ``undo`` is done behind the work then.
        """
        self.check(path)
        if self._thread is None:
            self._start()
        began_ns = SYSTEM_CLOCK.monotonic_ns()
        self._work, self._undo = work, [undo]
        self._go.release()
        if not self._done.acquire(timeout=patience_s):
            with self._deciding:
                # It may have ended just now.
                if not self._done.acquire(blocking=False):
                    self._is_left, self._began_ns = True, began_ns
                    raise self.hangs(path)
        self.last_ns = began_ns
        result, error = self._outcome
        if error is not None:
            self._outcome = None, None
            raise error
        return result

    def _start(self) -> None:
        self._go, self._done = allocate_lock(), allocate_lock()
        self._go.acquire()
        self._done.acquire()
        work = partial(self._run, self._go, self._done)
        self._thread = threading.Thread(target=work, name="penstock-disk", daemon=True)
        self._thread.start()

    def _run(self, go: LockType, done: LockType) -> None:
        me = threading.current_thread()
        while go.acquire() and self._thread is me:
            try:
                self._outcome = self._work(), None
            except BaseException as error:
                self._outcome = None, error
            # With the work go the bytes that it has written.
            self._work = _nothing
            with self._deciding:
                if not self._is_left:
                    done.release()
                    continue
            self._end_left()

    def _end_left(self) -> None:
        """End work that nobody waited for any more."""
        while not self._is_forgotten():
            with suppress(Exception):  # whoever writes next meets it
                self._undo.pop(0)()
        for each in self.answers:
            each()

    def _is_forgotten(self) -> bool:
        """Forget the work that was left, unless there is more to be done behind it."""
        with self._ended:
            if self._undo:
                return False
            self._outcome = None, None
            self.last_ns = SYSTEM_CLOCK.monotonic_ns()
            if not self._owner:
                self._thread = None
                self._go.release()
            self._is_left, self._began_ns = False, None
            self._ended.notify_all()
            return True


def _nothing() -> None:
    return None


class PatientFile(OsLogFile):
    """A file whose writes the loop does not wait for longer than patience lasts."""

    def __init__(self, path: str, hand: Hand) -> None:
        super().__init__(path)
        self._hand = hand

    def write(self, position: int, data: bytes | memoryview) -> int:
        hand = self._hand
        if not hand.spares:
            hand.wait()
            return super().write(position, data)
        if len(data) <= SMALL_BYTES:
            now, before_ns = SYSTEM_CLOCK.monotonic_ns(), hand.small_ns
            hand.small_ns = now
            if now - before_ns < BUSY_NS and not hand.hangs_ns:
                hand.held_up_since_ns = now
                try:
                    return super().write(position, data)
                finally:
                    hand.held_up_since_ns = 0
                    hand.last_ns = now
        size, write = self.size, super().write
        return int(hand.do(self.path, lambda: write(position, data), lambda: self._cut(size)))

    def _cut(self, size: int) -> None:
        """Cut off what a write has left that nobody waited for."""
        # Whole batches there would pass for published at the next start.
        super().truncate(size)

    def sync(self) -> None:
        with self._hand.held_up(self.path):
            super().sync()

    def rewrite(self, position: int) -> None:
        with self._hand.held_up(self.path):
            super().rewrite(position)

    def close(self) -> None:
        # A write that hangs needs the file until it ends.
        if not (self._hand.spares and self._hand.leave(super().close)):
            super().close()


class PatientDisk(OsDisk):
    """The real file system, whose writes are made by a hand."""

    def __init__(self) -> None:
        self.hand = Hand()
        self._looked_ns = 0

    def open(self, path: str) -> LogFile:
        with self.hand.held_up(path):
            return PatientFile(path, self.hand)

    def make_directory(self, path: str) -> None:
        with self.hand.held_up(path):
            super().make_directory(path)

    def remove(self, path: str) -> None:
        with self.hand.held_up(path):
            super().remove(path)

    def remove_tree(self, path: str) -> None:
        with self.hand.held_up(path):
            super().remove_tree(path)

    def replace_file(self, path: str, *data: bytes | memoryview, sync: bool = True) -> None:
        with self.hand.held_up(path):
            super().replace_file(path, *data, sync=sync)

    def rename(self, path: str, target: str) -> None:
        with self.hand.held_up(path):
            super().rename(path, target)

    def sync_directory(self, path: str) -> None:
        with self.hand.held_up(path):
            super().sync_directory(path)

    def problem(self, path: str) -> DiskHangsError | None:
        """The error of a disk that has not answered for ``SILENT_NS``; else None.

        One that was not written to lately is looked at, by giving the directory a new time, so that
        the next who asks is told.
        """
        hand = self.hand
        hangs_ns = max(hand.hangs_ns, hand.held_up_ns())
        if hangs_ns:
            return None if hangs_ns < SILENT_NS else hand.hangs(path)
        now = SYSTEM_CLOCK.monotonic_ns()
        if hand.spares and now - max(hand.last_ns, self._looked_ns) >= LOOK_NS:
            self._looked_ns = now
            with suppress(DiskHangsError, OSError):
                hand.do(path, lambda: os.utime(path), _nothing, 0.02)
        return None
