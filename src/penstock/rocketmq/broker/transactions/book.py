"""Open transactions, and those outcomes of ended ones that still matter; no I/O.

A transaction is known by its root: the offset, in the queue of half messages, at which its half
message was stored first. Each check stores a copy of it at a new offset, which is the newest half
of the same root. The book covers the window ``[first, end)`` of the queue; every half below
``first`` is settled: its transaction has ended, or has a newer half. So what the book holds is
bounded by the window, and the window by ``WINDOW_MAX``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

WINDOW_MAX: Final = 500_000
"""Half messages that may be open at once, or stand behind one that is."""
RECENT_MAX: Final = 16_384
"""The number of ended transactions remembered beyond the window, to answer repetitions."""


class Outcome(StrEnum):
    """The outcome of a transaction. One that was given up may still be committed or rolled back."""

    COMMIT = "commit"
    ROLLBACK = "rollback"
    GIVE_UP = "give up"


@dataclass(slots=True)
class Decision:
    """The outcome of one transaction.

    ``half`` is the offset of the half that it was made for, ``op`` that of the op message which
    records it, -1 until that is stored, which will not be below ``op_min``. ``done`` says that all
    has been done that it asks for.
    """

    outcome: Outcome
    half: int
    op: int = -1
    done: bool = False
    op_min: int = 0


class TransactionBook:
    """The transactions of one queue of half messages."""

    def __init__(self, first: int) -> None:
        self.first = first
        self._decided: dict[int, Decision] = {}  # by root; in the order of their op messages
        self._recent: dict[int, Outcome] = {}
        self._root_of: dict[int, int] = {}  # of copies in the window
        self._newest: dict[int, int] = {}  # by root, where there is a copy in the window

    # --- asking --------------------------------------------------------------------------------

    def root_of(self, offset: int) -> int:
        """The root of a half in the window."""
        return self._root_of.get(offset, offset)

    def newest(self, root: int) -> int:
        """The newest half of a transaction."""
        return self._newest.get(root, root)

    def decision(self, root: int) -> Decision | None:
        """The decision on a transaction while a half of it is in the window, if there is one."""
        return self._decided.get(root)

    def outcome(self, root: int) -> Outcome | None:
        """The outcome of a transaction; None while it is open, or if that is forgotten."""
        found = self._decided.get(root)
        return found.outcome if found is not None else self._recent.get(root)

    def is_forgotten(self, root: int) -> bool:
        """True if a transaction's outcome is forgotten, as it ended long ago."""
        return self.newest(root) < self.first and root not in self._recent

    def is_open(self, offset: int) -> bool:
        """True for the newest half of an open transaction, unless it has left the window."""
        root = self.root_of(offset)
        is_newest = offset >= self.first and self.newest(root) == offset
        return is_newest and self.outcome(root) is None

    def undone(self) -> Iterator[tuple[int, Decision]]:
        """Roots and decisions that something is left to do for."""
        return ((root, each) for root, each in self._decided.items() if not each.done)

    # --- changing ------------------------------------------------------------------------------

    def copied(self, root: int, offset: int) -> None:
        """A newer half of a transaction was stored."""
        self._root_of[offset] = root
        if offset > self.newest(root):
            self._newest[root] = offset

    def decide(self, root: int, decision: Decision) -> Decision | None:
        """A transaction ends; one that was given up may end once more. What was decided before."""
        # Popped first, so that a second outcome goes to the end: first_op relies on the order of op
        # messages.
        before = self._decided.pop(root, None)
        self._decided[root] = decision
        return before

    def finish(self, root: int) -> None:
        """All has been done that an outcome asks for."""
        decision = self._decided[root]
        decision.done = True
        if self.newest(root) < self.first:
            self._forget(root, decision)

    def undecide(self, root: int, before: Decision | None) -> None:
        """The outcome could not be recorded: all is as before."""
        del self._decided[root]
        if before is not None:
            self._decided[root] = before

    def lose(self, offset: int) -> None:
        """A half in the window cannot be read any more."""
        if self.is_open(offset):
            self.decide(self.root_of(offset), Decision(Outcome.GIVE_UP, offset, done=True))

    def remember(self, root: int, outcome: Outcome) -> None:
        """Remember the outcome of a transaction that has left the window."""
        # Popped first, so that the one that is dropped below is the one remembered longest ago.
        self._recent.pop(root, None)
        self._recent[root] = outcome
        if len(self._recent) > RECENT_MAX:
            del self._recent[next(iter(self._recent))]

    def advance(self, end: int) -> bool:
        """Move the window's start past settled transactions. Returns True if it moved."""
        start = self.first
        while self.first < end:
            root = self.root_of(self.first)
            if self.newest(root) <= self.first:
                decision = self._decided.get(root)
                # Everything behind an open half waits with it: the window is one offset, as Java's
                # group has one (RocketMQ spec 4.7).
                if not self._is_settled(root, decision):
                    break
                if decision is not None:
                    self._forget(root, decision)
            self._root_of.pop(self.first, None)
            self.first += 1
        return self.first != start

    def _is_settled(self, root: int, decision: Decision | None) -> bool:
        """True if nothing is left to do. Without a decision that is so where earlier versions have
        stored a copy of a half although its transaction had ended.
        """
        return root in self._recent if decision is None else decision.done

    def _forget(self, root: int, decision: Decision) -> None:
        del self._decided[root]
        self._newest.pop(root, None)
        self.remember(root, decision.outcome)

    def first_op(self, end: int) -> int:
        """An offset; no op message below it records a decision in the window; at most ``end``."""
        for each in self._decided.values():
            if each.op >= 0:
                return min(each.op, end)
            if not each.done:  # its op may be stored although no answer came
                return min(each.op_min, end)
        return end
