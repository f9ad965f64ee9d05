"""How much memory the connections of a process may hold together.

One budget is for requests that are not complete, one for answers that are not sent. Each connection
has a share of both; what it holds is told once a read or a write, not once a message. When a budget
is used up, HTTP refuses with 503. Connections that cannot refuse are not read from any more: they
wait for their turn (`Turns`), and the first of them may go on whatever it takes, so that there is
always one which can complete its request and give back what it holds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, NamedTuple

from penstock.core.web_options import WebOptions

SMALL: Final = 64 * 1024
"""What a connection may hold whatever others do, so that small requests and answers always go."""
STALL_S: Final = 10.0
"""So long a connection may hold much and do little while others wait."""
_READ: Final = 256 * 1024
"""What one read may bring."""
_NEW: Final = -1


class Budget:
    """Bytes that connections hold, and the most that they should; 0: any number."""

    __slots__ = ("flag", "limit", "refused", "used")

    def __init__(self, flag: str, limit: int) -> None:
        self.flag = flag
        self.limit = limit
        self.used = 0
        self.refused = 0
        """Requests that were answered 503, or had to wait."""

    def has_room(self, nbytes: int) -> bool:
        """Whether so many bytes may come on top."""
        return not self.limit or not self.used or self.used + nbytes <= self.limit

    @property
    def is_full(self) -> bool:
        return 0 < self.limit < self.used


class Share:
    """What one connection holds of a budget."""

    __slots__ = ("budget", "held")

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self.held = 0

    def hold(self, nbytes: int) -> bool:
        """The connection holds so many bytes now; whether it may hold more."""
        budget = self.budget
        budget.used += nbytes - self.held
        self.held = nbytes
        return nbytes <= SMALL or not budget.is_full or budget.used == nbytes


class Turns:
    """Connections that wait until they are read from again, in order; `first` need not wait."""

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self.first: TurnShare | None = None
        self._waiting: dict[TurnShare, None] = {}
        self._held: dict[TurnShare, int] = {}  # by those with more than little, at the last look
        self._watch: asyncio.TimerHandle | None = None

    def wait(self, share: TurnShare) -> None:
        """Have the connection read from again when it is its turn."""
        self.budget.refused += 1
        self._waiting[share] = None
        share.waits = True
        if self._watch is None:
            self._look_later()

    def forget(self, share: TurnShare) -> None:
        """The connection needs no turn now."""
        self._waiting.pop(share, None)
        share.waits = False
        if self.first is share:
            self.first = None

    def pass_on(self) -> None:
        """Let those go on for whom there is room, or the one that has waited longest."""
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

    def changed(self, share: TurnShare, before: int) -> None:
        """A connection holds more than before; or less, as it has completed something."""
        if share.held <= SMALL:
            self._held.pop(share, None)
        elif not SMALL < before <= share.held:
            self._held[share] = _NEW

    def _look(self) -> None:
        """While some wait, end those of the others of whom little has come since the last look."""
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
        self._watch = asyncio.get_running_loop().call_later(STALL_S, self._look)

    def _looks_late(self) -> bool:
        """Whether this process was held up itself."""
        if self._watch is None:
            return False
        return asyncio.get_running_loop().time() - self._watch.when() > STALL_S / 4


class TurnShare(Share):
    """A share of a connection that waits for its turn when the budget is used up.

    `go_on` has it read from again. `give_up` ends it: it holds up others, and nothing comes.
    """

    __slots__ = ("_turns", "give_up", "go_on", "waits")

    def __init__(
        self, turns: Turns, go_on: Callable[[], None], give_up: Callable[[], None]
    ) -> None:
        super().__init__(turns.budget)
        self._turns = turns
        self.waits = False
        """Nothing may be read now; `go_on` says when."""
        self.go_on = go_on
        self.give_up = give_up

    def hold(self, nbytes: int) -> bool:
        """The connection holds so many bytes now; whether it may be read from, or must wait."""
        turns, before = self._turns, self.held
        has_room = super().hold(nbytes)
        turns.changed(self, before)
        if self.waits or nbytes <= SMALL or nbytes < before:
            turns.forget(self)
        if nbytes < before:
            turns.pass_on()
        if not has_room and turns.first is None:
            turns.first = self
        if has_room or turns.first is self:
            return True
        turns.wait(self)
        return False

    def close(self) -> None:
        """The connection has ended."""
        self.hold(0)
        self.go_on = self.give_up = _nothing  # or each would keep the other, until a collection


def _nothing() -> None:
    """What is left to call after the end."""


class Memory(NamedTuple):
    """The two budgets of a process."""

    requests: Budget
    answers: Budget

    @classmethod
    def of(cls, options: WebOptions | None = None) -> Memory:
        """As the options say."""
        options = options or WebOptions()
        return cls(
            Budget("--max-request-memory", options.max_request_memory),
            Budget("--max-answer-memory", options.max_answer_memory),
        )
