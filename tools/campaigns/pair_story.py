"""The things that the clients of a primary and its copies were told, by any of the nodes."""

from __future__ import annotations

import random
import time
from collections.abc import Hashable, Iterable
from typing import Final, NamedTuple

from penstock.testing.ledger import Ledger, read_body

from .report import say
from .wires import Door

FAULTS_MAX: Final = 50


class Side(NamedTuple):
    """A node while it is primary under an epoch."""

    name: str
    door: Door
    epoch: int


class Told(NamedTuple):
    """An answer: when it came, and in which epoch."""

    at: float
    epoch: int


class Story:
    """The things that clients were told by the nodes of one pair, or of three.

    A place is given once, by whichever node, and again only after a promotion that may lose.
    """

    def __init__(self, rng: random.Random, *, acked: int) -> None:
        """An OK waits for ``acked`` copies."""
        self.rng = rng
        self.acked = acked
        self.ledger = Ledger()
        self.faults: list[str] = []
        self.round = ""
        """What happens to the nodes now."""
        self.oks: dict[int, Told] = {}
        """The acknowledged messages of a round."""
        self.ever: set[int] = set()
        """All that was ever acknowledged."""
        self.said: dict[int, set[str]] = {}
        """The nodes that said OK, by epoch."""
        self.kept: dict[int, float] = {}
        """The moment up to which the copy had everything that was promoted after an epoch."""
        self.losing: set[int] = set()
        """The epochs whose last messages the copy that was promoted then may lack."""
        self.seconds_behind = 0.0
        """The most by which the progress of consumers was behind at a promotion."""
        self.again = 0
        """Messages that came again after a promotion, although they were finished."""
        self._numbers: dict[tuple[int, Hashable], int] = {}

    def acknowledged(self, side: Side, numbers: Iterable[int]) -> None:
        """A node said OK to messages that are in the log."""
        self.said_ok(side, numbers)
        self.oks |= dict.fromkeys(numbers, Told(time.monotonic(), side.epoch))

    def said_ok(self, side: Side, numbers: Iterable[int]) -> None:
        """A node said OK."""
        self.ledger.acknowledge(numbers)
        self.ever.update(numbers)
        said = self.said.setdefault(side.epoch, set())
        said.add(side.name)
        if len(said) > 1:
            self.fault(f"two nodes said OK in epoch {side.epoch}")

    def number_of(self, body: bytes) -> int | None:
        """The number of a message; None, and a fault, for one that nobody sent."""
        number = read_body(body)
        if number is None or number >= self.ledger.report().attempted:
            self.fault(f"nobody sent the message {body[:40]!r}")
            return None
        return number

    def take_place(self, epoch: int, place: Hashable, number: int) -> None:
        """A message has this place, which no other may have."""
        known = self._numbers.setdefault((self._series(epoch), place), number)
        if known != number:
            self.fault(f"{place} is the place of the messages {known} and {number}")

    def at_place(self, epoch: int, place: Hashable) -> int | None:
        """The number of the message that was said to have this place."""
        return self._numbers.get((self._series(epoch), place))

    def _series(self, epoch: int) -> int:
        return sum(each < epoch for each in self.losing)

    def ended(self, epoch: int, kept: float, *, may_lose: bool) -> None:
        """An epoch is over: the next primary has all that was acknowledged before ``kept``, or, if
        it may not lose any, all.
        """
        self.kept[epoch] = min(kept, self.kept.get(epoch, kept))
        if may_lose:
            self.losing.add(epoch)

    def is_late(self, told: Told) -> bool:
        """True if a message was acknowledged after the copy that was promoted then had everything,
        and may be lost.
        """
        return told.epoch in self.losing and told.at >= self.kept[told.epoch]

    def __str__(self) -> str:
        return f"N={self.acked}, {self.ledger.report()}, {len(self.faults)} faults"

    def fault(self, what: str) -> None:
        """Note a fault, once; of very many those that came first."""
        text = f"{self.round}: {what}" if self.round else what
        if text not in self.faults and len(self.faults) < FAULTS_MAX:
            self.faults.append(text)
            say(f"fault: {text}")
