"""The followers of a node and how far each of them is, by what it said when it asked last."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from penstock.core.clock import Clock
from penstock.core.units import SECOND
from penstock.storage.log import Log

Place = tuple[str, int]
"""A topic, and the identity of its log."""

FOLLOWS_NS: Final = 3 * SECOND
"""A follower asks at least once a second. One that has not for this long does not follow."""
FOLLOWERS_MAX: Final = 100


class _Follower(NamedTuple):
    """The ends of a follower's logs, when it asked last."""

    asked_ns: int
    ends: Mapping[Place, int]


class Followers:
    """The nodes that follow now, for whoever waits for them.

    ``changed`` are called when a follower has more, has come or gone. ``ask`` makes the requests
    that wait for news be answered now; whoever answers them sets it.
    """

    def __init__(self, clock: Clock) -> None:
        self.changed: list[Callable[[], None]] = []
        self.ask: Callable[[], None] = lambda: None
        self._clock = clock
        self._known: dict[str, _Follower] = {}

    def __len__(self) -> int:
        return len(self._known)

    def heard(self, address: str, ends: Mapping[Place, int]) -> None:
        """Note how far a follower is. Those who follow keep their place when there are too many."""
        if address not in self._known and len(self._known) >= FOLLOWERS_MAX:
            return
        self._known[address] = _Follower(self._clock.monotonic_ns(), ends)
        self._tell()

    def gone(self, address: str) -> None:
        """Forget a follower that has closed its connection."""
        if self._known.pop(address, None) is not None:
            self._tell()

    def forget_silent(self, now: int) -> None:
        """Forget those that have not asked for too long."""
        silent = [a for a, each in self._known.items() if now - each.asked_ns > FOLLOWS_NS]
        for address in silent:
            self.gone(address)

    def copied(self, name: str, log: Log, count: int = 1) -> int:
        """The offset up to which at least ``count`` followers have a log."""
        place = name, log.id_base
        # The ``count``-th largest end: that number of followers is there or further.
        ends = sorted((each.ends.get(place, 0) for each in self._known.values()), reverse=True)
        # Never beyond our own end, whatever a follower says.
        return min(ends[count - 1], log.append_offset) if len(ends) >= count else 0

    def copied_by(self, addresses: Iterable[str], name: str, log: Log) -> int:
        """The offset up to which all of these followers have a log."""
        place, found = (name, log.id_base), [self._known.get(each) for each in addresses]
        ends = [0 if each is None else each.ends.get(place, 0) for each in found]
        return min([*ends, log.append_offset])

    def count(self, addresses: Iterable[str]) -> int:
        """The number of these that follow."""
        return sum(each in self._known for each in addresses)

    def has_all(self, address: str, logs: Iterable[tuple[str, Log]]) -> bool:
        """True if a follower has all that can be read of these logs."""
        known = self._known.get(address)
        return known is not None and all(
            known.ends.get((name, log.id_base), 0) >= log.next_offset
            for name, log in logs
            if log.next_offset > log.start_offset
        )

    def _tell(self) -> None:
        for each in self.changed:
            each()
