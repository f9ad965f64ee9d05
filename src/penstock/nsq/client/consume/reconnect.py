"""The nodes to connect to, and the times of further attempts (client guide, "Reconnection").

A node given directly is tried for ever, with delays that double up to ``lookupd_poll_interval``.
One that nsqlookupd named is tried a few times and then left until nsqlookupd names it again; and so
it is left when its connection ends, because that may be meant: whoever subscribes again makes a
topic that was deleted there. No connection ends because an answer does not name its node.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from penstock.core.chance import Chance
from penstock.core.clock import Clock
from penstock.core.units import MILLISECOND, SECOND
from penstock.nsq.client.config import Config

TRIES = 3
"""Failures in a row after which a node is nsqlookupd's affair again."""
START_MIN = 10 * MILLISECOND
"""The shortest first delay: none, however often doubled, would be attempts without a pause."""
# Consumers that lose a node at the same moment must not all come back at once.
_JITTER = 0.3
# More would only shift large numbers: the delay is bounded anyway.
_DOUBLINGS_MAX = 32


class _Node:
    __slots__ = ("due", "failures", "is_proven")

    def __init__(self, due: int) -> None:
        self.due: int | None = due
        """The time to connect; None while connecting or connected."""
        self.failures = 0
        self.is_proven = False
        """True if the node was there at least once."""


class Reconnect:
    """The addresses of one consumer; times in nanoseconds of the clock, ``start`` in seconds."""

    def __init__(
        self, direct: Sequence[str], config: Config, clock: Clock, chance: Chance, start: float
    ) -> None:
        self._clock = clock
        self._chance = chance
        self._longest = int(config.lookupd_poll_interval * SECOND)
        self._start = max(START_MIN, int(min(start * SECOND, self._longest)))
        self._direct = frozenset(direct)
        self._nodes: dict[str, _Node] = {}
        self.found(direct)

    @property
    def deadline(self) -> int | None:
        """The time at which the next address is due."""
        due = [node.due for node in self._nodes.values() if node.due is not None]
        return min(due, default=None)

    def is_direct(self, address: str) -> bool:
        """True if the address was given, not found."""
        return address in self._direct

    def is_proven(self, address: str) -> bool:
        """True if it was ever connected."""
        return self._nodes[address].is_proven

    def found(self, addresses: Iterable[str]) -> list[str]:
        """Connect to these as well; those that are new."""
        now = self._clock.monotonic_ns()
        new = [address for address in dict.fromkeys(addresses) if address not in self._nodes]
        self._nodes.update((address, _Node(now)) for address in new)
        return new

    def begin(self) -> list[str]:
        """The addresses to connect to now. Each is to be heard of again, by one of those below."""
        now = self._clock.monotonic_ns()
        due = []
        for address, node in self._nodes.items():
            if node.due is not None and node.due <= now:
                node.due = None
                due.append(address)
        return due

    def connected(self, address: str) -> None:
        """The handshake is done."""
        self._nodes[address].failures = 0
        self._nodes[address].is_proven = True

    def failed(self, address: str) -> int | None:
        """The delay of the next attempt after a failed one; None when the node is left alone."""
        node = self._nodes[address]
        node.failures += 1
        if address not in self._direct and node.failures >= TRIES:
            del self._nodes[address]
            return None
        return self._wait(node)

    def lost(self, address: str) -> int | None:
        """The connection is gone: how long until the next attempt, None when it is left alone."""
        if address not in self._direct:
            del self._nodes[address]
            return None
        return self._wait(self._nodes[address])

    def _wait(self, node: _Node) -> int:
        doublings = min(max(0, node.failures - 1), _DOUBLINGS_MAX)
        delay = min(self._start << doublings, self._longest)
        delay -= int(delay * _JITTER * self._chance.fraction())
        node.due = self._clock.monotonic_ns() + delay
        return delay
