"""A disk in memory that ends the process at a chosen operation."""

from __future__ import annotations

from collections import Counter

from penstock.testing.disk import FaultyDisk, Operation


class Killed(BaseException):
    """kill -9, as far as a test can do it: nothing that would clean up has an effect."""


class KillerDisk(FaultyDisk):
    """Raises Killed at an operation, and at every one behind it until ``crash``.

    ``counts`` says how many of each kind there were.
    """

    def __init__(self, *directories: str) -> None:
        self.counts: Counter[Operation] = Counter()
        super().__init__(*directories)
        self._left: int | None = None

    def kill_at(self, step: int) -> None:
        """Let so many operations pass."""
        self._left = step

    def meet_faults(self, operation: Operation, path: str) -> None:
        self.counts[operation] += 1
        if self._left is not None:
            if self._left == 0:
                raise Killed
            self._left -= 1
        super().meet_faults(operation, path)

    def heal(self) -> None:
        self._left = None
        super().heal()
