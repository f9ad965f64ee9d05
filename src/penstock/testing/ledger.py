"""The ledger: what was published, what was acknowledged, what was delivered, and what that proves.

Every test of durability ends with one question: is each acknowledged message found, and nothing
else? A test takes numbers from the ledger, publishes the bodies made of them, notes the numbers
whose OK came back, and shows the ledger every body a consumer received. A number costs two bytes,
so that ten million messages fit into 20 MB.

A body is 16 hexadecimal digits of the number, then a filler derived from it up to the wanted size:
a damaged or mixed-up body is noticed, and counts as invented.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

NUMBER_BYTES = 16
_ATTEMPTED = 1
_ACKNOWLEDGED = 2
_SEEN_MAX = 255


@dataclass(frozen=True, slots=True)
class Report:
    """Counts of messages. ``lost`` and ``invented`` must be zero; duplicates are legal in NSQ."""

    attempted: int
    acknowledged: int
    seen: int
    lost: int
    invented: int
    duplicates: int
    unacknowledged_seen: int

    def __str__(self) -> str:
        return (
            f"attempted {self.attempted}, acknowledged {self.acknowledged}, seen {self.seen}, "
            f"lost {self.lost}, invented {self.invented}, duplicates {self.duplicates}, "
            f"seen without acknowledgement {self.unacknowledged_seen}"
        )


def make_body(number: int, size: int = NUMBER_BYTES) -> bytes:
    """The body of this number, ``size`` bytes long (16 at least)."""
    digits = b"%016x" % number
    if size <= NUMBER_BYTES:
        return digits
    return (digits + _filler(number) * (size // 8))[:size]


def _filler(number: int) -> bytes:
    """Eight bytes that differ between neighbouring numbers (Knuth's multiplicative hash)."""
    return (number * 0x9E3779B97F4A7C15 & 0xFFFFFFFFFFFFFFFF).to_bytes(8, "big")


def read_body(body: bytes) -> int | None:
    """The number of a body made by ``make_body``; None when it is not one or was damaged."""
    try:
        number = int(body[:NUMBER_BYTES], 16)
    except ValueError:
        return None
    return number if body == make_body(number, len(body)) else None


class Ledger:
    """Numbers from 0 upwards, with what happened to each. Not thread-safe."""

    def __init__(self) -> None:
        self._next = 0
        self._state: npt.NDArray[np.uint8] = np.zeros(1024, np.uint8)
        self._seen: npt.NDArray[np.uint8] = np.zeros(1024, np.uint8)
        self._sightings = 0
        self._invented = 0

    def attempt(self, count: int = 1) -> range:
        """Take the next ``count`` numbers; they may reach the broker from now on."""
        numbers = range(self._next, self._next + count)
        self._next += count
        while self._next > len(self._state):
            self._state = np.concatenate([self._state, np.zeros_like(self._state)])
            self._seen = np.concatenate([self._seen, np.zeros_like(self._seen)])
        self._state[numbers.start : numbers.stop] |= _ATTEMPTED
        return numbers

    def acknowledge(self, numbers: Iterable[int]) -> None:
        """The broker said OK for these: from now on they must not be lost."""
        if isinstance(numbers, range) and numbers.step == 1:
            self._check(numbers)
            self._state[numbers.start : numbers.stop] |= _ACKNOWLEDGED
            return
        for number in numbers:
            self._check(range(number, number + 1))
            self._state[number] |= _ACKNOWLEDGED

    def _check(self, numbers: range) -> None:
        if numbers.start < 0 or numbers.stop > self._next:
            raise ValueError(f"numbers {numbers} were never attempted")

    def see(self, body: bytes) -> bool:
        """Note one delivery; False when the body is not one of this ledger's."""
        self._sightings += 1
        number = read_body(body)
        if number is None or number >= self._next:
            self._invented += 1
            return False
        # A byte must not wrap; duplicates are counted by the sum of sightings, not by these.
        if self._seen[number] < _SEEN_MAX:
            self._seen[number] += 1
        return True

    def outstanding(self) -> int:
        """The number of acknowledged messages that have not been seen yet."""
        return int(np.count_nonzero(self._unseen()))

    def lost(self, limit: int = 20) -> list[int]:
        """The first numbers acknowledged but never seen."""
        return [int(number) for number in np.flatnonzero(self._unseen())[:limit]]

    def _unseen(self) -> npt.NDArray[np.bool_]:
        unseen: npt.NDArray[np.bool_] = self._acknowledged() & (self._seen[: self._next] == 0)
        return unseen

    def _acknowledged(self) -> npt.NDArray[np.bool_]:
        acknowledged: npt.NDArray[np.bool_] = (self._state[: self._next] & _ACKNOWLEDGED) != 0
        return acknowledged

    def report(self) -> Report:
        """The balance so far."""
        acknowledged = self._acknowledged()
        seen = self._seen[: self._next] != 0
        distinct = int(np.count_nonzero(seen))
        return Report(
            attempted=self._next,
            acknowledged=int(np.count_nonzero(acknowledged)),
            seen=distinct,
            lost=self.outstanding(),
            invented=self._invented,
            duplicates=self._sightings - self._invented - distinct,
            unacknowledged_seen=int(np.count_nonzero(seen & ~acknowledged)),
        )
