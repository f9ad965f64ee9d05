"""Budgets for the memory that all connections of a process hold together.

One budget is for incomplete requests, one for unsent answers. Each connection has a share of both,
which it updates once per read or write, not once per message. When a budget is used up, HTTP
refuses with 503. A connection of a protocol without such a refusal gets backpressure instead: it is
not read from until its turn comes (``MemoryQueue``). The first in line may exceed the budget, so
that there is always one that can complete its request and release its memory.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, NamedTuple

from penstock.core.settings.web_options import WebOptions

SMALL: Final = 64 * 1024
"""Bytes that a connection may always hold, so that small requests and answers always succeed."""
STALL_S: Final = 10.0
"""Seconds that a connection may hold much and do little while others wait."""
UNREAD_S: Final = 60.0
"""Seconds that a client may read none of its answers while others wait for their room."""
_READ: Final = 256 * 1024
"""The most bytes that one read brings."""
_NEW: Final = -1


class Budget:
    """The bytes that connections hold, and their limit; 0: any number."""

    __slots__ = ("flag", "limit", "refused", "used")

    def __init__(self, flag: str, limit: int) -> None:
        self.flag = flag
        self.limit = limit
        self.used = 0
        self.refused = 0
        """Requests that were answered 503, or had to wait."""

    def has_room(self, nbytes: int) -> bool:
        """True if this many more bytes fit."""
        # What is larger than the whole budget goes through alone; it would wait for ever.
        return not self.limit or not self.used or self.used + nbytes <= self.limit

    @property
    def is_full(self) -> bool:
        return 0 < self.limit < self.used

    @property
    def is_used_up(self) -> bool:
        """True if there is no room for more."""
        return 0 < self.limit <= self.used


class MemoryShare:
    """The part of a budget that one connection holds."""

    __slots__ = ("budget", "held")

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self.held = 0

    def hold(self, nbytes: int) -> bool:
        """Set the bytes that the connection holds; True if it may hold more."""
        budget = self.budget
        budget.used += nbytes - self.held
        self.held = nbytes
        # The last: nobody else holds any, so to wait would help nobody.
        return nbytes <= SMALL or not budget.is_full or budget.used == nbytes


class MemoryQueue:
    """The queue of connections that are not read from until there is room; ``first`` never
    waits.
    """

    def __init__(self, budget: Budget, stall_s: float = STALL_S) -> None:
        self.budget = budget
        self._stall_s = stall_s
        self.first: MemoryTurn | None = None
        # A dict for its order: the first to wait goes on first, and whoever leaves costs O(1).
        self._waiting: dict[MemoryTurn, None] = {}
        self._held: dict[MemoryTurn, int] = {}  # bytes at the last look, if more than SMALL
        self._watch: asyncio.TimerHandle | None = None

    @property
    def is_idle(self) -> bool:
        """True while nobody waits, and nobody holds more than a little."""
        return not self._held and self.first is None and not self._waiting

    def wait(self, share: MemoryTurn) -> None:
        """Put the connection in the queue; it is read from again when its turn comes."""
        self.budget.refused += 1
        self._waiting[share] = None
        share.waits = True
        if self._watch is None:
            self._look_later()

    def forget(self, share: MemoryTurn) -> None:
        """Take the connection out of the queue."""
        self._waiting.pop(share, None)
        share.waits = False
        if self.first is share:
            self.first = None

    def pass_on(self) -> None:
        """Resume the connections for which there is room, or else the one that waited longest."""
        room = (self.budget.limit - self.budget.used) // _READ
        while self._waiting and (room > 0 or self.first is None):
            share = next(iter(self._waiting))
            del self._waiting[share]
            share.waits = False
            self._held[share] = _NEW
            if room > 0:
                room -= 1
            else:
                self.first = share
            share.go_on()

    def changed(self, share: MemoryTurn, before: int) -> None:
        """Note that a connection holds more than before, or less because a request is complete."""
        if share.held <= SMALL:
            self._held.pop(share, None)
        elif not SMALL < before <= share.held:
            self._held[share] = _NEW

    def _look(self) -> None:
        """End connections that hold memory and sent little since the last look; others wait."""
        late = [
            share
            for share, held in self._held.items()
            if not share.waits and held != _NEW and share.held - held < SMALL
        ]
        if not self._looks_late():  # then it is us who did not read
            for share in late:
                share.give_up()
            if self.first in late:  # it was left alone, as it waits for something else
                self.first = None
        self.pass_on()  # HTTP gives back without a word
        self._watch = None
        if self._waiting:
            self._look_later()

    def _look_later(self) -> None:
        self._held = {share: share.held for share in self._held}
        self._watch = asyncio.get_running_loop().call_later(self._stall_s, self._look)

    def _looks_late(self) -> bool:
        """True if this process was held up itself."""
        if self._watch is None:
            return False
        return asyncio.get_running_loop().time() - self._watch.when() > self._stall_s / 4


class MemoryTurn(MemoryShare):
    """The share of a connection that waits for its turn when the budget is used up.

    ``go_on`` resumes reading from it. ``give_up`` ends it because it stalls while others wait.
    """

    __slots__ = ("_turns", "give_up", "go_on", "waits")

    def __init__(
        self, turns: MemoryQueue, go_on: Callable[[], None], give_up: Callable[[], None]
    ) -> None:
        super().__init__(turns.budget)
        self._turns = turns
        self.waits = False
        """True while nothing may be read; ``go_on`` ends this."""
        self.go_on = go_on
        self.give_up = give_up

    def hold(self, nbytes: int) -> bool:
        """Set the bytes that the connection holds; False if it must wait and not be read from."""
        turns, before = self._turns, self.held
        if nbytes <= SMALL and turns.is_idle:
            turns.budget.used += nbytes - before
            self.held = nbytes
            return True
        was_first = turns.first is self
        has_room = super().hold(nbytes)
        turns.changed(self, before)
        if self.waits or nbytes <= SMALL or nbytes < before:
            turns.forget(self)
        if nbytes < before or (was_first and turns.first is None):
            turns.pass_on()
        if not has_room and turns.first is None:
            turns.first = self
        if has_room or turns.first is self:
            return True
        turns.wait(self)
        return False

    def try_take(self) -> bool:
        """Begin something large whose size is not known yet; False if the connection must wait
        until ``go_on`` is called.
        """
        turns = self._turns
        if not self.waits and turns.budget.is_used_up and turns.first is not self:
            if turns.first is not None:
                turns.wait(self)
            else:
                turns.first = self
        return not self.waits

    def close(self) -> None:
        """Release the share when the connection has ended."""
        self.hold(0)
        self.go_on = self.give_up = _nothing  # or each would keep the other, until a collection


def _nothing() -> None:
    """Callback of a connection that has ended: does nothing."""


class Memory(NamedTuple):
    """The two budgets of a process."""

    requests: Budget
    answers: Budget

    @classmethod
    def of(cls, options: WebOptions | None = None) -> Memory:
        """The budgets that the options set."""
        options = options or WebOptions()
        return cls(
            Budget("--max-request-memory", options.max_request_memory),
            Budget("--max-answer-memory", options.max_answer_memory),
        )
